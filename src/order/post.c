/* SPDX-License-Identifier: Apache-2.0 */
/* post.c: an operation on its way into the fabric: gate, stamp, post, remember. */
#include "order/engine.h"

/* What depends on all that was posted before it is filled in only now. AGAIN: the mailbox is
 * full. */
static enum perseus_status stamp(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                 struct prs_pending *pending, struct prs_op *op)
{
    if (pending->form == PRS_FORM_RECORD) {
        return prs_mail_stamp_record(orderer, pending, op);
    }
    if (pending->form == PRS_FORM_RIDING) {
        return prs_mail_stamp_riding(orderer, pending, op);
    }
    if (orderer->mode->counted && op->kind == PRS_OP_PUT) {
        prs_mail_stamp_put(orderer, peer, op);
    }
    return PERSEUS_OK;
}

/* A transfer takes the next lane at every try, so a full one holds up nobody for whom another has
 * room. Everything else is small, and one lane keeps its answers in order. */
static uint8_t lane_of(const struct prs_orderer *orderer, struct prs_order_peer *peer,
                       const struct prs_pending *pending)
{
    bool is_transfer = pending->op.kind == PRS_OP_PUT || pending->op.kind == PRS_OP_GET;
    if (!orderer->mode->stripes || !is_transfer || pending->form == PRS_FORM_RECORD) {
        return peer->lane;
    }
    return (uint8_t)(peer->turn++ % orderer->lanes);
}

static void remember(struct prs_orderer *orderer, struct prs_order_peer *peer,
                     struct prs_pending *pending, const struct prs_op *op)
{
    pending->waits = PRS_WAIT_LOCAL;
    pending->sequence = ++peer->posts;
    pending->asked = op->kind == PRS_OP_PUT && (op->flags & PRS_OP_EARLY) == 0;
    if (pending->form == PRS_FORM_DIRECT && (op->flags & PRS_OP_EARLY) != 0) {
        prs_order_unproven(orderer, pending);
    }
    if (pending->form != PRS_FORM_DIRECT) {
        pending->waits |= PRS_WAIT_ANSWER;
        prs_mail_posted(orderer, pending);
    } else if (orderer->mode->counted && op->kind == PRS_OP_PUT) {
        peer->mail_out.puts++;
    } else if (op->kind == PRS_OP_ATOMIC || op->kind == PRS_OP_ATOMIC_FETCH) {
        pending->native_atomic = true;
        peer->native_atomics_open++;
    }
    if ((op->flags & PRS_OP_FENCE) != 0) {
        prs_count(&peer->counters.fence_flags, 1);
    }
    if (orderer->mode->posted != NULL) {
        orderer->mode->posted(orderer, peer, pending, op->flags);
    }
}

enum perseus_status prs_order_try(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                  struct prs_pending *pending, bool *out_wait)
{
    uint8_t flags = 0;
    *out_wait = orderer->mode->gate(orderer, peer, pending, &flags) == PRS_GATE_WAIT;
    if (*out_wait) {
        return PERSEUS_AGAIN;
    }
    struct prs_op op = pending->op;
    op.lane = lane_of(orderer, peer, pending);
    op.flags |= flags;
    if (orderer->caps.batching) {
        op.flags |= PRS_OP_MORE;
    }
    if (prs_order_may_be_early(orderer, peer, pending)) {
        op.flags |= PRS_OP_EARLY;
    }
    enum perseus_status status = stamp(orderer, peer, pending, &op);
    if (status == PERSEUS_AGAIN) {
        *out_wait = true; /* an answer makes room */
        return status;
    }
    status = orderer->ops->post(orderer->config.endpoint, &op);
    prs_order_peer_watch(orderer, peer);
    if (status == PERSEUS_AGAIN) {
        prs_count(&peer->counters.again, 1);
    } else if (status == PERSEUS_OK) {
        remember(orderer, peer, pending, &op);
    } else {
        prs_order_peer_fail(orderer, peer, status);
    }
    return status;
}
