/* SPDX-License-Identifier: Apache-2.0 */
#include "staging/watch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#define LOOKS 4 /* at one call, within the patience */

struct prs_watch {
    const struct prs_log *log;
    uint64_t patience_ms;
    /* Calls begun and ended; relaxed: they only count, and a look that is late sees the next
     * state. */
    _Atomic uint64_t entered, left;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t stopping;
    bool stop; /* under the lock */
};

/* Whether it has been told to stop meanwhile. */
static bool pause_for(struct prs_watch *watch, uint64_t ms)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += (time_t)(ms / 1000);
    end.tv_nsec += (long)(ms % 1000) * 1000000;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    pthread_mutex_lock(&watch->lock);
    while (!watch->stop &&
           pthread_cond_timedwait(&watch->stopping, &watch->lock, &end) != ETIMEDOUT) {
    }
    bool stop = watch->stop;
    pthread_mutex_unlock(&watch->lock);
    return stop;
}

static void *watch_main(void *argument)
{
    struct prs_watch *watch = argument;
    uint64_t seen = 0, told = 0;
    int looks = 0;
    while (!pause_for(watch, watch->patience_ms / LOOKS)) {
        uint64_t entered = atomic_load_explicit(&watch->entered, memory_order_relaxed);
        uint64_t left = atomic_load_explicit(&watch->left, memory_order_relaxed);
        looks = entered != left && entered == seen ? looks + 1 : 0;
        seen = entered;
        if (looks >= LOOKS && told != entered) {
            told = entered;
            prs_log(
                watch->log, PERSEUS_LOG_WARN,
                "the CUDA driver has kept a copy of this transport waiting for %llu ms: another "
                "thread is in a synchronous call (cudaMemcpy, cudaMalloc, cudaFree) behind a "
                "kernel. If that kernel waits for other PEs, nothing will move again: launch it "
                "in a stream of its own and copy with cudaMemcpyAsync, or use a system heap",
                (unsigned long long)watch->patience_ms);
        }
    }
    return NULL;
}

enum perseus_status prs_watch_start(uint64_t patience_ms, const struct prs_log *log,
                                    struct prs_watch **out)
{
    struct prs_watch *watch = calloc(1, sizeof *watch);
    pthread_condattr_t attributes;
    sigset_t all, before;
    if (watch == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for a watch over CUDA");
    }
    watch->log = log;
    watch->patience_ms = patience_ms;
    pthread_mutex_init(&watch->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->stopping, &attributes);
    pthread_condattr_destroy(&attributes);
    sigfillset(&all); /* signals are the program's threads' */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&watch->thread, NULL, watch_main, watch);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0) {
        pthread_cond_destroy(&watch->stopping);
        pthread_mutex_destroy(&watch->lock);
        free(watch);
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no thread for a watch over CUDA");
    }
    *out = watch;
    return PERSEUS_OK;
}

void prs_watch_stop(struct prs_watch *watch)
{
    if (watch == NULL) {
        return;
    }
    pthread_mutex_lock(&watch->lock);
    watch->stop = true;
    pthread_cond_signal(&watch->stopping);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
    pthread_cond_destroy(&watch->stopping);
    pthread_mutex_destroy(&watch->lock);
    free(watch);
}

void prs_watch_enter(struct prs_watch *watch)
{
    if (watch != NULL) {
        atomic_fetch_add_explicit(&watch->entered, 1, memory_order_relaxed);
    }
}

void prs_watch_leave(struct prs_watch *watch)
{
    if (watch != NULL) {
        atomic_fetch_add_explicit(&watch->left, 1, memory_order_relaxed);
    }
}
