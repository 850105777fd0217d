/* SPDX-License-Identifier: Apache-2.0 */
/* The ready queue: urgent tasks first, each kind in order; one watcher at a time; nobody is left
 * asleep when there is something to do. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/check.h"
#include "moe/scheduler.h"

static struct prs_scheduler *make(uint32_t tasks_max)
{
    struct prs_scheduler *scheduler;
    assert_int_equal(prs_scheduler_create(tasks_max, &scheduler), PERSEUS_OK);
    return scheduler;
}

static void push(struct prs_scheduler *scheduler, uint32_t number, bool is_urgent)
{
    const struct prs_task task = {.kind = PRS_TASK_TILE,
                                  .half = number & 1,
                                  .expert = number % 3,
                                  .tile = number,
                                  .rows = number};
    prs_scheduler_push(scheduler, &task, is_urgent);
}

/* The number of the task that a caller who does not sleep gets. */
static uint32_t take(struct prs_scheduler *scheduler)
{
    struct prs_task task;
    assert_int_equal(prs_scheduler_next(scheduler, true, false, false, &task), PRS_NEXT_RUN);
    prs_scheduler_ran(scheduler);
    return task.tile;
}

static void test_urgent_first_then_in_order(void **state)
{
    (void)state;
    struct prs_scheduler *scheduler = make(4);
    struct prs_task task;
    for (int round = 0; round < 5; round++) { /* around the ring's end */
        assert_false(prs_scheduler_calls(scheduler));
        push(scheduler, 1, false);
        push(scheduler, 2, true);
        push(scheduler, 3, false);
        push(scheduler, 4, true);
        assert_true(prs_scheduler_calls(scheduler));
        assert_int_equal(take(scheduler), 2);
        assert_int_equal(take(scheduler), 4);
        assert_int_equal(take(scheduler), 1);
        assert_int_equal(take(scheduler), 3);
    }
    assert_int_equal(prs_scheduler_next(scheduler, true, true, false, &task), PRS_NEXT_NONE);
    prs_scheduler_destroy(scheduler);
}

static void test_one_watcher_while_open(void **state)
{
    (void)state;
    struct prs_scheduler *scheduler = make(4);
    struct prs_task task;
    prs_scheduler_open(scheduler);
    assert_int_equal(prs_scheduler_next(scheduler, true, true, false, &task), PRS_NEXT_WATCH);
    assert_int_equal(prs_scheduler_next(scheduler, true, true, false, &task), PRS_NEXT_NONE);
    push(scheduler, 7, false);
    assert_int_equal(prs_scheduler_next(scheduler, true, true, false, &task), PRS_NEXT_RUN);
    prs_scheduler_ran(scheduler);
    prs_scheduler_watched(scheduler);
    push(scheduler, 8, false);
    assert_int_equal(prs_scheduler_next(scheduler, false, true, false, &task), PRS_NEXT_WATCH);
    prs_scheduler_watched(scheduler);
    prs_scheduler_close(scheduler);
    assert_int_equal(prs_scheduler_next(scheduler, false, true, false, &task), PRS_NEXT_NONE);
    prs_scheduler_destroy(scheduler);
}

static void test_takes_tiles_of_one_expert(void **state)
{
    (void)state;
    struct prs_scheduler *scheduler = make(16);
    const struct prs_task first = {.kind = PRS_TASK_TILE, .half = 0, .expert = 1};
    const struct prs_task second = {.kind = PRS_TASK_TILE, .half = 1, .expert = 1};
    struct prs_task taken[8];
    for (uint32_t round = 0; round < 7; round++) { /* around the ring's end */
        for (uint32_t i = 0; i < 16; i++) {
            push(scheduler, i, i % 4 == 0);
        }
        /* Expert 1 in half 0: 4 and 10, of which 4 is urgent. */
        assert_int_equal(prs_scheduler_take_tiles(scheduler, &first, 14, taken, 8), 2);
        assert_int_equal(taken[0].tile, 4);
        assert_int_equal(taken[1].tile, 10);
        assert_int_equal(prs_scheduler_take_tiles(scheduler, &first, 14, taken, 8), 0);
        /* In half 1: 1, 7 and 13. Two may go; then 7 and 13 wait, of which only 7 fits. */
        assert_int_equal(prs_scheduler_take_tiles(scheduler, &second, 6, taken, 8), 1);
        assert_int_equal(taken[0].tile, 1);
        assert_int_equal(prs_scheduler_take_tiles(scheduler, &second, 19, taken, 1), 1);
        assert_int_equal(taken[0].tile, 7);
        assert_int_equal(prs_scheduler_take_tiles(scheduler, &second, 12, taken, 8), 0);
        static const uint32_t rest[] = {0, 8, 12, 2, 3, 5, 6, 9, 11, 13, 14, 15};
        for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
            assert_int_equal(take(scheduler), rest[i]);
        }
        assert_false(prs_scheduler_calls(scheduler));
    }
    prs_scheduler_destroy(scheduler);
}

