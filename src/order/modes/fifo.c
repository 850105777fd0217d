/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fifo.c: the connection itself keeps order, so nothing is done, where the granted order covers the
 * pair of kinds. Pairs it does not cover (native atomics on most fabrics) and operations behind
 * unacknowledged records wait as in `deferred`.
 */
#include "order/engine.h"

static bool order_covers(const struct prs_orderer *orderer, const struct prs_order_peer *peer,
                         const struct prs_pending *pending)
{
    switch ((enum prs_op_kind)pending->op.kind) {
    case PRS_OP_PUT:
    case PRS_OP_SIGNAL_SET:
        /* The mode's own check asked for PUT_PUT, PUT_SET and SET_SET; nothing orders a write
         * behind a native atomic. */
        return peer->native_atomics_open == 0;
    case PRS_OP_ATOMIC:
    case PRS_OP_ATOMIC_FETCH:
        return (orderer->caps.order & PRS_ORDER_PUT_ATOMIC) != 0;
    default:
        return true; /* gets are not ordered by fences */
    }
}

static enum prs_gate fifo_gate(struct prs_orderer *orderer, struct prs_order_peer *peer,
                               const struct prs_pending *pending, uint8_t *out_flags)
{
    (void)out_flags;
    if (prs_epochs_passed(&peer->epochs, pending->after)) {
        return PRS_GATE_GO;
    }
    bool covered =
        order_covers(orderer, peer, pending) && !prs_order_behind_records(orderer, peer, pending);
    return covered ? PRS_GATE_GO : PRS_GATE_WAIT;
}

const struct prs_mode prs_mode_fifo = {.ordering = PERSEUS_ORDERING_FIFO,
                                       .rides = true,
                                       .ordered = true,
                                       .gate = fifo_gate,
                                       .may_apply = prs_mail_epoch_complete};
