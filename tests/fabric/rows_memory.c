/* SPDX-License-Identifier: Apache-2.0 */
/* The reference fabric, alone and behind the adversary. Every order bit is granted alone once, so
 * that the adversary shuffles all the others. */
#include "memory.h"

/* As a job runs it: the adversary around the link. */
static enum perseus_status open_faulty_twice(const struct row *row, uint64_t seed,
                                             const struct prs_log *log, struct prs_clock clock,
                                             struct prs_fabric **out)
{
    const struct row link = {.unordered_mask = row->unordered_mask,
                             .faulty = {.latency_ns = 5000, .bytes_per_second = 1000000000}};
    struct prs_fabric *inside;
    enum perseus_status status = open_faulty(&link, seed, log, clock, &inside);
    return status == PERSEUS_OK ? row_shuffle(row, seed + 1000, log, clock, inside, out) : status;
}

#define SEEDS    200
#define SHUFFLED .open = open_faulty, .seeds = SEEDS, .shuffles = true, .notices_loss = true

const struct row fabric_rows[] = {
    {.name = "loopback", .open = open_loopback, .seeds = 20, .notices_loss = true},
    {.name = "loopback-unordered",
     .open = open_loopback,
     .seeds = 20,
     .notices_loss = true,
     .unordered_mask = PRS_ORDER_EVERY_PAIR},
    {.name = "loopback-bare",
     .open = open_loopback,
     .seeds = 20,
     .notices_loss = true,
     .unordered_mask = PRS_ORDER_EVERY_PAIR,
     .ungranted_mask =
         PRS_UNGRANT_FENCE | PRS_UNGRANT_IMMEDIATE | PRS_UNGRANT_DELIVERED | PRS_UNGRANT_ATOMICS},
    {.name = "loopback-lesser",
     .open = open_loopback,
     .seeds = 20,
     .notices_loss = true,
     .ungranted_mask = PRS_UNGRANT_COHERENT | PRS_UNGRANT_WIDE_IMMEDIATE},
    {.name = "shuffled-ordered",
     SHUFFLED,
     .faulty = {.reorder = true, .again_probability = 0.2, .jitter_ns = 3000}},
    {.name = "shuffled-unordered",
     SHUFFLED,
     .unordered_mask = PRS_ORDER_EVERY_PAIR,
     .faulty = {.reorder = true, .again_probability = 0.2}},
    {.name = "shuffled-put-put",
     SHUFFLED,
     .unordered_mask = PRS_ORDER_EVERY_PAIR & ~PRS_ORDER_PUT_PUT,
     .faulty = {.reorder = true, .jitter_ns = 3000}},
    {.name = "shuffled-put-set",
     SHUFFLED,
     .unordered_mask = PRS_ORDER_EVERY_PAIR & ~PRS_ORDER_PUT_SET,
     .faulty = {.reorder = true, .jitter_ns = 3000}},
    {.name = "shuffled-put-atomic",
     SHUFFLED,
     .unordered_mask = PRS_ORDER_EVERY_PAIR & ~PRS_ORDER_PUT_ATOMIC,
     .faulty = {.reorder = true, .jitter_ns = 3000}},
    {.name = "shuffled-set-set",
     SHUFFLED,
     .unordered_mask = PRS_ORDER_EVERY_PAIR & ~PRS_ORDER_SET_SET,
     .faulty = {.reorder = true, .jitter_ns = 3000}},
    {.name = "shuffled-fence-peer",
     SHUFFLED,
     .unordered_mask = PRS_ORDER_EVERY_PAIR,
     .fence_scope = PRS_FENCE_PEER,
     .faulty = {.reorder = true, .jitter_ns = 3000}},
    {.name = "shuffled-fence-endpoint",
     SHUFFLED,
     .unordered_mask = PRS_ORDER_EVERY_PAIR,
     .fence_scope = PRS_FENCE_ENDPOINT,
     .faulty = {.reorder = true, .jitter_ns = 3000}},
    {.name = "link",
     .open = open_faulty,
     .seeds = 50,
     .notices_loss = true,
     .unordered_mask = PRS_ORDER_EVERY_PAIR,
     .faulty = {.latency_ns = 5000, .jitter_ns = 20000, .bytes_per_second = 1000000000}},
    {.name = "shuffled-link",
     .open = open_faulty_twice,
     .seeds = 50,
     .shuffles = true,
     .notices_loss = true,
     .unordered_mask = PRS_ORDER_EVERY_PAIR,
     .faulty = {.reorder = true, .again_probability = 0.1}},
    {0},
};
