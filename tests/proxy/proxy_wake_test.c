/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy thread sleeps on two things at once, its producers and its fabric, and loses no wake-up
 * of either: its sleeps here last an hour, so a lost one is a standstill. In the stress, two
 * senders, one of each kind, let it fall asleep between any two of their rounds and hit every
 * moment of its way there. In the schedules, something comes exactly when it is about to sleep.
 *
 * That the schedules would notice is shown by mutants, each in a process of its own: they must
 * stand still.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/rng.h"
#include "proxy/rig.h"
#include "proxy/thread.h"

#define HOUR_US            UINT32_C(3600000000)
#define DEADLINE_NS        UINT64_C(60000000000)
#define MUTANT_DEADLINE_NS UINT64_C(2000000000)
#define ROUNDS             20000
#define PLAY_NS            UINT64_C(3000000000) /* fewer rounds than that on a busy machine */
#define PAUSE_SPINS        1500
#define SCHEDULED          500
#define STANDSTILL         7 /* exit code */

enum mutant {
    NO_MUTANT,
    BLIND_TO_PRODUCERS, /* does not look at the ring again once it has said that it sleeps */
    ARMS_TOO_LATE       /* a fabric that looks, and then takes back what its descriptor told */
};

struct scene {
    struct rig *rig;
    struct prs_proxy_thread *thread;
    uint64_t deadline_ns; /* of a round */
    uint64_t until_ns;    /* no round begins later */
    bool awaits;          /* who waits for an arrival sleeps until the proxy tells */
};

static enum mutant mutant;

bool __real_prs_proxy_may_sleep(const struct prs_proxy *proxy);
bool __wrap_prs_proxy_may_sleep(const struct prs_proxy *proxy);
bool __wrap_prs_proxy_may_sleep(const struct prs_proxy *proxy)
{
    return mutant == BLIND_TO_PRODUCERS || __real_prs_proxy_may_sleep(proxy);
}

static uint64_t now_ns(void)
{
    struct prs_clock clock = prs_clock_monotonic();
    return prs_clock_now_ns(&clock);
}

/* Threads that stand still cannot be ended, so the process ends. */
static void pause_until(const struct scene *scene, uint64_t deadline_ns, const char *what)
{
    if (now_ns() > deadline_ns) {
        fprintf(stderr, "standstill: %s; arrivals %u, of them seen %u\n", what,
                atomic_load(&scene->rig->orderer->arrivals),
                atomic_load(&scene->rig->orderer->arrived));
        _exit(STANDSTILL);
    }
    sched_yield();
}

static void wait_a_moment(struct prs_rng *rng)
{
    for (volatile uint32_t i = prs_rng_below(rng, PAUSE_SPINS); i > 0; i--) {
    }
}

static void *produce(void *context)
{
    struct scene *scene = context;
    struct prs_rng rng = prs_rng_seeded(1);
    for (uint32_t round = 0; round < ROUNDS && now_ns() < scene->until_ns; round++) {
        uint32_t ticket = 0;
        assert_int_equal(prs_ticket_take(scene->rig->tickets, &ticket), PERSEUS_OK);
        struct prs_desc desc = {.kind = PRS_DESC_QUIET, .peer = 0, .ticket = ticket};
        wait_a_moment(&rng);
        assert_int_equal(prs_ring_push(scene->rig->ring, &desc, NULL), PERSEUS_OK);
        prs_proxy_thread_wake(scene->thread);
        uint64_t deadline_ns = now_ns() + scene->deadline_ns;
        while (!prs_ticket_poll(scene->rig->tickets, ticket, NULL, NULL)) {
            pause_until(scene, deadline_ns, "a descriptor");
        }
    }
    return NULL;
}

static void *arrive(void *context)
{
    struct scene *scene = context;
    struct prs_orderer *orderer = scene->rig->orderer;
    struct prs_rng rng = prs_rng_seeded(2);
    for (uint32_t round = 1; round <= ROUNDS && now_ns() < scene->until_ns; round++) {
        wait_a_moment(&rng);
        atomic_fetch_add(&orderer->arrivals, 1);
        eventfd_write(orderer->wait_fd, 1);
        uint64_t deadline_ns = now_ns() + scene->deadline_ns;
        for (;;) {
            uint32_t turn = scene->awaits ? prs_proxy_thread_expect(scene->thread) : 0;
            if (atomic_load(&orderer->arrived) >= round) {
                break;
            }
            if (scene->awaits) {
                prs_proxy_thread_await(scene->thread, turn, scene->deadline_ns + 1);
            }
            pause_until(scene, deadline_ns, "an arrival");
        }
    }
    return NULL;
}

