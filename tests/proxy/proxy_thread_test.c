/* SPDX-License-Identifier: Apache-2.0 */
/* The proxy thread: wakes when it must, stops when told, tells how it ended. No test measures time:
 * a lost wake-up would sleep for an hour, and the deadline turns that into a failure. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/rng.h"
#include "proxy/rig.h"
#include "proxy/thread.h"

#define HOUR_US     UINT32_C(3600000000)
#define DEADLINE_NS UINT64_C(60000000000)
#define PRODUCERS   3
#define ROUNDS      20000
#define PAUSE_SPINS 1000

static struct prs_proxy_thread *start(struct rig *rig, struct prs_backoff backoff)
{
    struct prs_proxy_thread *thread = NULL;
    assert_int_equal(prs_proxy_thread_start(rig->proxy, &backoff, &rig->log, &thread), PERSEUS_OK);
    assert_int_equal(prs_proxy_thread_status(thread), PERSEUS_OK);
    return thread;
}

static uint64_t now_ns(void)
{
    struct prs_clock clock = prs_clock_monotonic();
    return prs_clock_now_ns(&clock);
}

/* Threads that hang cannot be ended, so neither can the test go on. */
static void give_up_after(uint64_t deadline_ns, const char *what)
{
    if (now_ns() > deadline_ns) {
        fprintf(stderr, "%s\n", what);
        _exit(1);
    }
    sched_yield();
}

struct producer {
    struct rig *rig;
    struct prs_proxy_thread *thread;
    uint32_t rounds;
    uint64_t seed;
    pthread_t pthread;
};

static bool wait_for_ticket(struct prs_tickets *tickets, uint32_t ticket)
{
    uint64_t deadline_ns = now_ns() + DEADLINE_NS;
    do {
        for (int i = 0; i < 1000; i++) {
            if (prs_ticket_poll(tickets, ticket, NULL, NULL)) {
                return true;
            }
        }
        sched_yield();
    } while (now_ns() < deadline_ns);
    return false;
}

/* Each round ends before the next begins, so that the proxy goes to sleep all the time; the pauses
 * let pushes hit every moment of its way there. */
static void *produce(void *context)
{
    struct producer *producer = context;
    struct rig *rig = producer->rig;
    struct prs_rng rng = prs_rng_seeded(producer->seed);
    for (uint32_t round = 0; round < producer->rounds; round++) {
        uint32_t ticket = 0;
        uint64_t deadline_ns = now_ns() + DEADLINE_NS;
        while (prs_ticket_take(rig->tickets, &ticket) != PERSEUS_OK) {
            give_up_after(deadline_ns, "no ticket came free");
        }
        struct prs_desc desc = {.kind = PRS_DESC_QUIET, .peer = 0, .ticket = ticket};
        for (volatile uint32_t i = prs_rng_below(&rng, PAUSE_SPINS); i > 0; i--) {
        }
        while (prs_ring_push(rig->ring, &desc, NULL) != PERSEUS_OK) {
            give_up_after(deadline_ns, "the ring stayed full");
        }
        prs_proxy_thread_wake(producer->thread);
        if (!wait_for_ticket(rig->tickets, ticket)) {
            fprintf(stderr, "a wake-up was lost (seed %llu)\n", (unsigned long long)producer->seed);
            _exit(1);
        }
    }
    return NULL;
}

static void produce_with(struct prs_backoff backoff, uint32_t producers, uint32_t progress_spins)
{
    struct rig *rig = rig_create(2, 0);
    rig->orderer->progress_spins = progress_spins;
    struct prs_proxy_thread *thread = start(rig, backoff);
    struct producer all[PRODUCERS];
    for (uint32_t i = 0; i < producers; i++) {
        all[i] = (struct producer){
            .rig = rig, .thread = thread, .rounds = ROUNDS / producers, .seed = 7 + i};
        assert_int_equal(pthread_create(&all[i].pthread, NULL, produce, &all[i]), 0);
    }
    for (uint32_t i = 0; i < producers; i++) {
        pthread_join(all[i].pthread, NULL);
    }
    assert_int_equal(prs_proxy_thread_status(thread), PERSEUS_OK);
    prs_proxy_thread_stop(thread);
    assert_int_equal(rig->orderer->n_calls, ROUNDS / producers * producers);
    rig_destroy(rig);
}

static void no_wake_up_is_lost(void **state)
{
    (void)state;
    const struct prs_backoff sleepy = {.sleep_us = HOUR_US, .cpu = -1};
    const struct prs_backoff drowsy = {
        .spin_steps = 3, .yield_steps = 2, .sleep_us = HOUR_US, .cpu = -1};
    produce_with(sleepy, 1, 0);
    produce_with(sleepy, 1, 300);
    produce_with(drowsy, 1, 0);
    produce_with(sleepy, PRODUCERS, 0);
}

static void a_proxy_that_never_sleeps_needs_no_wake_up(void **state)
{
    (void)state;
    produce_with((struct prs_backoff){.spin_steps = 10, .cpu = -1}, 1, 0);
}

static void a_sleeping_proxy_stops_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        struct rig *rig = rig_create(4, 0);
        struct prs_proxy_thread *thread =
            start(rig, (struct prs_backoff){.sleep_us = HOUR_US, .cpu = -1});
        uint64_t deadline_ns = now_ns() + DEADLINE_NS;
        while (i % 2 == 0 && atomic_load(&rig->orderer->progresses) == 0) {
            give_up_after(deadline_ns, "the proxy does not run");
        }
        prs_proxy_thread_stop(thread);
        rig_destroy(rig);
    }
    prs_proxy_thread_stop(NULL);
}

