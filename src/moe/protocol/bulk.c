/* SPDX-License-Identifier: Apache-2.0 */
/* One PE's transfers together. */
#include "moe/layer.h"

enum { VECTOR_MAX = 64 }; /* words gathered at a time */

/* Pairs with one PE: its experts, or, for answers, the own ones. */
static uint32_t pairs_with(const struct perseus_moe *moe, enum prs_moe_way way, uint32_t pe)
{
    return way == PRS_MOE_DISPATCH ? prs_moe_hosted(&moe->plan, pe) : moe->hosted;
}

/* All rows for a PE lie together, here and there; so do all answers to it. */
static enum perseus_status put_to(struct perseus_moe *moe, const struct prs_round *round,
                                  enum prs_moe_way way, uint32_t pe)
{
    uint32_t n = pairs_with(moe, way, pe);
    if (n == 0) {
        return PERSEUS_OK;
    }
    const struct prs_moe_transfer first = prs_moe_transfer_pair(moe, round, way, pe, 0);
    const struct prs_moe_transfer last = prs_moe_transfer_pair(moe, round, way, pe, n - 1);
    size_t bytes = (size_t)((char *)last.dst + last.bytes - (char *)first.dst);
    return perseus_put_nbi(moe->pe, first.dst, first.src, bytes, (int)pe);
}

static enum perseus_status signal_to(struct perseus_moe *moe, const struct prs_round *round,
                                     enum prs_moe_way way, uint32_t pe)
{
    uint64_t words[VECTOR_MAX];
    uint32_t n = pairs_with(moe, way, pe);
    enum perseus_status status = PERSEUS_OK;
    for (uint32_t at = 0, some; at < n && status == PERSEUS_OK; at += some) {
        some = n - at < VECTOR_MAX ? n - at : VECTOR_MAX;
        for (uint32_t i = 0; i < some; i++) {
            words[i] = prs_moe_word_pack(prs_moe_transfer_pair(moe, round, way, pe, at + i).word);
        }
        status = perseus_signal_set_vector(moe->pe, prs_moe_signal(moe, round->half, way, at),
                                           words, some, (int)pe);
    }
    return status;
}

static enum perseus_status
each_pe(struct perseus_moe *moe, const struct prs_round *round, enum prs_moe_way way,
        enum perseus_status (*step)(struct perseus_moe *moe, const struct prs_round *round,
                                    enum prs_moe_way way, uint32_t pe))
{
    enum perseus_status status = PERSEUS_OK;
    for (uint32_t distance = 1; distance <= moe->plan.n_pes && status == PERSEUS_OK; distance++) {
        uint32_t pe = (moe->self + distance) % moe->plan.n_pes;
        if (!prs_moe_is_direct(moe, pe)) {
            status = step(moe, round, way, pe);
        }
    }
    return status;
}

enum perseus_status prs_bulk_put(struct perseus_moe *moe, const struct prs_round *round,
                                 enum prs_moe_way way)
{
    return each_pe(moe, round, way, put_to);
}

enum perseus_status prs_bulk_signal(struct perseus_moe *moe, const struct prs_round *round,
                                    enum prs_moe_way way)
{
    return each_pe(moe, round, way, signal_to);
}
