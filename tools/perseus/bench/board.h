/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench/board.h: memory that a benchmark's driver shares with the PEs of one job.
 *
 * Nothing in it is atomic: the driver writes the turn and then a byte to PE 0's control socket; PE
 * 0 reads it and enters a barrier that the other PEs wait in; samples travel back the same way.
 */
#ifndef PRS_TOOLS_BENCH_BOARD_H
#define PRS_TOOLS_BENCH_BOARD_H

#include <pthread.h>
#include <stdbool.h>

#include "bench/sender.h"

#define PRS_BENCH_BURST_MAX 4

/* What the job does while the others are stopped. */
struct prs_bench_turn {
    bool is_end; /* the job ends, nothing else counts */
    uint32_t cell;
    uint32_t burst; /* measured rounds of every protocol */
    uint32_t n_protocols;
    enum prs_bench_protocol protocols[PRS_BENCH_PROTOCOL_COUNT]; /* in this order */
};

/* One PE, one round. */
struct prs_bench_sample {
    uint64_t start_ns; /* before the first submit; 0: this PE sends nothing */
    uint64_t end_ns;   /* everything it sent, signals too, is delivered */
    uint64_t seen_ns;  /* it has seen its last signal; 0: it waits for none */
    uint32_t payload_errors;
    uint64_t fences, drains, drain_ns, again, signals, signal_messages;
};

/* A barrier that costs a waiting PE nothing: rounds begin and end with it, not with messages. */
struct prs_bench_gate {
    pthread_mutex_t mutex;
    pthread_cond_t opened;
    uint32_t n_waiting;
    uint64_t n_opened;
};
void prs_bench_gate_init(struct prs_bench_gate *gate);
/* Returns once n PEs are there. If one never comes, its job is killed. */
void prs_bench_gate_pass(struct prs_bench_gate *gate, uint32_t n);
/* The same, but false after timeout_ms; then nobody can use the gate any more. */
bool prs_bench_gate_pass_within(struct prs_bench_gate *gate, uint32_t n, uint32_t timeout_ms);

struct prs_bench_board {
    struct prs_bench_gate all;     /* every PE of the job */
    struct prs_bench_gate players; /* those that take part in the cell; others skip its rounds */
    struct prs_bench_turn turn;
    struct prs_bench_sample samples[]; /* see prs_bench_board_sample; counters follow */
};

static inline size_t prs_bench_board_samples(uint32_t n_pes)
{
    return (size_t)n_pes * PRS_BENCH_PROTOCOL_COUNT * PRS_BENCH_BURST_MAX;
}

/* PE 0's counters since its start, as of the last turn: toward each PE, then over all. */
static inline struct perseus_stats *prs_bench_board_counters(struct prs_bench_board *board,
                                                             uint32_t n_pes)
{
    return (struct perseus_stats *)(void *)&board->samples[prs_bench_board_samples(n_pes)];
}

static inline size_t prs_bench_board_bytes(uint32_t n_pes)
{
    return sizeof(struct prs_bench_board) +
           prs_bench_board_samples(n_pes) * sizeof(struct prs_bench_sample) +
           ((size_t)n_pes + 1) * sizeof(struct perseus_stats);
}

static inline struct prs_bench_sample *prs_bench_board_sample(struct prs_bench_board *board,
                                                              uint32_t pe,
                                                              enum prs_bench_protocol protocol,
                                                              uint32_t round)
{
    return &board
                ->samples[(pe * PRS_BENCH_PROTOCOL_COUNT + protocol) * PRS_BENCH_BURST_MAX + round];
}

#endif
