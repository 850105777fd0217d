/* SPDX-License-Identifier: Apache-2.0 */
/* The copy engines, alone and behind the adversary: PEs on the GPUs there are, in turn. Without
 * PERSEUS_CUDA_LIBRARY this is the real driver, and without that the rows are skipped. */
#include <stdio.h>

#include "fabric/cudadma/cudadma.h"
#include "row.h"

static enum perseus_status open_cudadma(const struct row *row, uint64_t seed,
                                        const struct prs_log *log, struct prs_clock clock,
                                        struct prs_fabric **out)
{
    (void)seed;
    struct prs_fabric_config config = {.provider = row->provider, .log = log, .clock = clock};
    return prs_cudadma_ops.open(&config, out);
}

static enum perseus_status open_faulty_cudadma(const struct row *row, uint64_t seed,
                                               const struct prs_log *log, struct prs_clock clock,
                                               struct prs_fabric **out)
{
    struct prs_fabric *inside;
    enum perseus_status status = open_cudadma(row, seed, log, clock, &inside);
    return status == PERSEUS_OK ? row_shuffle(row, seed, log, clock, inside, out) : status;
}

const struct row fabric_rows[] = {
    {.name = "batch", .open = open_cudadma, .seeds = 40, .notices_loss = true, .provider = "batch"},
    {.name = "stream",
     .open = open_cudadma,
     .seeds = 40,
     .notices_loss = true,
     .provider = "stream"},
    {.name = "shuffled-batch",
     .open = open_faulty_cudadma,
     .seeds = 40,
     .shuffles = true,
     .notices_loss = true,
     .provider = "batch",
     .faulty = {.reorder = true, .again_probability = 0.2}},
    {.name = "shuffled-stream",
     .open = open_faulty_cudadma,
     .seeds = 40,
     .shuffles = true,
     .notices_loss = true,
     .provider = "stream",
     .faulty = {.reorder = true, .again_probability = 0.2, .jitter_ns = 3000}},
    {0},
};
