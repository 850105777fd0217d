/* SPDX-License-Identifier: Apache-2.0 */
/* Every transfer is a put with signal: the paper's vanilla. */
#include "moe/layer.h"

const struct prs_moe_protocol prs_moe_coupled = {
    .in_flight_max = PRS_MOE_HALVES,
    .send = prs_protocol_put_signal,
};

/* The signal right behind the put, with nothing that would keep it there. */
static enum perseus_status send_unordered(struct perseus_moe *moe, const struct prs_round *round,
                                          const struct prs_moe_transfer *transfer)
{
    enum perseus_status status = prs_protocol_put(moe, round, transfer);
    return status == PERSEUS_OK
               ? perseus_signal_op(moe->pe, transfer->signal, prs_moe_word_pack(transfer->word),
                                   PERSEUS_SIGNAL_SET, (int)transfer->pe)
               : status;
}

const struct prs_moe_protocol prs_moe_coupled_unordered = {
    .in_flight_max = 1,
    .send = send_unordered,
};
