/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include "fabric/loopback/loopback.h"

enum perseus_status open_loopback(const struct row *row, uint64_t seed, const struct prs_log *log,
                                  struct prs_clock clock, struct prs_fabric **out)
{
    (void)seed;
    struct prs_fabric_config config = {.unordered_mask = row->unordered_mask,
                                       .ungranted_mask = row->ungranted_mask,
                                       .log = log,
                                       .clock = clock};
    return prs_loopback_ops.open(&config, out);
}

enum perseus_status open_faulty(const struct row *row, uint64_t seed, const struct prs_log *log,
                                struct prs_clock clock, struct prs_fabric **out)
{
    struct prs_fabric *inside;
    enum perseus_status status = open_loopback(row, seed, log, clock, &inside);
    if (status != PERSEUS_OK) {
        return status;
    }
    if (row->fence_scope != PRS_FENCE_NONE) {
        inside->caps.fence_scope = row->fence_scope;
    }
    return row_shuffle(row, seed, log, clock, inside, out);
}