static void play(struct prs_backoff backoff, uint32_t spins, bool produces, bool arrives,
                 bool awaits)
{
    struct scene scene = {.rig = rig_create(2, 0),
                          .deadline_ns = DEADLINE_NS,
                          .until_ns = now_ns() + PLAY_NS,
                          .awaits = awaits};
    scene.rig->orderer->wait_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    scene.rig->orderer->progress_spins = spins;
    assert_true(scene.rig->orderer->wait_fd >= 0);
    assert_int_equal(
        prs_proxy_thread_start(scene.rig->proxy, &backoff, &scene.rig->log, &scene.thread),
        PERSEUS_OK);
    pthread_t producer, fabric;
    assert_true(!produces || pthread_create(&producer, NULL, produce, &scene) == 0);
    assert_true(!arrives || pthread_create(&fabric, NULL, arrive, &scene) == 0);
    assert_true(!produces || pthread_join(producer, NULL) == 0);
    assert_true(!arrives || pthread_join(fabric, NULL) == 0);
    assert_int_equal(prs_proxy_thread_status(scene.thread), PERSEUS_OK);
    prs_proxy_thread_stop(scene.thread);
    close(scene.rig->orderer->wait_fd);
    rig_destroy(scene.rig);
}

static const struct prs_backoff sleepy = {.sleep_us = HOUR_US, .cpu = -1};
static const struct prs_backoff drowsy = {
    .spin_steps = 3, .yield_steps = 2, .sleep_us = HOUR_US, .cpu = -1};

static void no_wake_up_is_lost(void **state)
{
    (void)state;
    play(sleepy, 0, true, true, false);
    play(sleepy, 200, true, true, false);
    play(sleepy, 0, true, false, false);
    play(sleepy, 0, false, true, false);
    play(drowsy, 0, true, true, false);
    play(sleepy, 0, false, true, true);
    play(sleepy, 200, true, true, true);
    play(drowsy, 0, true, true, true);
}

/* Bytes that wake nobody are found by who waits for them, and its looks do not wake the proxy. */
static void who_waits_for_silent_bytes_looks(void **state)
{
    (void)state;
    struct prs_backoff backoff = {.sleep_us = 1000, .sleep_max_us = HOUR_US, .cpu = -1};
    struct rig *rig = rig_create(2, 0);
    struct prs_proxy_thread *thread;
    rig->orderer->wait_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    rig->orderer->bytes_are_silent = true;
    assert_int_equal(prs_proxy_thread_start(rig->proxy, &backoff, &rig->log, &thread), PERSEUS_OK);
    while (atomic_load(&rig->orderer->progresses) == 0) {
        usleep(1000);
    }
    usleep(100000); /* it sleeps */
    unsigned progresses = atomic_load(&rig->orderer->progresses);
    uint64_t began_ns = now_ns();
    for (int look = 0; look < 10; look++) {
        prs_proxy_thread_await(thread, prs_proxy_thread_expect(thread), DEADLINE_NS);
    }
    assert_true(now_ns() - began_ns < DEADLINE_NS);
    assert_int_equal(atomic_load(&rig->orderer->progresses), progresses);
    prs_proxy_thread_stop(thread);
    close(rig->orderer->wait_fd);
    rig_destroy(rig);
}

