/* SPDX-License-Identifier: Apache-2.0 */
/*
 * counted.c: no order is asked of the fabric at all. Every put carries the number of the record
 * that will follow it; a signal is a record that says how many puts carried its number; the target
 * applies it when that many of that number, and every earlier record, have arrived. "N puts have
 * arrived" in total would not do: a later put may overtake an earlier one.
 *
 * Only a fence followed by a *put* needs the sender to wait (nobody holds back raw data at the
 * target).
 */
#include "order/engine.h"

static enum prs_gate counted_gate(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                  const struct prs_pending *pending, uint8_t *out_flags)
{
    (void)orderer;
    (void)out_flags;
    if (pending->form == PRS_FORM_RECORD || prs_epochs_passed(&peer->epochs, pending->after)) {
        return PRS_GATE_GO;
    }
    return PRS_GATE_WAIT;
}

const struct prs_mode prs_mode_counted = {.ordering = PERSEUS_ORDERING_COUNTED,
                                          .counted = true,
                                          .rides = true,
                                          .stripes = true,
                                          .gate = counted_gate,
                                          .may_apply = prs_mail_epoch_complete};
