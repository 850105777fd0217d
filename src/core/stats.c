/* SPDX-License-Identifier: Apache-2.0 */
#include "base/export.h"
#include "core/address.h"

static uint64_t local_ops(const struct perseus_pe *pe, int target)
{
    /* Relaxed, like its writers: a snapshot. */
    return atomic_load_explicit(&pe->peers->peer[target].local_ops, memory_order_relaxed);
}

PRS_PUBLIC enum perseus_status perseus_stats(struct perseus_pe *pe, int target,
                                             struct perseus_stats *out)
{
    bool is_all = target == PERSEUS_ALL_PES;
    enum perseus_status status = is_all ? PERSEUS_OK : prs_check_target(pe, target, NULL);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct perseus_stats stats = {0};
    if (pe->channel != NULL) {
        prs_channel_stats(pe->channel, is_all ? PRS_ORDER_ALL_PEERS : (uint32_t)target, &stats);
    }
    for (int peer = is_all ? 0 : target; peer <= (is_all ? pe->size - 1 : target); peer++) {
        stats.local_ops += local_ops(pe, peer);
    }
    *out = stats;
    return PERSEUS_OK;
}
