/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scheduler.h: the ready queue of a layer's threads, and who watches for arrivals.
 *
 * Threads ask for what to do next. Tasks come first, urgent ones before others, each kind in the
 * order it became ready. With no task left, one thread at a time, of those that may, is sent to
 * watch (it polls signal words, waits, and pushes tasks that became ready); the others sleep. While
 * no forward is in flight all sleep.
 */
#ifndef PRS_MOE_SCHEDULER_H
#define PRS_MOE_SCHEDULER_H

#include <stdbool.h>
#include <stdint.h>

#include <perseus/status.h>

enum prs_task_kind {
    PRS_TASK_DISPATCH, /* stage and send the rows for `expert` (a global number) */
    PRS_TASK_TILE,     /* compute and answer tile `tile` of `source` for hosted expert `expert` */
    PRS_TASK_EMPTY,    /* answer `source`, which has no rows for hosted expert `expert` */
    PRS_TASK_SHARED,   /* shared experts on tokens of tile `tile` */
    PRS_TASK_COMBINE,  /* add up the answers for the tokens of tile `tile` */
    PRS_TASK_ADD       /* add the answered tile `tile` of `expert` (global) to its tokens */
};

struct prs_task {
    enum prs_task_kind kind;
    uint32_t half, expert, source, tile;
    uint32_t rows; /* of a TILE */
};

enum prs_next {
    PRS_NEXT_RUN,   /* a task; prs_scheduler_ran afterwards */
    PRS_NEXT_WATCH, /* prs_scheduler_watched afterwards */
    PRS_NEXT_NONE,  /* nothing, of a caller that does not sleep */
    PRS_NEXT_STOP
};

struct prs_scheduler;

/* tasks_max: the most tasks that can be ready at one time. */
enum perseus_status prs_scheduler_create(uint32_t tasks_max, struct prs_scheduler **out);
void prs_scheduler_destroy(struct prs_scheduler *scheduler); /* NULL allowed */
uint64_t prs_scheduler_bytes(uint32_t tasks_max);

/* Any thread. */
void prs_scheduler_push(struct prs_scheduler *scheduler, const struct prs_task *task,
                        bool is_urgent);
/* What the calling thread shall do; sleeps until there is something, if it `may_sleep`. */
enum prs_next prs_scheduler_next(struct prs_scheduler *scheduler, bool may_run, bool may_watch,
                                 bool may_sleep, struct prs_task *out);
/* More tiles like `task` (of its expert and half) that wait in front, in their order, as long as
 * their rows are `rows` together, and they are `tasks_max`, at most: part of the caller's run. */
uint32_t prs_scheduler_take_tiles(struct prs_scheduler *scheduler, const struct prs_task *task,
                                  uint32_t rows, struct prs_task *out, uint32_t tasks_max);
void prs_scheduler_ran(struct prs_scheduler *scheduler);
void prs_scheduler_watched(struct prs_scheduler *scheduler);
/* Whether a watcher should come back: there are tasks, or all must stop. Takes no lock. */
bool prs_scheduler_calls(const struct prs_scheduler *scheduler);

/* A forward begins or ends. */
void prs_scheduler_open(struct prs_scheduler *scheduler);
void prs_scheduler_close(struct prs_scheduler *scheduler);

/* From now on everybody is told to stop. */
void prs_scheduler_stop(struct prs_scheduler *scheduler);
/* After stop: returns when no task runs and nobody watches. */
void prs_scheduler_settle(struct prs_scheduler *scheduler);

#endif
