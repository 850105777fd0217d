/* SPDX-License-Identifier: Apache-2.0 */
/* Payloads first; the last pair of a group to arrive leads: one fence, then the group's signals
 * (paper, algorithm 1). The paper groups dispatch alone, and answers are coupled; group_combine
 * groups both. */
#include "moe/layer.h"

static bool is_grouped(const struct perseus_moe *moe, const struct prs_moe_transfer *transfer)
{
    return transfer->way == PRS_MOE_DISPATCH || moe->mode.are_answers_grouped;
}

/* The tiles of an answer may be sent by several threads, but a group's member has one at a time:
 * each puts its payload itself, and the last one arrives for the pair. */
static enum perseus_status send(struct perseus_moe *moe, const struct prs_round *round,
                                const struct prs_moe_transfer *transfer)
{
    return is_grouped(moe, transfer) ? prs_protocol_put(moe, round, transfer)
                                     : prs_protocol_put_signal(moe, round, transfer);
}

static enum perseus_status arrive(struct perseus_moe *moe, const struct prs_round *round,
                                  const struct prs_moe_transfer *pair)
{
    if (!is_grouped(moe, pair)) {
        return PERSEUS_OK;
    }
    const struct prs_membership *place = prs_groups_place(moe, round->half, pair);
    return perseus_signal_group_put(place->group, place->member, NULL, NULL, 0,
                                    prs_moe_word_pack(pair->word));
}

const struct prs_moe_protocol prs_moe_decoupled = {
    .has_groups = true,
    .in_flight_max = PRS_MOE_HALVES,
    .send = send,
    .arrive = arrive,
};
