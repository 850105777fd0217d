/* SPDX-License-Identifier: Apache-2.0 */
/* post.c: an item on its way into the fabric: gate, stamp, post, remember. */
#include "order/engine.h"

enum perseus_status prs_order_post(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                   const struct prs_op *op)
{
    enum perseus_status status = orderer->ops->post(orderer->config.endpoint, op);
    if (status == PERSEUS_AGAIN) {
        prs_count(&peer->counters.again, 1);
    } else if (status == PERSEUS_PEER_LOST) {
        prs_order_peer_lost(orderer, peer, status);
    }
    return status;
}

/* A record gets its number, and the count of its epoch, only now: both depend on what was posted
 * before. */
static enum perseus_status stamp_record(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                        const struct prs_item *item, struct prs_op *op)
{
    struct prs_mail_out *mail = &peer->mail_out;
    if (mail->next - mail->acked >= PRS_MAIL_SLOTS) {
        return PERSEUS_AGAIN;
    }
    struct prs_record *record = prs_stage_memory(orderer, orderer->pendings[item->pending].stage);
    record->number = mail->next;
    record->puts = mail->puts;
    op->remote = peer->control;
    op->remote_offset =
        orderer->control_layout.mail +
        ((uint64_t)orderer->config.self * PRS_MAIL_SLOTS + mail->next % PRS_MAIL_SLOTS) *
            sizeof *record;
    op->flags |= PRS_OP_IMMEDIATE;
    op->immediate = prs_immediate_encode(
        &orderer->immediate, &(struct prs_immediate){.kind = PRS_IMMEDIATE_RECORD,
                                                     .sender = orderer->config.self,
                                                     .epoch = mail->next % PRS_IMMEDIATE_EPOCHS});
    return PERSEUS_OK;
}

static void stamp_counted_put(struct prs_orderer *orderer, struct prs_order_peer *peer,
                              const struct prs_item *item, struct prs_op *op)
{
    uint64_t bits = item->op.immediate;
    if (!item->immediate_signal) {
        bits = prs_immediate_encode(
            &orderer->immediate,
            &(struct prs_immediate){.kind = PRS_IMMEDIATE_PUT, .sender = orderer->config.self});
    }
    op->flags |= PRS_OP_IMMEDIATE;
    op->immediate = prs_immediate_with_epoch(&orderer->immediate, bits, peer->mail_out.next);
}

static void remember_record(struct prs_order_peer *peer, const struct prs_pending *pending,
                            uint32_t index)
{
    struct prs_mail_out *mail = &peer->mail_out;
    mail->pending[mail->next % PRS_MAIL_SLOTS] = index;
    mail->epoch[mail->next % PRS_MAIL_SLOTS] = pending->epoch;
    mail->next++;
    mail->puts = 0;
    mail->signals_unacked = 0; /* this record's acknowledgement covers them */
}

static void remember_counted_put(struct prs_order_peer *peer, const struct prs_item *item)
{
    peer->mail_out.puts++;
    if (item->immediate_signal) {
        peer->mail_out.signals_parked--;
        peer->mail_out.signals_unacked++;
    }
}

enum perseus_status prs_order_try(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                  struct prs_item *item, bool *out_wait)
{
    uint8_t flags = 0;
    *out_wait = orderer->mode->gate(orderer, peer, item, &flags) == PRS_GATE_WAIT;
    if (*out_wait) {
        return PERSEUS_AGAIN;
    }
    struct prs_op op = item->op;
    op.flags |= flags;
    if (orderer->caps.batching) {
        op.flags |= PRS_OP_MORE;
    }
    op.cookie = item->pending;
    bool counted_put =
        orderer->mode->counted && item->form == PRS_ITEM_DIRECT && op.kind == PRS_OP_PUT;
    enum perseus_status status = PERSEUS_OK;
    if (item->form == PRS_ITEM_RECORD) {
        status = stamp_record(orderer, peer, item, &op);
    } else if (counted_put) {
        stamp_counted_put(orderer, peer, item, &op);
    }
    if (status == PERSEUS_OK) {
        status = prs_order_post(orderer, peer, &op);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_pending *pending = &orderer->pendings[item->pending];
    if (item->form == PRS_ITEM_RECORD) {
        remember_record(peer, pending, item->pending);
    } else if (counted_put) {
        remember_counted_put(peer, item);
    } else if (op.kind == PRS_OP_ATOMIC || op.kind == PRS_OP_ATOMIC_FETCH) {
        pending->native_atomic = true;
        peer->native_atomics_open++;
    }
    if ((op.flags & PRS_OP_FENCE) != 0) {
        prs_count(&peer->counters.fence_flags, 1);
    }
    if (orderer->mode->posted != NULL) {
        orderer->mode->posted(orderer, peer, item, op.flags);
    }
    return PERSEUS_OK;
}
