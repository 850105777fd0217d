/* SPDX-License-Identifier: Apache-2.0 */
/* The persistent threads: processors run tasks, the subscriber watches; or one thread does both. */
#include <stdlib.h>
#include <time.h>

#include "core/wait.h"
#include "moe/layer.h"

#define REST_MIN_NS 50000u
#define REST_MAX_NS 1000000u

static uint32_t workers_of(const struct perseus_moe_config *config)
{
    return config->processors > 0 ? config->processors + config->subscribers : 1;
}

uint64_t prs_roles_bytes(const struct prs_moe_plan *plan)
{
    uint64_t runners = plan->config.processors > 0 ? plan->config.processors : 1;
    uint64_t bench = plan->config.communication_only ? 0 : prs_expert_bench_bytes(plan);
    return runners * bench + workers_of(&plan->config) * sizeof(struct prs_worker);
}

/* ---- what a thread does ---- */

static void run_task(struct prs_worker *worker, const struct prs_task *task)
{
    static const struct {
        enum perseus_status (*run)(struct prs_worker *worker, const struct prs_task *task);
        const char *what;
    } kinds[] = {
        [PRS_TASK_DISPATCH] = {prs_moe_dispatch, "dispatch"},
        [PRS_TASK_TILE] = {prs_moe_tile, "expert"},
        [PRS_TASK_EMPTY] = {prs_moe_empty, "empty answer"},
        [PRS_TASK_SHARED] = {prs_moe_shared, "shared expert"},
        [PRS_TASK_COMBINE] = {prs_moe_combine, "combine"},
        [PRS_TASK_ADD] = {prs_moe_add, "add"},
    };
    struct perseus_moe *moe = worker->moe;
    uint64_t begin_ns = moe->trace != NULL ? prs_clock_now_ns(&moe->clock) : 0;
    enum perseus_status status = kinds[task->kind].run(worker, task);
    if (status != PERSEUS_OK) {
        prs_moe_break(moe, status);
    }
    if (moe->trace != NULL) {
        prs_trace_span(moe->trace, worker->lane, kinds[task->kind].what, begin_ns,
                       prs_clock_now_ns(&moe->clock),
                       task->kind == PRS_TASK_TILE ? task->source : task->expert);
    }
}

/* Between two tasks: what came from far away meanwhile goes before what waits here. */
static void look(struct prs_worker *worker)
{
    bool found;
    enum perseus_status status = prs_moe_scan(worker, &found);
    if (status != PERSEUS_OK) {
        prs_moe_break(worker->moe, status);
    }
}

static bool has_forward(const struct perseus_moe *moe)
{
    bool has = false;
    for (uint32_t half = 0; half < PRS_MOE_HALVES; half++) {
        /* Relaxed: the scheduler's mutex is what a watcher goes by; this only ends a watch. */
        has |= atomic_load_explicit(&moe->rounds[half].is_active, memory_order_relaxed);
    }
    return has;
}

/* Nothing moved here for timeout_ms, or the job broke: says what was awaited. */
static void give_up(const struct prs_worker *worker, const struct prs_wait *wait,
                    enum perseus_status status)
{
    char text[PRS_ROUND_TEXT_BYTES];
    prs_round_describe(worker->moe, text);
    prs_moe_break(worker->moe, prs_wait_fail(wait, status, "%s", text));
}

/* Beyond the wait's own short sleeps: the longer nothing comes, the longer the next sleep, an
 * eighth of the time waited. On a machine with fewer cores than PEs, every look takes a core from a
 * PE that computes what is awaited. */
static void rest(uint64_t waited_ns)
{
    uint64_t rest_ns = waited_ns / 8;
    if (rest_ns > REST_MIN_NS) {
        rest_ns = rest_ns < REST_MAX_NS ? rest_ns : REST_MAX_NS;
        nanosleep(&(struct timespec){.tv_nsec = (long)rest_ns}, NULL);
    }
}

