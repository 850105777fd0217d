/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/thread.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PRS_THREAD_TIMER_SLACK_NS 1000 /* the default of 50 us would double a sleep of 50 us */

#define PRS_THREAD_IDLE_NAPS 100 /* times sleep_max_us, where arrivals wake */
#define PRS_THREAD_ALIGN     128 /* two cache lines: the adjacent-line prefetcher couples pairs */

/* On lines of its own: every producer reads `sleeping` at every push, and what the proxy writes
 * must not lie beside it. */
struct prs_proxy_thread {
    _Alignas(PRS_THREAD_ALIGN) struct prs_proxy *proxy;
    struct prs_backoff backoff;
    pthread_t thread;
    int door;                 /* an eventfd that producers ring */
    int fabric;               /* what the fabric makes readable, -1: it wakes nobody */
    bool bytes_are_silent;    /* who waits for them looks, and the proxy need not */
    _Atomic bool sleeping;    /* true from just before a sleep until somebody ends it */
    _Atomic bool is_expected; /* somebody waits for the end of a turn */
    _Atomic uint32_t turn;    /* a futex */
    atomic_bool stop;
    _Atomic enum perseus_status status;
};

/*
 * Tells whoever waits that something may have come. Nobody is missed: here what came is written,
 * and then `is_expected` read; they write that, and then look; with a sequentially consistent fence
 * in between on both sides. So either they see what came, or they are seen, and their futex is no
 * longer what they read before.
 */
static void tell(struct prs_proxy_thread *thread)
{
    /* With prs_proxy_thread_expect. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&thread->is_expected, memory_order_relaxed)) {
        atomic_store_explicit(&thread->is_expected, false, memory_order_relaxed);
        /* Release: with expect, which stores `is_expected` over our false, not under it. */
        atomic_fetch_add_explicit(&thread->turn, 1, memory_order_release);
        syscall(SYS_futex, &thread->turn, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    }
}

/* How long the next sleep may last if nothing ends it: deadlines above the fabric need a look at
 * the clock now and then. Where the fabric wakes nobody, arrivals need looks, too; many PEs share a
 * laptop's cores, so one with nothing in flight sleeps longer and longer. */
static uint64_t nap_ns(const struct prs_proxy_thread *thread, uint64_t sleeps)
{
    bool is_idle = prs_proxy_is_idle(thread->proxy);
    uint64_t us = thread->backoff.sleep_us;
    uint64_t us_max = thread->backoff.sleep_max_us > us ? thread->backoff.sleep_max_us : us;
    if (thread->fabric >= 0) {
        return us_max * (is_idle ? 1000 * PRS_THREAD_IDLE_NAPS : 1000);
    }
    if (is_idle) {
        us <<= sleeps < 20 ? sleeps : 20;
    }
    return 1000 * (us < us_max ? us : us_max);
}

/*
 * Sleeps until a producer or the fabric has something to do, for `limit_ns` at most. No wake-up is
 * lost:
 *
 * From producers. Here `sleeping` is stored and then the ring's tail read (prs_proxy_may_sleep); a
 * producer moves the tail and then reads `sleeping`; all sequentially consistent. So either its
 * descriptor is seen here, or it sees that it must ring. The ring is a counter of the kernel's: it
 * stays readable until it is read, whether it came before poll(2) or during it. It is read only
 * after the sleep, and before the ring is looked at again.
 *
 * From the fabric. Whatever comes after prs_proxy_arm has answered OK makes the descriptor
 * readable; whatever came before, its own look has moved, or it answers AGAIN.
 */
static enum perseus_status sleep_until_woken(struct prs_proxy_thread *thread, uint64_t limit_ns)
{
    enum perseus_status armed = PERSEUS_OK;
    if (thread->fabric >= 0) {
        uint64_t fabric_limit_ns = UINT64_MAX;
        armed = prs_proxy_arm(thread->proxy, &fabric_limit_ns);
        limit_ns = fabric_limit_ns < limit_ns ? fabric_limit_ns : limit_ns;
    }
    tell(thread); /* steps and arm may have moved bytes that are no events */
    if (armed != PERSEUS_OK) {
        return armed == PERSEUS_AGAIN ? PERSEUS_OK : armed;
    }
    /* With prs_proxy_thread_wake. */
    atomic_store_explicit(&thread->sleeping, true, memory_order_seq_cst);
    /* Sequentially consistent: with prs_proxy_thread_stop. */
    if (prs_proxy_may_sleep(thread->proxy) &&
        !atomic_load_explicit(&thread->stop, memory_order_seq_cst)) {
        struct pollfd watched[] = {{.fd = thread->door, .events = POLLIN},
                                   {.fd = thread->fabric, .events = POLLIN}};
        const struct timespec limit = {.tv_sec = (time_t)(limit_ns / 1000000000u),
                                       .tv_nsec = (long)(limit_ns % 1000000000u)};
        ppoll(watched, 2, &limit, NULL); /* one of -1 is not watched */
        if (watched[0].revents & POLLIN) {
            eventfd_t rings;
            eventfd_read(thread->door, &rings);
        }
    } else {
        sched_yield(); /* a GPU's descriptors come without a wake-up */
    }
    /* A ring still on its way ends the next sleep, for nothing. */
    atomic_store_explicit(&thread->sleeping, false, memory_order_relaxed);
    return PERSEUS_OK;
}

