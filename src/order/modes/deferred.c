/* SPDX-License-Identifier: Apache-2.0 */
/* deferred.c: what must come after waits, parked, until what it must be after has been delivered.
 * Nobody else waits; the price is one round trip before a signal leaves. */
#include "order/engine.h"

static enum prs_gate deferred_gate(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                   const struct prs_pending *pending, uint8_t *out_flags)
{
    (void)orderer;
    (void)out_flags;
    return prs_epochs_passed(&peer->epochs, pending->after) ? PRS_GATE_GO : PRS_GATE_WAIT;
}

const struct prs_mode prs_mode_deferred = {.ordering = PERSEUS_ORDERING_DEFERRED,
                                           .stripes = true,
                                           .gate = deferred_gate,
                                           .may_apply = prs_mail_epoch_complete};
