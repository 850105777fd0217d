/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faulty.h: a decorator that makes any fabric slow, unordered and unreliable, within the contract.
 *
 * Delay: operations leave after a link model (latency + bytes/bandwidth + jitter) in clock time; a
 * peer's link serializes its bytes. Order that the inside does not grant is shuffled; FENCE-flagged
 * operations and granted order are kept (they may be delayed, never dropped). AGAIN and error
 * completions by probability or by count. Driven by poll only: no thread, no wall clock but the
 * clock given.
 */
#ifndef PRS_FABRIC_FAULTY_H
#define PRS_FABRIC_FAULTY_H

#include "fabric/fabric.h"

struct prs_faulty_config {
    uint64_t seed;
    uint64_t latency_ns, jitter_ns;
    uint64_t bytes_per_second; /* 0: infinite */
    bool reorder;              /* shuffle what caps do not order */
    uint64_t unordered_mask;   /* enum prs_order_bits to withhold: plays a lesser fabric */
    double again_probability;  /* per post */
    double error_probability;  /* per operation: error completion, nothing delivered */
    uint64_t fail_nth;         /* the n-th post (from 1) completes with an error; 0: none */
    bool fail_permanent;       /* fail_nth and every later one to that peer */
    uint64_t refuse_nth;       /* the n-th post (from 1) is refused with LIMIT; 0: none */
    uint64_t busy_peer;        /* the n-th peer connected (from 1) answers AGAIN; 0: none */
    uint64_t busy_ns;          /* ... for so long after the first post to it */
};

/* Parses "latency=5us,bandwidth=25G,jitter=1us" and "seed=1,reorder=1,again=0.1,error=0,fail_nth=0"
 * forms, into *config (fields not named stay). INVALID_ARGUMENT names the word that is wrong. */
enum perseus_status prs_faulty_parse(const char *text, const struct prs_log *log,
                                     struct prs_faulty_config *config);

/* Wraps `inside`, which the decorator then owns (closed with it, and on failure). *out's caps equal
 * the inside's but for the order withheld, inline and batching details. */
enum perseus_status prs_faulty_wrap(struct prs_fabric *inside,
                                    const struct prs_faulty_config *config,
                                    const struct prs_log *log, struct prs_clock clock,
                                    struct prs_fabric **out);
/* Endpoints opened from here on draw from seeds `stream` further on: PEs with one seed in their
 * environment must not misbehave in step. `faulty` is what prs_faulty_wrap gave. */
void prs_faulty_advance(struct prs_fabric *faulty, uint64_t stream);

#endif
