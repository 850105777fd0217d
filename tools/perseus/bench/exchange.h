/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench/exchange.h: who puts what where; pure. Every PE computes the same exchange from the same
 * workload, so nothing about it travels.
 *
 * A PE's part of the symmetric heap: the source area, the same bytes on every PE; the payload area,
 * where its incoming transfers land one behind the other, by sender; one signal word per incoming
 * transfer, in the same order. So the signals of one sender to one target are contiguous.
 *
 * The bytes of a transfer are a window of the source area that moves with every round: a receiver
 * compares with its own source area, and bytes of an earlier round or a neighbour never match.
 */
#ifndef PRS_TOOLS_BENCH_EXCHANGE_H
#define PRS_TOOLS_BENCH_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PRS_BENCH_WINDOW_STEP   64
#define PRS_BENCH_WINDOW_STARTS 1021 /* prime: rounds and transfers walk through all of them */

struct prs_bench_transfer {
    uint32_t sender, target; /* PEs */
    uint32_t index;          /* among the sender's, from 0 */
    uint32_t slot;           /* signal word at the target */
    uint64_t offset;         /* in the target's payload area */
    uint64_t bytes;          /* a multiple of 8 */
};

struct prs_bench_workload {
    uint32_t n_pes, n_cells;
    uint32_t transfers_max; /* of one sender in one cell */
    uint64_t bytes_max;     /* of one transfer */
    const void *context;
    /* Fills target and bytes of what `sender` sends in `cell`, in the order of submission; returns
     * how many. */
    uint32_t (*sends)(const void *context, uint32_t cell, uint32_t sender,
                      struct prs_bench_transfer *out);
};

/* What one PE sends and receives in one cell, and what the largest receiver receives. */
struct prs_bench_exchange {
    struct prs_bench_transfer *outgoing, *incoming;
    uint32_t n_outgoing, n_incoming;
    uint64_t payload_bytes_max;
    uint32_t slots_max;
    uint32_t n_taking_part; /* PEs that send or receive */
};

/* False when out of memory. */
bool prs_bench_exchange_create(const struct prs_bench_workload *workload, uint32_t cell,
                               uint32_t self, struct prs_bench_exchange *out);
void prs_bench_exchange_destroy(struct prs_bench_exchange *exchange);

/* Offset in the source area of a transfer's bytes in `round`. */
uint64_t prs_bench_window(const struct prs_bench_transfer *transfer, uint64_t round);
uint64_t prs_bench_source_bytes(const struct prs_bench_workload *workload);

/* Payload bytes and signal words that the largest receiver of any cell needs. False: no memory. */
bool prs_bench_space(const struct prs_bench_workload *workload, uint64_t *out_payload_bytes,
                     uint32_t *out_slots);

/* Whether `bytes` arrived: the words looked at equal `expected`. `is_whole` looks at all of them;
 * else, from 16 KiB on, at both ends and one cache line per 4 KiB. */
bool prs_bench_payload_matches(const unsigned char *arrived, const unsigned char *expected,
                               uint64_t bytes, bool is_whole);

#endif
