/* SPDX-License-Identifier: Apache-2.0 */
#include "moe/scheduler.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* How far behind the first task tiles of the same expert are looked for: a bound on the time that
 * the mutex is held. */
enum { PICK_LOOK = 64 };

struct task_ring {
    struct prs_task *tasks;
    uint32_t first, count;
};

struct prs_scheduler {
    pthread_mutex_t mutex;
    pthread_cond_t work;    /* for those that run tasks: a task, a watch to take over, or stop */
    pthread_cond_t watch;   /* for those that only watch: a forward began, or stop */
    pthread_cond_t settled; /* nothing runs any more */
    uint32_t tasks_max;
    struct task_ring urgent, normal;
    uint32_t open;    /* forwards in flight */
    uint32_t running; /* tasks, and the watch */
    bool is_watched, is_stopped;
    atomic_bool calls; /* tasks or stop, for the watcher, who does not take the mutex to look */
};

uint64_t prs_scheduler_bytes(uint32_t tasks_max)
{
    return sizeof(struct prs_scheduler) + 2 * sizeof(struct prs_task) * (uint64_t)tasks_max;
}

enum perseus_status prs_scheduler_create(uint32_t tasks_max, struct prs_scheduler **out)
{
    struct prs_scheduler *scheduler = calloc(1, sizeof *scheduler);
    if (scheduler == NULL) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    scheduler->tasks_max = tasks_max;
    scheduler->urgent.tasks = malloc(tasks_max * sizeof(struct prs_task));
    scheduler->normal.tasks = malloc(tasks_max * sizeof(struct prs_task));
    pthread_mutex_init(&scheduler->mutex, NULL);
    pthread_cond_init(&scheduler->work, NULL);
    pthread_cond_init(&scheduler->watch, NULL);
    pthread_cond_init(&scheduler->settled, NULL);
    if (scheduler->urgent.tasks == NULL || scheduler->normal.tasks == NULL) {
        prs_scheduler_destroy(scheduler);
        return PERSEUS_OUT_OF_MEMORY;
    }
    *out = scheduler;
    return PERSEUS_OK;
}

void prs_scheduler_destroy(struct prs_scheduler *scheduler)
{
    if (scheduler == NULL) {
        return;
    }
    pthread_cond_destroy(&scheduler->settled);
    pthread_cond_destroy(&scheduler->watch);
    pthread_cond_destroy(&scheduler->work);
    pthread_mutex_destroy(&scheduler->mutex);
    free(scheduler->urgent.tasks);
    free(scheduler->normal.tasks);
    free(scheduler);
}

/* Relaxed: the flag only ends a watch early; what it stands for is read under the mutex. */
static void update_calls(struct prs_scheduler *scheduler)
{
    atomic_store_explicit(&scheduler->calls,
                          scheduler->urgent.count + scheduler->normal.count > 0 ||
                              scheduler->is_stopped,
                          memory_order_relaxed);
}

bool prs_scheduler_calls(const struct prs_scheduler *scheduler)
{
    return atomic_load_explicit(&scheduler->calls, memory_order_relaxed);
}

void prs_scheduler_push(struct prs_scheduler *scheduler, const struct prs_task *task,
                        bool is_urgent)
{
    struct task_ring *ring = is_urgent ? &scheduler->urgent : &scheduler->normal;
    pthread_mutex_lock(&scheduler->mutex);
    ring->tasks[(ring->first + ring->count++) % scheduler->tasks_max] = *task;
    update_calls(scheduler);
    pthread_cond_signal(&scheduler->work);
    pthread_mutex_unlock(&scheduler->mutex);
}

static bool take(struct prs_scheduler *scheduler, struct prs_task *out)
{
    struct task_ring *ring = scheduler->urgent.count > 0 ? &scheduler->urgent : &scheduler->normal;
    if (ring->count == 0) {
        return false;
    }
    *out = ring->tasks[ring->first];
    ring->first = (ring->first + 1) % scheduler->tasks_max;
    ring->count--;
    update_calls(scheduler);
    return true;
}

