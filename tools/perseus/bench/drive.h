/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench/drive.h: runs a workload under every mode and protocol, interleaved.
 *
 * Cell by cell; within one, `repeat` times: every mode gets a turn, in a shuffled order, and in its
 * turn every protocol, shuffled, a few rounds. So noise of the machine that lasts longer than a
 * turn meets all of them alike.
 */
#ifndef PRS_TOOLS_BENCH_DRIVE_H
#define PRS_TOOLS_BENCH_DRIVE_H

#include "bench/results.h"

/* The caller's to destroy; NULL after a message. Progress goes to a terminal. */
struct prs_bench_results *prs_bench_drive(const struct prs_bench_setup *setup,
                                          const struct prs_bench_modes *modes,
                                          const struct prs_bench_workload *workload);

#endif
