/* SPDX-License-Identifier: Apache-2.0 */
/* The contract suite (tests/fabric) on an RDMA device, all PEs in one process. Where there is none
 * the rows are skipped, so it counts only where tests/rdma/contract.sh runs it. */
#include "fabric/row.h"
#include "fabric/verbs/verbs.h"

static enum perseus_status open_device(const struct row *row, uint64_t seed,
                                       const struct prs_log *log, struct prs_clock clock,
                                       struct prs_fabric **out)
{
    (void)row, (void)clock;
    const struct prs_fabric_config config = {.memory_kinds = PRS_MEMORY_HOST,
                                             .ordinal = (uint32_t)seed,
                                             .want_atomics = true,
                                             .log = log,
                                             .clock = prs_clock_monotonic()};
    return prs_verbs_ops.open(&config, out);
}

/* The same behind the adversary, which shuffles what the device did not grant. */
static enum perseus_status open_shuffled(const struct row *row, uint64_t seed,
                                         const struct prs_log *log, struct prs_clock clock,
                                         struct prs_fabric **out)
{
    struct prs_fabric *inside;
    enum perseus_status status = open_device(row, seed, log, clock, &inside);
    return status == PERSEUS_OK ? row_shuffle(row, seed, log, clock, inside, out) : status;
}

const struct row fabric_rows[] = {
    {.name = "verbs", .open = open_device, .seeds = 3, .notices_loss = true},
    {.name = "shuffled-verbs",
     .open = open_shuffled,
     .seeds = 2,
     .faulty = {.reorder = true, .again_probability = 0.1}},
    {0},
};