enum prs_next prs_scheduler_next(struct prs_scheduler *scheduler, bool may_run, bool may_watch,
                                 bool may_sleep, struct prs_task *out)
{
    enum prs_next next = PRS_NEXT_NONE;
    pthread_mutex_lock(&scheduler->mutex);
    for (;;) {
        if (scheduler->is_stopped) {
            next = PRS_NEXT_STOP;
        } else if (may_run && take(scheduler, out)) {
            next = PRS_NEXT_RUN;
        } else if (may_watch && !scheduler->is_watched && scheduler->open > 0) {
            scheduler->is_watched = true;
            next = PRS_NEXT_WATCH;
        }
        if (next != PRS_NEXT_NONE || !may_sleep) {
            break;
        }
        pthread_cond_wait(may_run ? &scheduler->work : &scheduler->watch, &scheduler->mutex);
    }
    if (next == PRS_NEXT_RUN || next == PRS_NEXT_WATCH) {
        scheduler->running++;
    }
    if (next == PRS_NEXT_RUN && !scheduler->is_watched) {
        pthread_cond_signal(&scheduler->work); /* a sleeper may have to take over the watch */
    }
    pthread_mutex_unlock(&scheduler->mutex);
    return next;
}

/* Takes what fits from the front of one ring; what stays keeps its order. */
static uint32_t pick(const struct prs_scheduler *scheduler, struct task_ring *ring,
                     const struct prs_task *like, uint32_t *rows, struct prs_task *out,
                     uint32_t tasks_max)
{
    uint32_t looked = ring->count < PICK_LOOK ? ring->count : PICK_LOOK, taken = 0;
    struct prs_task kept[PICK_LOOK];
    uint32_t n_kept = 0;
    for (uint32_t at = 0; at < looked; at++) {
        struct prs_task task = ring->tasks[(ring->first + at) % scheduler->tasks_max];
        if (taken < tasks_max && task.kind == PRS_TASK_TILE && task.half == like->half &&
            task.expert == like->expert && task.rows <= *rows) {
            *rows -= task.rows;
            out[taken++] = task;
        } else {
            kept[n_kept++] = task;
        }
    }
    if (taken > 0) {
        ring->first = (ring->first + taken) % scheduler->tasks_max;
        ring->count -= taken;
        for (uint32_t at = 0; at < n_kept; at++) {
            ring->tasks[(ring->first + at) % scheduler->tasks_max] = kept[at];
        }
    }
    return taken;
}

uint32_t prs_scheduler_take_tiles(struct prs_scheduler *scheduler, const struct prs_task *task,
                                  uint32_t rows, struct prs_task *out, uint32_t tasks_max)
{
    pthread_mutex_lock(&scheduler->mutex);
    uint32_t taken = pick(scheduler, &scheduler->urgent, task, &rows, out, tasks_max);
    taken += pick(scheduler, &scheduler->normal, task, &rows, out + taken, tasks_max - taken);
    update_calls(scheduler);
    pthread_mutex_unlock(&scheduler->mutex);
    return taken;
}

static void leave(struct prs_scheduler *scheduler, bool watch)
{
    pthread_mutex_lock(&scheduler->mutex);
    if (watch) {
        scheduler->is_watched = false;
    }
    if (--scheduler->running == 0) {
        pthread_cond_broadcast(&scheduler->settled);
    }
    pthread_mutex_unlock(&scheduler->mutex);
}

void prs_scheduler_ran(struct prs_scheduler *scheduler)
{
    leave(scheduler, false);
}

void prs_scheduler_watched(struct prs_scheduler *scheduler)
{
    leave(scheduler, true);
}

void prs_scheduler_open(struct prs_scheduler *scheduler)
{
    pthread_mutex_lock(&scheduler->mutex);
    scheduler->open++;
    pthread_cond_broadcast(&scheduler->work);
    pthread_cond_broadcast(&scheduler->watch);
    pthread_mutex_unlock(&scheduler->mutex);
}

void prs_scheduler_close(struct prs_scheduler *scheduler)
{
    pthread_mutex_lock(&scheduler->mutex);
    scheduler->open--;
    pthread_mutex_unlock(&scheduler->mutex);
}

void prs_scheduler_stop(struct prs_scheduler *scheduler)
{
    pthread_mutex_lock(&scheduler->mutex);
    scheduler->is_stopped = true;
    update_calls(scheduler);
    pthread_cond_broadcast(&scheduler->work);
    pthread_cond_broadcast(&scheduler->watch);
    pthread_mutex_unlock(&scheduler->mutex);
}

void prs_scheduler_settle(struct prs_scheduler *scheduler)
{
    pthread_mutex_lock(&scheduler->mutex);
    while (scheduler->running > 0) {
        pthread_cond_wait(&scheduler->settled, &scheduler->mutex);
    }
    pthread_mutex_unlock(&scheduler->mutex);
}
