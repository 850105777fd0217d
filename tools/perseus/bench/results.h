/* SPDX-License-Identifier: Apache-2.0 */
/* bench/results.h: every measured round of a benchmark, by cell, ordering mode and protocol. */
#ifndef PRS_TOOLS_BENCH_RESULTS_H
#define PRS_TOOLS_BENCH_RESULTS_H

#include <jansson.h>

#include "bench/board.h"
#include "bench/setup.h"
#include "kit/stats_math.h"

struct prs_bench_results;

/* samples_max: rounds of one cell, mode and protocol. NULL: out of memory. */
struct prs_bench_results *prs_bench_results_create(uint32_t n_cells, uint32_t n_modes,
                                                   uint32_t n_pes, uint32_t samples_max);
void prs_bench_results_destroy(struct prs_bench_results *results); /* NULL allowed */

/* Adds one round, as its PEs left it on the board. */
void prs_bench_results_add(struct prs_bench_results *results, uint32_t cell, uint32_t mode,
                           enum prs_bench_protocol protocol, struct prs_bench_board *board,
                           uint32_t round);
/* Keeps the counters that the mode's job left on its board. */
void prs_bench_results_keep_counters(struct prs_bench_results *results, uint32_t mode,
                                     struct prs_bench_board *board);

/* What the rounds of one cell, mode and protocol come to. Counts are per round, of all senders;
 * values that were not measured are NaN. */
struct prs_bench_summary {
    uint32_t n_rounds;              /* 0: nothing was measured, nothing below counts */
    struct prs_percentiles time_us; /* first submit until everything is delivered */
    struct prs_percentiles seen_us; /* first submit until every receiver has seen its signals */
    double efficiency;              /* put-only in the reference mode / this, medians */
    double efficiency_signalled;    /* the same against put-only+signals */
    double fences, drains, again, signals, signal_messages;
    double fence_us;         /* that proxies stood still in fences, per round, of all senders */
    double fence_share;      /* of the senders' time, 0 to 1 */
    uint64_t payload_errors; /* in all rounds */
};
struct prs_bench_summary prs_bench_results_summary(const struct prs_bench_results *results,
                                                   uint32_t cell, uint32_t mode,
                                                   enum prs_bench_protocol protocol,
                                                   uint32_t reference);
/* Whether every payload was right; else false after a message that says how many were not. */
bool prs_bench_is_right(const struct prs_bench_results *results);

/* PE 0's counters toward every PE over the whole run, a table line per mode and PE. */
bool prs_bench_print_counters(const struct prs_bench_results *results,
                              const struct prs_bench_modes *modes);
json_t *prs_bench_counters_json(const struct prs_bench_results *results,
                                const struct prs_bench_modes *modes);

/* Adds what every --json file of a benchmark says about its job. */
void prs_bench_job_json(const struct prs_bench_setup *setup, const struct prs_bench_modes *modes,
                        json_t *document);
/* Adds what every row of the --json files has (docs/benchmarks.md) to `row`. */
void prs_bench_summary_json(const struct prs_bench_summary *summary,
                            const struct prs_bench_mode *mode, enum prs_bench_protocol protocol,
                            json_t *row);

#endif
