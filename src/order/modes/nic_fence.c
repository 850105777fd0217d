/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nic_fence.c: the paper's NIC-side ordering (section 4.2). The first operation of any kind after a
 * fence carries the fabric's fence flag; the flag counts as given only once the post returned OK,
 * so that AGAIN repeats it. No flag is spent when everything it would wait for has completed
 * already.
 */
#include "order/engine.h"

static enum prs_gate nic_fence_gate(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                    const struct prs_pending *pending, uint8_t *out_flags)
{
    if (prs_order_proven(orderer, peer, pending)) {
        return PRS_GATE_GO;
    }
    if (prs_order_behind_records(orderer, peer, pending)) {
        return PRS_GATE_WAIT;
    }
    if (pending->after > peer->flagged_after) {
        *out_flags |= PRS_OP_FENCE;
    }
    return PRS_GATE_GO;
}

static void nic_fence_posted(struct prs_orderer *orderer, struct prs_order_peer *peer,
                             const struct prs_pending *pending, uint8_t flags)
{
    (void)orderer;
    if ((flags & PRS_OP_FENCE) != 0) {
        peer->flagged_after = pending->after;
    }
}

const struct prs_mode prs_mode_nic_fence = {.ordering = PERSEUS_ORDERING_NIC_FENCE,
                                            .gate = nic_fence_gate,
                                            .posted = nic_fence_posted,
                                            .may_apply = prs_mail_epoch_complete};
