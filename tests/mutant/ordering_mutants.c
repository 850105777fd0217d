/* SPDX-License-Identifier: Apache-2.0 */
#include "mutant/ordering_mutants.h"

#define LANES       4
#define PIECE_BYTES 16

/* ---- nic-fence ---- */

static enum prs_gate gate_fence_dropped(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                        const struct prs_pending *pending, uint8_t *out_flags)
{
    (void)orderer;
    (void)peer;
    (void)pending;
    (void)out_flags;
    return PRS_GATE_GO;
}

static enum prs_gate gate_flag_lost_on_again(struct prs_orderer *orderer,
                                             struct prs_order_peer *peer,
                                             const struct prs_pending *pending, uint8_t *out_flags)
{
    enum prs_gate gate = prs_mode_nic_fence.gate(orderer, peer, pending, out_flags);
    if ((*out_flags & PRS_OP_FENCE) != 0) {
        peer->flagged_after = pending->after; /* although the post may be refused */
    }
    return gate;
}

static enum prs_gate gate_flag_on_wrong_peer(struct prs_orderer *orderer,
                                             struct prs_order_peer *peer,
                                             const struct prs_pending *pending, uint8_t *out_flags)
{
    uint32_t other = (peer->rank + 1) % orderer->config.n_peers;
    struct prs_order_peer *wrong = other == orderer->config.self ? NULL : orderer->peers[other];
    (void)pending;
    if (wrong != NULL && wrong->fence_after > wrong->flagged_after) {
        *out_flags |= PRS_OP_FENCE;
        wrong->flagged_after = wrong->fence_after;
    }
    return PRS_GATE_GO;
}

static enum prs_gate gate_put_unflagged(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                        const struct prs_pending *pending, uint8_t *out_flags)
{
    return pending->op.kind == PRS_OP_PUT
               ? PRS_GATE_GO
               : prs_mode_nic_fence.gate(orderer, peer, pending, out_flags);
}

/* ---- deferred ---- */

static enum prs_gate gate_any_completion(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                         const struct prs_pending *pending, uint8_t *out_flags)
{
    (void)orderer;
    (void)out_flags;
    /* "Something of the epoch has completed" instead of all of it. */
    const struct prs_epoch_member *oldest = peer->epochs.oldest;
    return oldest == NULL || oldest->epoch + 1 >= pending->after ? PRS_GATE_GO : PRS_GATE_WAIT;
}

/* ---- counted ---- */

static bool apply_on_arrivals(const struct prs_mail_in *in, const struct prs_record *record)
{
    uint32_t arrivals = 0;
    for (uint32_t i = 0; i < PRS_NUMBERS; i++) {
        arrivals += in->arrived[i];
    }
    return arrivals >= record->puts; /* "N have arrived" is not "the first N have" */
}

static bool apply_at_once(const struct prs_mail_in *in, const struct prs_record *record)
{
    (void)in;
    (void)record;
    return true;
}

static bool apply_on_first_piece(const struct prs_mail_in *in, const struct prs_record *record)
{
    return record->puts == 0 || in->arrived[in->epoch % PRS_NUMBERS] > 0;
}

/* ---- fifo ---- */

static enum prs_gate gate_records_ignored(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                          const struct prs_pending *pending, uint8_t *out_flags)
{
    return gate_fence_dropped(orderer, peer, pending, out_flags);
}

/* ---- several lanes: the puts of these are spread over them, and their signals are not ---- */

static enum prs_gate gate_fifo_over_lanes(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                          const struct prs_pending *pending, uint8_t *out_flags)
{
    return prs_mode_fifo.gate(orderer, peer, pending, out_flags);
}

static enum prs_gate gate_fence_over_lanes(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                           const struct prs_pending *pending, uint8_t *out_flags)
{
    return prs_mode_nic_fence.gate(orderer, peer, pending, out_flags);
}

struct mutant ordering_mutants[] = {
    {"fence dropped", {.gate = gate_fence_dropped}, PRS_ORDER_EVERY_PAIR, 0, 0, 0},
    {"flag lost on AGAIN", {.gate = gate_flag_lost_on_again}, PRS_ORDER_EVERY_PAIR, 0, 0, 0},
    {"flag applied to the wrong peer",
     {.gate = gate_flag_on_wrong_peer},
     PRS_ORDER_EVERY_PAIR,
     0,
     0,
     0},
    {"put after a fence unflagged", {.gate = gate_put_unflagged}, PRS_ORDER_EVERY_PAIR, 0, 0, 0},
    {"deferred released by any completion",
     {.gate = gate_any_completion},
     PRS_ORDER_EVERY_PAIR,
     0,
     0,
     0},
    {"counted counts arrivals instead of epochs",
     {.counted = true, .may_apply = apply_on_arrivals},
     PRS_ORDER_EVERY_PAIR,
     0,
     0,
     0},
    {"counted does not count",
     {.counted = true, .may_apply = apply_at_once},
     PRS_ORDER_EVERY_PAIR,
     0,
     0,
     0},
    {"fifo lets writes pass records that the target's CPU applies",
     {.gate = gate_records_ignored},
     0,
     PRS_UNGRANT_COHERENT,
     0,
     0},
    {"puts on lanes of their own, as if their order reached across",
     {.stripes = true, .gate = gate_fifo_over_lanes},
     0,
     0,
     LANES,
     0},
    {"puts on lanes of their own, as if a fence flag reached across",
     {.stripes = true, .gate = gate_fence_over_lanes},
     PRS_ORDER_EVERY_PAIR,
     0,
     LANES,
     0},
    {"counted does not count over lanes whose order is granted",
     {.counted = true, .stripes = true, .may_apply = apply_at_once},
     0,
     0,
     LANES,
     0},
    {"a signal counts the first piece of its put only",
     {.counted = true, .stripes = true, .may_apply = apply_on_first_piece},
     0,
     0,
     LANES,
     PIECE_BYTES},
};
const uint32_t ordering_mutants_count = sizeof ordering_mutants / sizeof ordering_mutants[0];

void ordering_mutants_fill(void)
{
    for (uint32_t i = 0; i < ordering_mutants_count; i++) {
        struct prs_mode *mode = &ordering_mutants[i].mode;
        mode->ordering = mode->counted ? PERSEUS_ORDERING_COUNTED : PERSEUS_ORDERING_NIC_FENCE;
        if (mode->gate == NULL) {
            mode->gate = prs_mode_counted.gate;
        }
        if (mode->may_apply == NULL) {
            mode->may_apply = prs_mail_epoch_complete;
        }
        if (mode->gate == gate_put_unflagged || mode->gate == gate_flag_lost_on_again ||
            mode->gate == gate_fence_over_lanes) {
            mode->posted = prs_mode_nic_fence.posted;
        }
    }
}
