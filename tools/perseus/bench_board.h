/*
 * bench_board.h: memory that a benchmark's driver shares with the PEs of one job.
 *
 * Nothing in it is atomic: the driver writes the turn and then a byte to PE 0's control socket; PE
 * 0 reads it and enters a barrier that the other PEs wait in; samples travel back the same way.
 */
#ifndef PRS_TOOLS_BENCH_BOARD_H
#define PRS_TOOLS_BENCH_BOARD_H

#include "bench_sender.h"

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
    uint64_t fences, drains, again, signals, signal_messages;
};

struct prs_bench_board {
    struct prs_bench_turn turn;
    struct prs_bench_sample samples[]; /* see prs_bench_board_sample */
};

static inline size_t prs_bench_board_bytes(uint32_t n_pes)
{
    return sizeof(struct prs_bench_board) + (size_t)n_pes * PRS_BENCH_PROTOCOL_COUNT *
                                                PRS_BENCH_BURST_MAX *
                                                sizeof(struct prs_bench_sample);
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