/* Only what waits in front is looked at: the mutex is held for a bounded time. */
static void test_takes_tiles_from_the_front(void **state)
{
    (void)state;
    enum { MANY = 6000 };
    struct prs_scheduler *scheduler = make(MANY);
    const struct prs_task like = {.kind = PRS_TASK_TILE, .half = 0, .expert = 0};
    struct prs_task taken[64];
    for (uint32_t i = 0; i < MANY; i++) {
        push(scheduler, i, false);
    }
    uint32_t n = prs_scheduler_take_tiles(scheduler, &like, UINT32_MAX, taken, 64);
    assert_in_range(n, 2, 32); /* each sixth */
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(taken[i].tile, 6 * i);
    }
    for (uint32_t i = 1; i < MANY; i++) {
        if (i % 6 != 0 || i >= 6 * n) {
            assert_int_equal(take(scheduler), i);
        }
    }
    prs_scheduler_destroy(scheduler);
}

/* ---- threads ---- */

enum { THREADS = 4, TASKS = 20000 };

struct crowd {
    struct prs_scheduler *scheduler;
    atomic_uint taken, watching, watches;
    uint8_t seen[TASKS];
};

static void *work(void *context)
{
    struct crowd *crowd = context;
    struct prs_task task;
    for (;;) {
        switch (prs_scheduler_next(crowd->scheduler, true, true, true, &task)) {
        case PRS_NEXT_RUN:
            crowd->seen[task.tile]++;
            atomic_fetch_add(&crowd->taken, 1);
            prs_scheduler_ran(crowd->scheduler);
            break;
        case PRS_NEXT_WATCH:
            CHECK(atomic_fetch_add(&crowd->watching, 1) == 0);
            atomic_fetch_add(&crowd->watches, 1);
            while (!prs_scheduler_calls(crowd->scheduler)) {
                sched_yield();
            }
            atomic_fetch_sub(&crowd->watching, 1);
            prs_scheduler_watched(crowd->scheduler);
            break;
        case PRS_NEXT_STOP:
            return NULL;
        case PRS_NEXT_NONE:
            CHECK(false);
        }
    }
}

static void test_many_threads_take_everything_once(void **state)
{
    (void)state;
    struct crowd *crowd = calloc(1, sizeof *crowd);
    pthread_t threads[THREADS];
    assert_non_null(crowd);
    crowd->scheduler = make(TASKS);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work, crowd), 0);
    }
    prs_scheduler_open(crowd->scheduler);
    for (uint32_t i = 0; i < TASKS; i++) {
        push(crowd->scheduler, i, i % 5 == 0);
        while (i % 1000 == 0 && atomic_load(&crowd->taken) <= i) {
            sched_yield(); /* all are idle now: one must watch, and come back when called */
        }
    }
    while (atomic_load(&crowd->taken) < TASKS) {
        sched_yield();
    }
    prs_scheduler_stop(crowd->scheduler);
    prs_scheduler_settle(crowd->scheduler);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (uint32_t i = 0; i < TASKS; i++) {
        assert_int_equal(crowd->seen[i], 1);
    }
    assert_true(atomic_load(&crowd->watches) > 0);
    prs_scheduler_destroy(crowd->scheduler);
    free(crowd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_urgent_first_then_in_order),
        cmocka_unit_test(test_one_watcher_while_open),
        cmocka_unit_test(test_takes_tiles_of_one_expert),
        cmocka_unit_test(test_takes_tiles_from_the_front),
        cmocka_unit_test(test_many_threads_take_everything_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