/* The door is the only eventfd that the thread has made; -1: it was not found. */
static int find_door(const struct rig *rig)
{
    for (int fd = 0; fd < 256; fd++) {
        char path[64], target[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        if (fd != rig->orderer->wait_fd && strcmp(target, "anon_inode:[eventfd]") == 0) {
            return fd;
        }
    }
    return -1;
}

/* A producer that has seen the thread asleep may ring when it is awake again, woken by the fabric.
 */
static void a_late_ring_ends_one_sleep(void **state)
{
    (void)state;
    struct rig *rig = rig_create(2, 0);
    struct prs_proxy_thread *thread;
    rig->orderer->wait_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert_int_equal(prs_proxy_thread_start(rig->proxy, &sleepy, &rig->log, &thread), PERSEUS_OK);
    usleep(100000); /* it sleeps */
    unsigned progresses = atomic_load(&rig->orderer->progresses);
    assert_int_equal(eventfd_write(find_door(rig), 1), 0);
    usleep(100000);
    unsigned looks = atomic_load(&rig->orderer->progresses) - progresses;
    assert_true(looks > 0);
    assert_true(looks < 10);
    prs_proxy_thread_stop(thread);
    close(rig->orderer->wait_fd);
    rig_destroy(rig);
}

/* ---- schedules ---- */

/* What comes while the thread is on its way to sleep: it runs there, as another CPU would. */
struct schedule {
    struct scene scene;
    bool produces, arrives;
    atomic_bool begun;
    uint32_t moments; /* so far */
    atomic_uint pushed;
};

static void come(void *context)
{
    struct schedule *schedule = context;
    struct prs_orderer *orderer = schedule->scene.rig->orderer;
    if (!atomic_load(&schedule->begun) || schedule->moments++ % 3 == 0) {
        return; /* an arm has two moments: now one, now the other */
    }
    unsigned pushed = atomic_load(&schedule->pushed);
    if (schedule->produces && orderer->n_calls == pushed && pushed < SCHEDULED) {
        struct prs_desc desc = {.kind = PRS_DESC_FENCE, .ticket = PRS_DESC_NO_TICKET};
        atomic_store(&schedule->pushed, pushed + 1);
        assert_int_equal(prs_ring_push(schedule->scene.rig->ring, &desc, NULL), PERSEUS_OK);
        prs_proxy_thread_wake(schedule->scene.thread);
    }
    if (schedule->arrives && atomic_load(&orderer->arrivals) == atomic_load(&orderer->arrived) &&
        atomic_load(&orderer->arrivals) < SCHEDULED) {
        atomic_fetch_add(&orderer->arrivals, 1);
        eventfd_write(orderer->wait_fd, 1);
    }
}

static void follow(bool produces, bool arrives, uint64_t deadline_ns)
{
    struct schedule schedule = {
        .scene = {.rig = rig_create(2, 0)}, .produces = produces, .arrives = arrives};
    struct prs_orderer *orderer = schedule.scene.rig->orderer;
    orderer->wait_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    orderer->arms_too_late = mutant == ARMS_TOO_LATE;
    assert_true(orderer->wait_fd >= 0);
    orderer->in_arm_context = &schedule;
    orderer->in_arm = come;
    assert_int_equal(prs_proxy_thread_start(schedule.scene.rig->proxy, &sleepy,
                                            &schedule.scene.rig->log, &schedule.scene.thread),
                     PERSEUS_OK);
    uint64_t give_up_ns = now_ns() + deadline_ns;
    while (atomic_load(&orderer->progresses) == 0) {
        pause_until(&schedule.scene, give_up_ns, "the start");
    }
    atomic_store(&schedule.begun, true); /* the schedule knows its thread now */
    eventfd_write(orderer->wait_fd, 1);
    while ((produces && atomic_load(&schedule.pushed) < SCHEDULED) ||
           (arrives && atomic_load(&orderer->arrived) < SCHEDULED)) {
        pause_until(&schedule.scene, give_up_ns, "a schedule");
    }
    prs_proxy_thread_stop(schedule.scene.thread);
    close(orderer->wait_fd);
    rig_destroy(schedule.scene.rig);
}

static void what_comes_on_the_way_to_sleep_is_seen(void **state)
{
    (void)state;
    follow(true, false, DEADLINE_NS);
    follow(false, true, DEADLINE_NS);
    follow(true, true, DEADLINE_NS);
}

static void expect_standstill(enum mutant which, bool produces)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        mutant = which;
        fclose(stderr);
        follow(produces, !produces, MUTANT_DEADLINE_NS);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), STANDSTILL);
}

static void a_proxy_blind_to_producers_stands_still(void **state)
{
    (void)state;
    expect_standstill(BLIND_TO_PRODUCERS, true);
}

static void a_fabric_that_arms_too_late_stands_still(void **state)
{
    (void)state;
    expect_standstill(ARMS_TOO_LATE, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_wake_up_is_lost),
        cmocka_unit_test(who_waits_for_silent_bytes_looks),
        cmocka_unit_test(a_late_ring_ends_one_sleep),
        cmocka_unit_test(what_comes_on_the_way_to_sleep_is_seen),
        cmocka_unit_test(a_proxy_blind_to_producers_stands_still),
        cmocka_unit_test(a_fabric_that_arms_too_late_stands_still),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
