/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU's memory by way of the host's, on the scripted driver, whose GPU's memory may be any: over
 * the loopback as it is, as lesser fabrics, behind the adversary on either side, and over tcp and
 * net. With rings at their minimum, that fill and wrap all the time. */
#include "fabric/staged/staged.h"
#include "memory.h"
#include "world.h"
#ifdef PERSEUS_HAVE_LIBFABRIC
#include "fabric/libfabric/libfabric.h"
#endif

#define ROOMY 65536

/* `inside` is taken over. Seeds count PEs, too. */
static enum perseus_status stage(struct prs_fabric *inside, uint64_t seed, uint64_t ring_bytes,
                                 const struct prs_log *log, struct prs_clock clock,
                                 struct prs_fabric **out)
{
    const struct prs_staged_config config = {.ring_bytes = ring_bytes, .log = log, .clock = clock};
    enum perseus_status status = prs_staged_wrap(inside, &config, out);
    if (status == PERSEUS_OK) {
        prs_staged_place(*out, (uint32_t)(seed % WORLD_PES), WORLD_PES);
    }
    return status;
}

/* Opens a row's fabric, with staging around it. */
static enum perseus_status stage_over(row_open_fn open, uint64_t ring_bytes, const struct row *row,
                                      uint64_t seed, const struct prs_log *log,
                                      struct prs_clock clock, struct prs_fabric **out)
{
    struct prs_fabric *inside;
    enum perseus_status status = open(row, seed, log, clock, &inside);
    return status == PERSEUS_OK ? stage(inside, seed, ring_bytes, log, clock, out) : status;
}

static enum perseus_status open_tight(const struct row *row, uint64_t seed,
                                      const struct prs_log *log, struct prs_clock clock,
                                      struct prs_fabric **out)
{
    return stage_over(open_loopback, PRS_STAGED_RING_BYTES_MIN, row, seed, log, clock, out);
}

static enum perseus_status open_roomy(const struct row *row, uint64_t seed,
                                      const struct prs_log *log, struct prs_clock clock,
                                      struct prs_fabric **out)
{
    return stage_over(open_loopback, ROOMY, row, seed, log, clock, out);
}

/* The adversary carries the slots. */
static enum perseus_status open_over_faulty(const struct row *row, uint64_t seed,
                                            const struct prs_log *log, struct prs_clock clock,
                                            struct prs_fabric **out)
{
    return stage_over(open_faulty, PRS_STAGED_RING_BYTES_MIN, row, seed, log, clock, out);
}

/* The adversary hands over the operations. */
static enum perseus_status open_shuffled(const struct row *row, uint64_t seed,
                                         const struct prs_log *log, struct prs_clock clock,
                                         struct prs_fabric **out)
{
    struct prs_fabric *inside;
    enum perseus_status status = open_roomy(row, seed, log, clock, &inside);
    return status == PERSEUS_OK ? row_shuffle(row, seed, log, clock, inside, out) : status;
}

static enum perseus_status open_provider(const struct row *row, uint64_t seed,
                                         const struct prs_log *log, struct prs_clock clock,
                                         struct prs_fabric **out)
{
    (void)clock;
#ifdef PERSEUS_HAVE_LIBFABRIC
    struct prs_fabric *inside;
    const struct prs_fabric_config config = {.provider = row->provider,
                                             .memory_kinds = PRS_MEMORY_HOST,
                                             .log = log,
                                             .clock = prs_clock_monotonic()};
    enum perseus_status status = prs_libfabric_ops.open(&config, &inside);
    return status == PERSEUS_OK
               ? stage(inside, seed, PRS_STAGED_RING_BYTES_MIN, log, prs_clock_monotonic(), out)
               : status;
#else
    (void)row, (void)seed, (void)log, (void)out;
    return PERSEUS_NOT_FOUND;
#endif
}

#define STAGED .memory = PRS_MEMORY_CUDA, .notices_loss = true
/* Within one process they notice a loss too late (tests/libfabric/rows.c). */
#define PROVIDER .memory = PRS_MEMORY_CUDA, .open = open_provider, .seeds = 3

const struct row fabric_rows[] = {
    {.name = "tight", STAGED, .open = open_tight, .seeds = 20},
    {.name = "roomy", STAGED, .open = open_roomy, .seeds = 20},
    {.name = "host-memory", .notices_loss = true, .open = open_tight, .seeds = 10},
    {.name = "tight-unordered",
     STAGED,
     .open = open_tight,
     .seeds = 20,
     .unordered_mask = PRS_ORDER_EVERY_PAIR,
     .ungranted_mask = PRS_UNGRANT_FENCE | PRS_UNGRANT_IMMEDIATE | PRS_UNGRANT_ATOMICS},
    {.name = "over-shuffled-ordered",
     STAGED,
     .open = open_over_faulty,
     .seeds = 20,
     .faulty = {.reorder = true, .again_probability = 0.2, .jitter_ns = 3000}},
    {.name = "over-shuffled-unordered",
     STAGED,
     .open = open_over_faulty,
     .seeds = 20,
     .unordered_mask = PRS_ORDER_EVERY_PAIR,
     .faulty = {.reorder = true, .again_probability = 0.2, .jitter_ns = 3000}},
    {.name = "shuffled",
     STAGED,
     .open = open_shuffled,
     .seeds = 20,
     .faulty = {.reorder = true, .again_probability = 0.2, .jitter_ns = 3000}},
    {.name = "tcp", PROVIDER, .provider = "tcp"},
    {.name = "net", PROVIDER, .provider = "net"},
    {0},
};
