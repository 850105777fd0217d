/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/thread.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PRS_THREAD_TIMER_SLACK_NS 1000 /* the default of 50 us would double a sleep of 50 us */

#define PRS_THREAD_ALIGN 128 /* two cache lines: the adjacent-line prefetcher couples pairs */

/* On lines of its own: every producer reads `sleeping` at every push, and what the proxy writes
 * must not lie beside it. */
struct prs_proxy_thread {
    _Alignas(PRS_THREAD_ALIGN) struct prs_proxy *proxy;
    struct prs_backoff backoff;
    pthread_t thread;
    _Atomic uint32_t sleeping; /* the futex: 1 from just before a sleep until somebody ends it */
    atomic_bool stop;
    _Atomic enum perseus_status status;
};

/*
 * No wake-up is lost: here `sleeping` is stored and then the ring's tail read, a producer moves the
 * tail and then reads `sleeping`, all sequentially consistent. So either the producer's descriptor
 * is seen here, or the producer sees that it must wake us. The kernel compares `sleeping` again
 * before it puts the thread to sleep. Work in flight needs polling, so the sleep is bounded anyway.
 */
static void sleep_until_woken(struct prs_proxy_thread *thread, uint32_t us)
{
    /* With prs_proxy_thread_wake. */
    atomic_store_explicit(&thread->sleeping, 1, memory_order_seq_cst);
    /* Sequentially consistent: with prs_proxy_thread_stop. */
    if (prs_proxy_may_sleep(thread->proxy) &&
        !atomic_load_explicit(&thread->stop, memory_order_seq_cst)) {
        struct timespec limit = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000L};
        syscall(SYS_futex, &thread->sleeping, FUTEX_WAIT_PRIVATE, 1, &limit, NULL, 0);
    } else {
        sched_yield(); /* a GPU's descriptors come without a wake-up */
    }
    atomic_store_explicit(&thread->sleeping, 0, memory_order_relaxed);
}

/* Many PEs share a laptop's cores: one with nothing in flight sleeps longer and longer. */
static uint32_t sleep_us_after(const struct prs_proxy_thread *thread, uint64_t sleeps)
{
    uint64_t us = thread->backoff.sleep_us;
    if (!prs_proxy_is_idle(thread->proxy) || thread->backoff.sleep_max_us <= us) {
        return (uint32_t)us;
    }
    us <<= sleeps < 20 ? sleeps : 20;
    return us < thread->backoff.sleep_max_us ? (uint32_t)us : thread->backoff.sleep_max_us;
}

static void back_off(struct prs_proxy_thread *thread, uint64_t idle_steps)
{
    uint64_t awake_steps = (uint64_t)thread->backoff.spin_steps + thread->backoff.yield_steps;
    if (idle_steps <= thread->backoff.spin_steps) {
        return; /* polling the fabric is pause enough */
    }
    if (idle_steps <= awake_steps || thread->backoff.sleep_us == 0) {
        sched_yield();
        return;
    }
    uint64_t sleeps = idle_steps - awake_steps - 1;
    sleep_until_woken(thread, sleep_us_after(thread, sleeps));
}

static void *run(void *context)
{
    struct prs_proxy_thread *thread = context;
    prctl(PR_SET_TIMERSLACK, PRS_THREAD_TIMER_SLACK_NS, 0, 0, 0);
    enum perseus_status status = PERSEUS_OK;
    uint64_t idle_steps = 0;
    while (!atomic_load_explicit(&thread->stop, memory_order_relaxed)) {
        bool did = false;
        status = prs_proxy_step(thread->proxy, &did);
        if (status != PERSEUS_OK) {
            break;
        }
        idle_steps = did ? 0 : idle_steps + 1;
        if (!did) {
            back_off(thread, idle_steps);
        }
    }
    /* Release: with prs_proxy_thread_status; the proxy is at rest. */
    atomic_store_explicit(&thread->status, status, memory_order_release);
    return NULL;
}

/* Signals are the program's: its handlers run on its own threads, not on ours. */
static enum perseus_status launch(struct prs_proxy_thread *thread, const struct prs_log *log)
{
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory to start the proxy thread");
    }
    sigset_t all;
    sigfillset(&all);
    int error = pthread_attr_setsigmask_np(&attr, &all);
    if (error == 0 && thread->backoff.cpu >= 0) {
        cpu_set_t cpus;
        CPU_ZERO(&cpus);
        CPU_SET((size_t)thread->backoff.cpu, &cpus);
        error = pthread_attr_setaffinity_np(&attr, sizeof cpus, &cpus);
    }
    if (error == 0) {
        error = pthread_create(&thread->thread, &attr, run, thread);
    }
    pthread_attr_destroy(&attr);
    if (error == EINVAL && thread->backoff.cpu >= 0) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "the proxy thread cannot be pinned to CPU %d: this process may not run "
                        "there; choose one of its CPUs (taskset -p shows them) or do not pin",
                        thread->backoff.cpu);
    }
    if (error != 0) {
        return prs_fail(log, PERSEUS_LIMIT,
                        "cannot start the proxy thread: %s; raise the thread limit (ulimit -u)",
                        strerror(error));
    }
    pthread_setname_np(thread->thread, "perseus-proxy");
    return PERSEUS_OK;
}

enum perseus_status prs_proxy_thread_start(struct prs_proxy *proxy,
                                           const struct prs_backoff *backoff,
                                           const struct prs_log *log, struct prs_proxy_thread **out)
{
    struct prs_proxy_thread *thread = aligned_alloc(PRS_THREAD_ALIGN, sizeof *thread);
    if (thread == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory to start the proxy thread");
    }
    *thread = (struct prs_proxy_thread){.proxy = proxy, .backoff = *backoff};
    enum perseus_status status = launch(thread, log);
    if (status != PERSEUS_OK) {
        free(thread);
        return status;
    }
    *out = thread;
    return PERSEUS_OK;
}

void prs_proxy_thread_stop(struct prs_proxy_thread *thread)
{
    if (thread == NULL) {
        return;
    }
    /* Sequentially consistent: with sleep_until_woken. */
    atomic_store_explicit(&thread->stop, true, memory_order_seq_cst);
    prs_proxy_thread_wake(thread);
    pthread_join(thread->thread, NULL);
    free(thread);
}

void prs_proxy_thread_wake(struct prs_proxy_thread *thread)
{
    /* Sequentially consistent, and a plain load on x86: with sleep_until_woken. */
    if (atomic_load_explicit(&thread->sleeping, memory_order_seq_cst) == 0) {
        return;
    }
    /* One of several producers makes the system call. */
    if (atomic_exchange_explicit(&thread->sleeping, 0, memory_order_relaxed) != 0) {
        syscall(SYS_futex, &thread->sleeping, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

enum perseus_status prs_proxy_thread_status(const struct prs_proxy_thread *thread)
{
    /* Acquire: with the end of run. */
    return atomic_load_explicit(&thread->status, memory_order_acquire);
}
