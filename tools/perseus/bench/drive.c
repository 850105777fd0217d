/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/drive.h"

#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/rng.h"
#include "bench/job.h"
#include "kit/progress.h"
#include "kit/tool_log.h"

enum {
    BURST = 3,                /* measured rounds of a protocol in one turn */
    BURST_BYTES_MAX = 8 << 20 /* of the largest receiver; above, a turn is long enough with one */
};

struct drive {
    const struct prs_bench_setup *setup;
    const struct prs_bench_modes *modes;
    const struct prs_bench_workload *workload;
    struct prs_bench_results *results;
    struct prs_log log;
    int stop_fd;
    struct prs_bench_pe_config configs[PERSEUS_ORDERING_COUNT]; /* by mode */
    struct prs_bench_job jobs[PERSEUS_ORDERING_COUNT];          /* no gaps */
    uint32_t job_modes[PERSEUS_ORDERING_COUNT];
    uint32_t n_jobs;
    struct prs_rng rng;
    struct prs_progress progress;
};

static struct prs_bench_pe_config config_of(const struct drive *drive, uint32_t mode)
{
    const struct prs_bench_setup *setup = drive->setup;
    return (struct prs_bench_pe_config){
        .workload = drive->workload,
        .attr =
            {
                .fabric = setup->fabric,
                .provider = setup->provider,
                .ordering = drive->modes->mode[mode].ordering,
                .bootstrap = PERSEUS_BOOTSTRAP_LOCAL,
                .pes_per_node = (int)setup->pes_per_node,
                /* A stopped job's clock runs on; the driver has the deadlines. */
                .timeout_ms = PERSEUS_NO_TIMEOUT,
                .log = prs_tool_log_line,
                .log_level = prs_tool_log_level(),
            },
        .group_size = setup->group_size,
        .ctas = setup->ctas,
        .seed = setup->seed,
        .wait_timeout_ms = setup->timeout_ms,
    };
}

static bool start_jobs(struct drive *drive)
{
    for (uint32_t mode = 0; mode < drive->modes->n; mode++) {
        if (!drive->modes->mode[mode].is_kept) {
            continue;
        }
        drive->configs[mode] = config_of(drive, mode);
        uint32_t index = drive->n_jobs++; /* to be ended even if it does not start */
        drive->job_modes[index] = mode;
        if (prs_bench_job_start(&drive->jobs[index], &drive->configs[mode], drive->jobs, index,
                                drive->stop_fd, drive->setup->timeout_ms,
                                &drive->log) != PERSEUS_OK) {
            return false;
        }
    }
    return true;
}

static void shuffle(struct prs_rng *rng, uint32_t *order, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        order[i] = i;
    }
    for (uint32_t i = n; i > 1; i--) {
        uint32_t other = prs_rng_below(rng, i), kept = order[i - 1];
        order[i - 1] = order[other];
        order[other] = kept;
    }
}

static void plan_turn(struct drive *drive, uint32_t cell, uint32_t burst,
                      struct prs_bench_turn *out)
{
    uint32_t order[PRS_BENCH_PROTOCOL_COUNT];
    shuffle(&drive->rng, order, PRS_BENCH_PROTOCOL_COUNT);
    *out = (struct prs_bench_turn){.cell = cell, .burst = burst};
    for (uint32_t i = 0; i < PRS_BENCH_PROTOCOL_COUNT; i++) {
        enum prs_bench_protocol protocol = (enum prs_bench_protocol)order[i];
        if (prs_bench_has_protocol(drive->setup, protocol)) {
            out->protocols[out->n_protocols++] = protocol;
        }
    }
}

static bool play_turn(struct drive *drive, uint32_t job, const struct prs_bench_turn *turn)
{
    if (prs_bench_job_play(&drive->jobs[job], turn) != PERSEUS_OK) {
        return false;
    }
    for (uint32_t i = 0; i < turn->n_protocols; i++) {
        for (uint32_t round = 0; round < turn->burst; round++) {
            prs_bench_results_add(drive->results, turn->cell, drive->job_modes[job],
                                  turn->protocols[i], drive->jobs[job].board, round);
        }
    }
    return true;
}

static bool measure_cell(struct drive *drive, uint32_t cell)
{
    struct prs_bench_exchange exchange;
    if (!prs_bench_exchange_create(drive->workload, cell, 0, &exchange)) {
        return false;
    }
    uint32_t burst = exchange.payload_bytes_max <= BURST_BYTES_MAX ? BURST : 1;
    bool is_empty = exchange.n_taking_part == 0;
    prs_bench_exchange_destroy(&exchange);
    for (uint32_t repeat = 0; repeat < drive->setup->repeat && !is_empty; repeat++) {
        uint32_t order[PERSEUS_ORDERING_COUNT] = {0};
        shuffle(&drive->rng, order, drive->n_jobs);
        for (uint32_t i = 0; i < drive->n_jobs; i++) {
            struct prs_bench_turn turn;
            plan_turn(drive, cell, burst, &turn);
            if (!play_turn(drive, order[i], &turn)) {
                return false;
            }
            uint32_t mode = drive->job_modes[order[i]];
            prs_progress_step(&drive->progress,
                              perseus_ordering_name(drive->modes->mode[mode].ordering));
        }
    }
    return true;
}

static bool measure(struct drive *drive)
{
    uint64_t turns = (uint64_t)drive->workload->n_cells * drive->setup->repeat * drive->n_jobs;
    prs_progress_init(&drive->progress, turns);
    bool is_complete = true;
    for (uint32_t cell = 0; cell < drive->workload->n_cells && is_complete; cell++) {
        is_complete = measure_cell(drive, cell);
    }
    prs_progress_finish(&drive->progress);
    return is_complete;
}

/* With SIGINT and SIGTERM held back, so that the jobs can be ended in order. */
static bool drive_jobs(struct drive *drive)
{
    sigset_t stops, before;
    sigemptyset(&stops);
    sigaddset(&stops, SIGINT);
    sigaddset(&stops, SIGTERM);
    sigprocmask(SIG_BLOCK, &stops, &before);
    drive->stop_fd = signalfd(-1, &stops, SFD_CLOEXEC);
    bool is_complete = drive->stop_fd >= 0 && start_jobs(drive) && measure(drive);
    for (uint32_t i = 0; i < drive->n_jobs; i++) {
        if (is_complete) {
            prs_bench_results_keep_counters(drive->results, drive->job_modes[i],
                                            drive->jobs[i].board);
        }
        is_complete &= prs_bench_job_end(&drive->jobs[i]);
    }
    if (drive->stop_fd >= 0) {
        close(drive->stop_fd);
    }
    sigprocmask(SIG_SETMASK, &before, NULL); /* one that came meanwhile ends this process now */
    return is_complete;
}

struct prs_bench_results *prs_bench_drive(const struct prs_bench_setup *setup,
                                          const struct prs_bench_modes *modes,
                                          const struct prs_bench_workload *workload)
{
    struct drive drive = {
        .setup = setup,
        .modes = modes,
        .workload = workload,
        .log = prs_tool_log(),
        .rng = prs_rng_seeded(setup->seed),
    };
    drive.results = prs_bench_results_create(workload->n_cells, modes->n, workload->n_pes,
                                             setup->repeat * BURST);
    if (drive.results == NULL) {
        prs_log(&drive.log, PERSEUS_LOG_ERROR, "out of memory for the results");
        return NULL;
    }
    if (!drive_jobs(&drive)) {
        prs_bench_results_destroy(drive.results);
        return NULL;
    }
    return drive.results;
}