static enum perseus_status back_off(struct prs_proxy_thread *thread, uint64_t idle_steps)
{
    uint64_t awake_steps = (uint64_t)thread->backoff.spin_steps + thread->backoff.yield_steps;
    if (idle_steps <= thread->backoff.spin_steps) {
        return PERSEUS_OK; /* polling the fabric is pause enough */
    }
    if (idle_steps <= awake_steps || thread->backoff.sleep_us == 0) {
        sched_yield();
        return PERSEUS_OK;
    }
    return sleep_until_woken(thread, nap_ns(thread, idle_steps - awake_steps - 1));
}

static void *run(void *context)
{
    struct prs_proxy_thread *thread = context;
    prctl(PR_SET_TIMERSLACK, PRS_THREAD_TIMER_SLACK_NS, 0, 0, 0);
    enum perseus_status status = PERSEUS_OK;
    uint64_t idle_steps = 0;
    while (status == PERSEUS_OK && !atomic_load_explicit(&thread->stop, memory_order_relaxed)) {
        bool did = false;
        status = prs_proxy_step(thread->proxy, &did);
        idle_steps = did ? 0 : idle_steps + 1;
        if (did) {
            tell(thread);
        } else if (status == PERSEUS_OK) {
            status = back_off(thread, idle_steps);
        }
    }
    /* Release: with prs_proxy_thread_status; the proxy is at rest. */
    atomic_store_explicit(&thread->status, status, memory_order_release);
    tell(thread);
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
    *thread = (struct prs_proxy_thread){.proxy = proxy,
                                        .backoff = *backoff,
                                        .door = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                        .fabric = prs_proxy_wait_fd(proxy),
                                        .bytes_are_silent = prs_proxy_bytes_are_silent(proxy)};
    if (thread->door < 0) {
        free(thread);
        return prs_fail(log, PERSEUS_LIMIT,
                        "no file descriptor for the proxy thread to sleep on: %s; allow more "
                        "(ulimit -n)",
                        strerror(errno));
    }
    enum perseus_status status = launch(thread, log);
    if (status != PERSEUS_OK) {
        close(thread->door);
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
    close(thread->door);
    free(thread);
}

void prs_proxy_thread_wake(struct prs_proxy_thread *thread)
{
    /* Sequentially consistent, and a plain load on x86: with sleep_until_woken. */
    if (!atomic_load_explicit(&thread->sleeping, memory_order_seq_cst)) {
        return;
    }
    /* One of several producers makes the system call. */
    if (atomic_exchange_explicit(&thread->sleeping, false, memory_order_relaxed)) {
        eventfd_write(thread->door, 1);
    }
}

uint32_t prs_proxy_thread_expect(struct prs_proxy_thread *thread)
{
    /* Acquire: with tell. A turn that ends from here on makes await return at once. */
    uint32_t turn = atomic_load_explicit(&thread->turn, memory_order_acquire);
    atomic_store_explicit(&thread->is_expected, true, memory_order_relaxed);
    /* With the fence of tell: the caller looks for what it expects after this. */
    atomic_thread_fence(memory_order_seq_cst);
    return turn;
}

void prs_proxy_thread_await(struct prs_proxy_thread *thread, uint32_t turn, uint64_t limit_ns)
{
    if (thread->fabric < 0 || thread->bytes_are_silent) {
        uint64_t look_ns = UINT64_C(1000) * thread->backoff.sleep_us;
        limit_ns = look_ns > 0 && look_ns < limit_ns ? look_ns : limit_ns;
    }
    if (thread->fabric < 0) {
        /* Nothing wakes the proxy but us: it looks now, and again when this sleep ends. */
        prs_proxy_thread_wake(thread);
    }
    const struct timespec limit = {.tv_sec = (time_t)(limit_ns / 1000000000u),
                                   .tv_nsec = (long)(limit_ns % 1000000000u)};
    syscall(SYS_futex, &thread->turn, FUTEX_WAIT_PRIVATE, turn, &limit, NULL, 0);
}

enum perseus_status prs_proxy_thread_status(const struct prs_proxy_thread *thread)
{
    /* Acquire: with the end of run. */
    return atomic_load_explicit(&thread->status, memory_order_acquire);
}
