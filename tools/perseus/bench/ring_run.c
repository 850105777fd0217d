/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#include <perseus/perseus.h>

#include "base/clock.h"
#include "bench/ring.h"

#define LINE_BYTES 128 /* the adjacent-line prefetcher couples pairs of 64 */
/* How often a thread looks at an empty or full queue before it lets others run. */
#define LOOKS_MAX 256
/* The consumer reads the clock once in so many takes. */
#define TAKES_PER_CLOCK 64

struct crew;

struct producer {
    _Alignas(LINE_BYTES) struct crew *crew;
    uint32_t id;
    uint64_t pushed; /* valid once joined */
    pthread_t thread;
};

struct crew {
    const struct prs_ring_run *run;
    void *queue;
    _Alignas(LINE_BYTES) atomic_bool stop;
    struct producer producers[PRS_RING_PRODUCERS_MAX];
};

/* What the consumer expects next of each producer. */
struct checker {
    uint64_t next[PRS_RING_PRODUCERS_MAX];
    uint64_t errors, taken;
};

/* After a look in vain: gives the other side's core the cache line back for a moment, and the core
 * to another thread when that did not help. */
static void wait_a_little(uint32_t *looks)
{
    if (++*looks > LOOKS_MAX) {
        *looks = 0;
        sched_yield();
        return;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

static void *produce(void *context)
{
    struct producer *producer = context;
    struct crew *crew = producer->crew;
    const struct prs_ring_queue_ops *ops = crew->run->ops;
    struct prs_desc desc = {.kind = PRS_DESC_PUT_SIGNAL,
                            .sub = PERSEUS_SIGNAL_SET,
                            .peer = producer->id,
                            .ticket = PRS_DESC_NO_TICKET,
                            .bytes = 4096};
    uint32_t looks = 0;
    while (!atomic_load_explicit(&crew->stop, memory_order_relaxed)) {
        if (ops->push(crew->queue, &desc)) {
            desc.value++;
            looks = 0;
        } else {
            wait_a_little(&looks);
        }
    }
    producer->pushed = desc.value;
    return NULL;
}

static void check(void *context, const struct prs_desc *desc)
{
    struct checker *checker = context;
    uint64_t *next = &checker->next[desc->peer % PRS_RING_PRODUCERS_MAX];
    checker->errors += desc->value != *next;
    *next = desc->value + 1;
    checker->taken++;
}

static uint64_t now_ns(void)
{
    struct prs_clock clock = prs_clock_monotonic();
    return prs_clock_now_ns(&clock);
}

/* Consumes for the run's seconds, from the first descriptor on; returns the rate. */
static double consume(const struct crew *crew, struct checker *checker)
{
    const struct prs_ring_run *run = crew->run;
    uint32_t looks = 0;
    while (run->ops->take(crew->queue, run->batch, check, checker) == 0) {
        wait_a_little(&looks);
    }
    uint64_t start_ns = now_ns(), before = checker->taken, elapsed_ns;
    do {
        for (int i = 0; i < TAKES_PER_CLOCK; i++) {
            if (run->ops->take(crew->queue, run->batch, check, checker) > 0) {
                looks = 0;
            } else {
                wait_a_little(&looks);
            }
        }
        elapsed_ns = now_ns() - start_ns;
    } while ((double)elapsed_ns < run->seconds * 1e9);
    return (double)(checker->taken - before) * 1e9 / (double)elapsed_ns;
}

static void stop_producers(struct crew *crew, uint32_t n)
{
    atomic_store_explicit(&crew->stop, true, memory_order_relaxed);
    for (uint32_t i = 0; i < n; i++) {
        pthread_join(crew->producers[i].thread, NULL);
    }
}

static bool start_producers(struct crew *crew)
{
    for (uint32_t i = 0; i < crew->run->producers; i++) {
        struct producer *producer = &crew->producers[i];
        *producer = (struct producer){.crew = crew, .id = i};
        if (pthread_create(&producer->thread, NULL, produce, producer) != 0) {
            stop_producers(crew, i);
            fprintf(stderr, "perseus: cannot start %u threads; ask for fewer --producers\n",
                    crew->run->producers);
            return false;
        }
    }
    return true;
}

/* What was pushed and never came out. */
static uint64_t drain_and_count_lost(struct crew *crew, struct checker *checker)
{
    uint64_t pushed = 0;
    for (uint32_t i = 0; i < crew->run->producers; i++) {
        pushed += crew->producers[i].pushed;
    }
    while (crew->run->ops->take(crew->queue, crew->run->batch, check, checker) > 0) {
    }
    return pushed > checker->taken ? pushed - checker->taken : checker->taken - pushed;
}

bool prs_ring_run(const struct prs_ring_run *run, struct prs_ring_outcome *out)
{
    struct crew crew = {.run = run, .queue = run->ops->create(run->slots)};
    if (crew.queue == NULL) {
        fprintf(stderr, "perseus: no memory for a queue of %u slots\n", run->slots);
        return false;
    }
    bool is_started = start_producers(&crew);
    if (is_started) {
        struct checker checker = {.errors = 0};
        out->rate = consume(&crew, &checker);
        stop_producers(&crew, run->producers);
        out->errors = drain_and_count_lost(&crew, &checker) + checker.errors;
    }
    run->ops->destroy(crew.queue);
    return is_started;
}
