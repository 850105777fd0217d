/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench/job.h: one set of PEs that lives through a whole benchmark, stopped while others run.
 *
 * The ordering mode is fixed when a PE starts, so modes can be interleaved only by keeping a job
 * per mode alive. Between its turns a job is stopped by signal (SIGSTOP): its proxies cost nothing.
 *
 * A job is a leader process, forked from the driver, and its PEs: children of the leader, or on the
 * loopback fabric, which is one process by nature, threads of it. It dies with its driver.
 */
#ifndef PRS_TOOLS_BENCH_JOB_H
#define PRS_TOOLS_BENCH_JOB_H

#include <sys/types.h>

#include "bench/pe.h"

struct prs_bench_job {
    const struct prs_bench_pe_config *config;
    const struct prs_log *log;
    int stop_fd;
    uint32_t timeout_ms;
    pid_t leader;   /* and process group; 0: not there */
    int control;    /* to PE 0 */
    bool is_broken; /* a reply did not come */
    struct prs_bench_board *board;
    size_t board_bytes;
};

/* Forks the job and waits until every PE is ready; then it is stopped. The caller has one thread.
 * `others`: jobs that are already there; their sockets are closed in the new one. stop_fd: becomes
 * readable when the user wants to end (a signalfd). config and log outlive the job. */
enum perseus_status prs_bench_job_start(struct prs_bench_job *job,
                                        const struct prs_bench_pe_config *config,
                                        const struct prs_bench_job *others, uint32_t n_others,
                                        int stop_fd, uint32_t timeout_ms,
                                        const struct prs_log *log);
/* Ends the job in order if it still can, else kills it. Also after a start that failed. False if it
 * did not end well, after a message. */
bool prs_bench_job_end(struct prs_bench_job *job);

/* Lets the job play one turn and stops it again. Samples are on the board until the next turn. */
enum perseus_status prs_bench_job_play(struct prs_bench_job *job,
                                       const struct prs_bench_turn *turn);

#endif