/* Nobody wakes it: what comes from the fabric is found by polling. */
static void a_sleeping_proxy_still_polls_the_fabric(void **state)
{
    (void)state;
    struct rig *rig = rig_create(4, 0);
    struct prs_proxy_thread *thread = start(rig, (struct prs_backoff){.sleep_us = 50, .cpu = -1});
    uint64_t deadline_ns = now_ns() + DEADLINE_NS;
    while (atomic_load(&rig->orderer->progresses) < 100) {
        give_up_after(deadline_ns, "the proxy sleeps through");
    }
    prs_proxy_thread_stop(thread);
    rig_destroy(rig);
}

/* 30 doublings of 50 us are hours: an idle proxy that doubles polls a few dozen times, whatever the
 * machine does; one with work in flight goes on as before. */
static void an_idle_proxy_sleeps_longer_and_longer(void **state)
{
    (void)state;
    struct rig *rig = rig_create(4, 0);
    atomic_store(&rig->orderer->idle, true);
    struct prs_proxy_thread *thread =
        start(rig, (struct prs_backoff){.sleep_us = 50, .sleep_max_us = HOUR_US, .cpu = -1});
    uint64_t deadline_ns = now_ns() + DEADLINE_NS;
    uint64_t watched_ns = now_ns() + 200000000;
    while (now_ns() < watched_ns) {
        give_up_after(deadline_ns, "time stands still");
    }
    assert_true(atomic_load(&rig->orderer->progresses) <= 30);
    atomic_store(&rig->orderer->idle, false);
    prs_proxy_thread_wake(thread);
    while (atomic_load(&rig->orderer->progresses) < 100) {
        give_up_after(deadline_ns, "the proxy sleeps through although work is in flight");
    }
    prs_proxy_thread_stop(thread);
    rig_destroy(rig);
}

static void back_pressure_is_retried_without_a_wake_up(void **state)
{
    (void)state;
    struct rig *rig = rig_create(4, 0);
    rig->orderer->agains_left = 50;
    uint32_t ticket = rig_ticket(rig);
    rig_push(rig, (struct prs_desc){.kind = PRS_DESC_PUT, .peer = 1, .ticket = ticket});
    struct prs_proxy_thread *thread = start(rig, (struct prs_backoff){.sleep_us = 50, .cpu = -1});
    uint64_t deadline_ns = now_ns() + DEADLINE_NS;
    while (!prs_ticket_poll(rig->tickets, ticket, NULL, NULL)) {
        give_up_after(deadline_ns, "the head was not submitted again");
    }
    prs_proxy_thread_stop(thread);
    assert_int_equal(rig->orderer->refused, 50);
    rig_destroy(rig);
}

static void a_broken_endpoint_ends_the_thread_and_is_told(void **state)
{
    (void)state;
    struct rig *rig = rig_create(4, 0);
    rig->orderer->progress_answer = PERSEUS_IO;
    struct prs_proxy_thread *thread = NULL;
    const struct prs_backoff backoff = {.sleep_us = HOUR_US, .cpu = -1};
    assert_int_equal(prs_proxy_thread_start(rig->proxy, &backoff, &rig->log, &thread), PERSEUS_OK);
    uint64_t deadline_ns = now_ns() + DEADLINE_NS;
    while (prs_proxy_thread_status(thread) == PERSEUS_OK) {
        give_up_after(deadline_ns, "the thread hides its end");
    }
    assert_int_equal(prs_proxy_thread_status(thread), PERSEUS_IO);
    prs_proxy_thread_wake(thread); /* producers may not know yet */
    prs_proxy_thread_stop(thread);
    assert_int_equal(rig->orderer->progresses, 1);
    rig_destroy(rig);
}

static int first_allowed_cpu(void)
{
    cpu_set_t cpus;
    assert_int_equal(sched_getaffinity(0, sizeof cpus, &cpus), 0);
    int cpu = 0;
    while (!CPU_ISSET((size_t)cpu, &cpus)) {
        cpu++;
    }
    return cpu;
}

static void pinning_works_or_is_a_clear_error(void **state)
{
    (void)state;
    struct rig *rig = rig_create(4, 0);
    struct prs_backoff backoff = {.sleep_us = 50, .cpu = first_allowed_cpu()};
    prs_proxy_thread_stop(start(rig, backoff));
    assert_int_equal(rig->errors_logged, 0);
    const int absent[] = {CPU_SETSIZE - 1, CPU_SETSIZE, 1000000};
    for (uint32_t i = 0; i < 3; i++) {
        struct prs_proxy_thread *thread = NULL;
        backoff.cpu = absent[i];
        assert_int_equal(prs_proxy_thread_start(rig->proxy, &backoff, &rig->log, &thread),
                         PERSEUS_INVALID_ARGUMENT);
        assert_null(thread);
        assert_int_equal(rig->errors_logged, i + 1);
    }
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_wake_up_is_lost),
        cmocka_unit_test(a_proxy_that_never_sleeps_needs_no_wake_up),
        cmocka_unit_test(a_sleeping_proxy_stops_at_once),
        cmocka_unit_test(a_sleeping_proxy_still_polls_the_fabric),
        cmocka_unit_test(an_idle_proxy_sleeps_longer_and_longer),
        cmocka_unit_test(back_pressure_is_retried_without_a_wake_up),
        cmocka_unit_test(a_broken_endpoint_ends_the_thread_and_is_told),
        cmocka_unit_test(pinning_works_or_is_a_clear_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