/* Polls until something arrived, or there is something better to do. */
static void watch(struct prs_worker *worker)
{
    struct perseus_moe *moe = worker->moe;
    struct prs_wait wait = prs_wait_begin(moe->pe, moe->plan.config.timeout_ms);
    unsigned seen = atomic_load_explicit(&moe->progress, memory_order_relaxed);
    uint64_t begin_ns = prs_clock_now_ns(&moe->clock);
    bool found = false;
    while (!found && !prs_scheduler_calls(moe->scheduler) && has_forward(moe)) {
        enum perseus_status status = prs_moe_scan(worker, &found);
        if (status != PERSEUS_OK) {
            prs_moe_break(moe, status);
            return;
        }
        unsigned now = atomic_load_explicit(&moe->progress, memory_order_relaxed);
        if (now != seen) { /* another thread moved: patience begins again */
            seen = now;
            wait = prs_wait_begin(moe->pe, moe->plan.config.timeout_ms);
        }
        status = found ? PERSEUS_OK : prs_wait_step(&wait);
        if (status != PERSEUS_OK) {
            give_up(worker, &wait, status);
            return;
        }
        if (!found) {
            rest(prs_clock_now_ns(&moe->clock) - begin_ns);
        }
    }
}

/* One step of a thread; false when it shall end. */
static bool step(struct prs_worker *worker, bool may_sleep)
{
    struct prs_scheduler *scheduler = worker->moe->scheduler;
    struct prs_task task;
    switch (prs_scheduler_next(scheduler, worker->may_run, worker->may_watch, may_sleep, &task)) {
    case PRS_NEXT_RUN:
        run_task(worker, &task);
        if (worker->may_watch) {
            look(worker);
        }
        prs_scheduler_ran(scheduler);
        return true;
    case PRS_NEXT_WATCH:
        watch(worker);
        prs_scheduler_watched(scheduler);
        return true;
    case PRS_NEXT_NONE:
        return true;
    case PRS_NEXT_STOP:
        break;
    }
    return false;
}

static void *work(void *argument)
{
    struct prs_worker *worker = argument;
    prs_gemm_thread_begin();
    while (step(worker, true)) {
    }
    return NULL;
}

void prs_roles_drive(struct perseus_moe *moe, const struct prs_round *round)
{
    int width = prs_gemm_thread_begin();
    /* Relaxed: this thread itself ends the forward. */
    while (atomic_load_explicit(&round->is_active, memory_order_relaxed) &&
           step(&moe->workers[0], false)) {
    }
    prs_gemm_thread_end(width);
}

/* ---- life ---- */

static enum perseus_status init_worker(struct prs_worker *worker, struct perseus_moe *moe,
                                       uint32_t index)
{
    const struct perseus_moe_config *config = &moe->plan.config;
    bool subscriber = config->processors > 0 && index == config->processors;
    *worker = (struct prs_worker){
        .moe = moe,
        .lane = index,
        .may_run = !subscriber,
        .may_watch = subscriber || config->subscribers == 0,
    };
    if (subscriber) {
        return PERSEUS_OK;
    }
    return config->communication_only
               ? PERSEUS_OK
               : prs_expert_bench_init(&worker->bench, &moe->plan, prs_moe_log(moe));
}

enum perseus_status prs_roles_start(struct perseus_moe *moe)
{
    uint32_t wanted = workers_of(&moe->plan.config);
    moe->workers = calloc(wanted, sizeof *moe->workers);
    if (moe->workers == NULL) {
        return prs_fail(prs_moe_log(moe), PERSEUS_OUT_OF_MEMORY, "moe: no memory for %u threads",
                        wanted);
    }
    for (; moe->n_workers < wanted; moe->n_workers++) {
        struct prs_worker *worker = &moe->workers[moe->n_workers];
        enum perseus_status status = init_worker(worker, moe, moe->n_workers);
        if (status != PERSEUS_OK) {
            moe->n_workers++; /* what it has is given back by stop */
            return status;
        }
    }
    while (moe->plan.config.processors > 0 && moe->n_threads < wanted) {
        struct prs_worker *worker = &moe->workers[moe->n_threads];
        if (pthread_create(&worker->thread, NULL, work, worker) != 0) {
            return prs_fail(prs_moe_log(moe), PERSEUS_LIMIT,
                            "moe: cannot start thread %u of %u; use fewer processors or raise the "
                            "process limit (ulimit -u)",
                            moe->n_threads + 1, wanted);
        }
        moe->n_threads++;
    }
    return PERSEUS_OK;
}

void prs_roles_stop(struct perseus_moe *moe)
{
    if (moe->scheduler != NULL) {
        prs_scheduler_stop(moe->scheduler);
    }
    for (uint32_t i = 0; i < moe->n_threads; i++) {
        pthread_join(moe->workers[i].thread, NULL);
    }
    for (uint32_t i = 0; i < moe->n_workers; i++) {
        prs_expert_bench_finish(&moe->workers[i].bench);
        free(moe->workers[i].products);
    }
    free(moe->workers);
    moe->workers = NULL;
    moe->n_workers = moe->n_threads = 0;
}
