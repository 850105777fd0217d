/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench/pe.h: what one PE of a benchmark's job does: waits for turns, plays them, writes samples.
 *
 * A round: the PEs that take part meet; the senders submit and complete, the receivers see signals
 * and check payload at that moment; they meet again; every payload is checked whole. The clock runs
 * from before the first submit until the sender's quiet has returned (collective: its barrier), so
 * every protocol ends at the same event: all that was sent is delivered and visible at its target.
 *
 * Receivers always poll a word, as they would in a real program, so that polling costs every
 * protocol the same: the signals, or where there are none, a word that the sender sets when its
 * clock has stopped.
 */
#ifndef PRS_TOOLS_BENCH_PE_H
#define PRS_TOOLS_BENCH_PE_H

#include "base/log.h"
#include "bench/board.h"

struct prs_bench_pe_config {
    const struct prs_bench_workload *workload;
    struct perseus_attr attr; /* but for heap_bytes, which the workload decides */
    uint32_t group_size, ctas;
    uint64_t seed;
    uint32_t wait_timeout_ms;
};

/* The symmetric heap that the workload needs. 0: out of memory. */
uint64_t prs_bench_heap_bytes(const struct prs_bench_workload *workload);

/* Plays turns of `board` until one is_end. Every turn is announced by a byte on `control`, and
 * answered by one; so is being ready for the first. `control` is used by PE 0 only. Returns an
 * enum prs_exit; errors went to the log. */
int prs_bench_pe_main(const struct prs_bench_pe_config *config, struct prs_bench_board *board,
                      int control);

#endif
