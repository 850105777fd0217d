/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drain.c: drain and drain-peer. A fence stops the channel until everything (of one peer) has been
 * delivered; that is what stock proxies do, and what the other modes are measured against. The
 * stall itself is in fence.c; here is only which operations it holds: those submitted after it
 * began.
 */
#include "order/engine.h"

static enum prs_gate drain_gate(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                const struct prs_pending *pending, uint8_t *out_flags)
{
    (void)out_flags;
    const struct prs_stall *stall = &orderer->stall;
    if (!stall->active) {
        return PRS_GATE_GO;
    }
    if (stall->peer == NULL) {
        return pending->of_endpoint.epoch >= stall->after ? PRS_GATE_WAIT : PRS_GATE_GO;
    }
    return stall->peer == peer && pending->of_peer.epoch >= stall->after ? PRS_GATE_WAIT
                                                                         : PRS_GATE_GO;
}

const struct prs_mode prs_mode_drain = {.ordering = PERSEUS_ORDERING_DRAIN,
                                        .stripes = true,
                                        .stalls = true,
                                        .stalls_all = true,
                                        .gate = drain_gate,
                                        .may_apply = prs_mail_epoch_complete};

const struct prs_mode prs_mode_drain_peer = {.ordering = PERSEUS_ORDERING_DRAIN_PEER,
                                             .stripes = true,
                                             .stalls = true,
                                             .gate = drain_gate,
                                             .may_apply = prs_mail_epoch_complete};
