/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prove.c: deliveries that are not asked for one by one.
 *
 * Where a fabric's puts may complete early, the delivery of each costs a message back. So no put
 * asks for it but one that a thread waits for: the others complete when their sources are reusable.
 *
 * For records that is enough: their answers say more. Other puts complete early only where the lane
 * keeps puts in order (fifo); they stay open, unproven, until a put posted behind them is known to
 * be delivered: one that asked, an answered record, or a flush, a put of 8 bytes that nobody reads;
 * like an answer it needs nothing of the pools. While a record behind them waits for its answer
 * that is proof enough to come. Else a flush is sent when a quiet or a parked operation waits, when
 * there are many, or when there is nothing else to do.
 *
 * What completed early does not tell that its connection broke. So a peer that owes something and
 * is silent is sent a flush, too (fail.c).
 */
#include "order/engine.h"

#define LOOKS_A_STEP 16u
#define MANY         128u /* unproven puts that are worth a flush of their own */

bool prs_order_may_be_early(const struct prs_orderer *orderer, const struct prs_order_peer *peer,
                            const struct prs_pending *pending)
{
    if (!orderer->caps.completes_early || pending->op.kind != PRS_OP_PUT) {
        return false;
    }
    bool provable = orderer->mode->ordered && peer->control != NULL && pending->token == PRS_NONE;
    return pending->form != PRS_FORM_DIRECT || provable;
}

void prs_order_unproven(struct prs_orderer *orderer, struct prs_pending *pending)
{
    struct prs_order_peer *peer = pending->peer;
    uint32_t index = prs_pending_index(orderer, pending);
    pending->waits |= PRS_WAIT_PROOF;
    pending->next = PRS_NONE;
    if (peer->unproven_count++ == 0) {
        peer->unproven_first = index;
    } else {
        orderer->pools.pendings[peer->unproven_last].next = index;
    }
    peer->unproven_last = index;
    if (!peer->prove_listed) {
        peer->prove_listed = true;
        peer->prove_next = NULL;
        if (orderer->unproven.first == NULL) {
            orderer->unproven.first = peer;
        } else {
            orderer->unproven.last->prove_next = peer;
        }
        orderer->unproven.last = peer;
    }
}

/* Ends the unproven puts that were posted before `sequence`. */
static void end_unproven(struct prs_orderer *orderer, struct prs_order_peer *peer,
                         uint64_t sequence, enum perseus_status status)
{
    while (peer->unproven_count > 0) {
        struct prs_pending *pending = &orderer->pools.pendings[peer->unproven_first];
        if (pending->sequence >= sequence) {
            return;
        }
        peer->unproven_first = pending->next;
        peer->unproven_count--;
        prs_pending_clear(orderer, pending, PRS_WAIT_PROOF, status);
    }
}

void prs_order_prove(struct prs_orderer *orderer, struct prs_order_peer *peer, uint64_t sequence)
{
    if (orderer->mode->ordered) {
        end_unproven(orderer, peer, sequence, PERSEUS_OK);
    }
}

void prs_order_disprove(struct prs_orderer *orderer, struct prs_order_peer *peer,
                        enum perseus_status status)
{
    end_unproven(orderer, peer, UINT64_MAX, status);
}

void prs_order_flushed(struct prs_orderer *orderer, struct prs_order_peer *peer)
{
    uint64_t sequence = peer->flush_sequence;
    peer->flush_sequence = 0;
    prs_order_prove(orderer, peer, sequence);
}

void prs_order_flush_peer(struct prs_orderer *orderer, struct prs_order_peer *peer)
{
    static const uint64_t nothing;
    struct prs_op op = {.kind = PRS_OP_PUT,
                        .lane = peer->lane,
                        .peer = peer->fabric_peer,
                        .remote = peer->control,
                        .remote_offset = orderer->layout.scratch,
                        .bytes = sizeof nothing,
                        .cookie = PRS_COOKIE_FLUSH | peer->rank};
    if (op.bytes <= orderer->caps.inline_bytes) {
        op.flags |= PRS_OP_INLINE;
        op.inline_source = &nothing;
    } else {
        op.local = orderer->control_region;
        op.local_offset = orderer->layout.scratch;
    }
    op.flags |= orderer->caps.batching ? PRS_OP_MORE : 0;
    enum perseus_status status = orderer->ops->post(orderer->config.endpoint, &op);
    if (status == PERSEUS_OK) {
        peer->flush_sequence = ++peer->posts;
    } else if (status != PERSEUS_AGAIN) {
        prs_order_peer_fail(orderer, peer, status);
    }
}

/* A record that was posted behind all of them is not answered yet: its answer proves them. */
static bool is_answer_coming(const struct prs_orderer *orderer, const struct prs_order_peer *peer)
{
    const struct prs_pending *pendings = orderer->pools.pendings;
    return peer->mail_out.first_open != PRS_NONE &&
           pendings[peer->mail_out.last_open].sequence > pendings[peer->unproven_last].sequence;
}

/* Whether it is to be looked at again. */
static bool look(struct prs_orderer *orderer, struct prs_order_peer *peer, bool idle)
{
    if (peer->unproven_count == 0 || peer->status != PERSEUS_OK) {
        return false;
    }
    bool due = idle || orderer->quiets_count > 0 || orderer->stall.active ||
               peer->parked_count > 0 || peer->unproven_count >= MANY;
    /* What a flush on its way does not prove, the next look will. */
    if (!due || peer->flush_sequence != 0 || is_answer_coming(orderer, peer)) {
        return true;
    }
    prs_order_flush_peer(orderer, peer);
    return true;
}

bool prs_order_prove_pump(struct prs_orderer *orderer, bool idle)
{
    struct prs_peer_list *list = &orderer->unproven;
    struct prs_order_peer *last = list->last;
    bool did = false;
    for (uint32_t i = 0; list->first != NULL && i < LOOKS_A_STEP; i++) {
        struct prs_order_peer *peer = list->first;
        uint64_t flushes = peer->flush_sequence;
        list->first = peer->prove_next;
        peer->prove_listed = false;
        if (look(orderer, peer, idle)) {
            peer->prove_listed = true;
            peer->prove_next = NULL;
            if (list->first == NULL) {
                list->first = peer;
            } else {
                list->last->prove_next = peer;
            }
            list->last = peer;
        }
        did |= peer->flush_sequence != flushes;
        if (peer == last) {
            break;
        }
    }
    return did;
}
