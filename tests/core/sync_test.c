/* SPDX-License-Identifier: Apache-2.0 */
/* Barriers, fences and quiets: nobody passes a barrier early, a put behind a fence is not seen
 * before what was in front of it, and a quiet leaves nothing open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/check.h"
#include "core/pes.h"

#define WAIT_MS  60000
#define BARRIERS 40
#define ROUNDS   40
#define WORDS    32

static void *allocate(struct perseus_pe *pe, size_t bytes)
{
    void *memory = NULL;
    CHECK_OK(perseus_malloc(pe, bytes, &memory));
    return memory;
}

/* `entered` counts, outside of Perseus, how many PEs have come to a barrier. */
static void meet_often(struct pes *job, struct perseus_pe *pe, void *context)
{
    _Atomic uint64_t *entered = context;
    uint64_t before = atomic_load_explicit(entered, memory_order_relaxed); /* of earlier jobs */
    pes_meet(job);
    for (uint64_t i = 1; i <= BARRIERS; i++) {
        atomic_fetch_add_explicit(entered, 1, memory_order_relaxed);
        CHECK_OK(perseus_barrier_all(pe));
        uint64_t so_far = atomic_load_explicit(entered, memory_order_relaxed) - before;
        CHECK(so_far >= i * (uint64_t)job->size);
    }
}

static void test_barrier(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 4, 5, 7};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int pes_per_node = 0; pes_per_node <= 2; pes_per_node++) {
            _Atomic uint64_t entered = 0;
            struct perseus_attr attr = pes_attr(pes_per_node);
            pes_with(sizes[i], &attr, meet_often, &entered);
        }
    }
}

static void test_barrier_under_attack(void **state)
{
    (void)state;
    _Atomic uint64_t entered = 0;
    struct perseus_attr attr = pes_attr(1);
    pes_with_every_mode(3, &attr, 8, meet_often, &entered);
}

/* Payload, fence, flag as an ordinary put of 8 bytes: the payload must be there with the flag. */
static void flag_behind_fence(struct pes *job, struct perseus_pe *pe, void *context)
{
    bool one_peer = *(bool *)context;
    int me = perseus_my_pe(pe), next = (me + 1) % job->size;
    uint64_t *payload = allocate(pe, WORDS * sizeof *payload), *flag = allocate(pe, 8);
    uint64_t *source = allocate(pe, WORDS * sizeof *source), *value = allocate(pe, 8);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < WORDS; i++) {
            source[i] = round * 100 + (uint64_t)i;
        }
        *value = round;
        CHECK_OK(perseus_put_nbi(pe, payload, source, WORDS * sizeof *source, next));
        CHECK_OK(one_peer ? perseus_fence_pe(pe, next) : perseus_fence(pe));
        CHECK_OK(perseus_put_nbi(pe, flag, value, sizeof *value, next));
        CHECK_OK(perseus_signal_wait_until(pe, flag, PERSEUS_CMP_GE, round, WAIT_MS, NULL));
        for (int i = 0; i < WORDS; i++) {
            CHECK(payload[i] == round * 100 + (uint64_t)i);
        }
        CHECK_OK(perseus_barrier_all(pe));
    }
    CHECK_STATUS(perseus_fence_pe(pe, job->size), PERSEUS_INVALID_ARGUMENT);
    CHECK_STATUS(perseus_quiet_pe(pe, job->size), PERSEUS_INVALID_ARGUMENT);
    CHECK_STATUS(perseus_quiet_pe(pe, -1), PERSEUS_INVALID_ARGUMENT);
}

static void test_fence(void **state)
{
    (void)state;
    struct perseus_attr attr = pes_attr(2);
    for (int one_peer = 0; one_peer <= 1; one_peer++) {
        bool context = one_peer != 0;
        pes_with_every_mode(3, &attr, 4, flag_behind_fence, &context);
    }
}

/* After quiet the sources may change and nothing is in flight. */
static void reuse_sources(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)context;
    int me = perseus_my_pe(pe), next = (me + 1) % job->size;
    unsigned char *landing = allocate(pe, 64 * 100), *source = allocate(pe, 64);
    struct perseus_stats stats;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 100; i++) {
            CHECK_OK(perseus_put_nbi(pe, landing + 64 * i, source, 64, next));
        }
        CHECK_OK(perseus_quiet(pe));
        CHECK_OK(perseus_stats(pe, PERSEUS_ALL_PES, &stats));
        CHECK(stats.in_flight == 0);
        memset(source, 0xbb, 64); /* must not reach what was put before */
        CHECK_OK(perseus_barrier_all(pe));
        for (int i = 0; i < 64 * 100; i++) {
            CHECK(landing[i] == 0);
        }
        memset(source, 0, 64);
        CHECK_OK(perseus_barrier_all(pe));
    }
}

static void test_quiet(void **state)
{
    (void)state;
    setenv("PERSEUS_LINK", "latency=200us,jitter=100us", 1);
    struct perseus_attr attr = pes_attr(1);
    pes_with(2, &attr, reuse_sources, NULL);
    unsetenv("PERSEUS_LINK");
}

/* A barrier that one PE comes to late: the others give up by their deadline, name whom they wait
 * for, and may come again. */
static void come_late(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)context;
    int me = perseus_my_pe(pe);
    struct messages *messages = &job->messages[me];
    if (me != 1) {
        pe->timeout_ms = 50;
        CHECK_STATUS(perseus_barrier_all(pe), PERSEUS_TIMEOUT);
        CHECK(messages_have(messages, "no word from PE"));
        messages_clear(messages);
    }
    pes_meet(job);
    pe->timeout_ms = WAIT_MS; /* now all come, however busy the machine */
    CHECK_OK(perseus_barrier_all(pe));
    CHECK_OK(perseus_barrier_all(pe));
    CHECK(messages_errors(messages) == 0);
}

static void test_late(void **state)
{
    (void)state;
    for (int pes_per_node = 0; pes_per_node <= 1; pes_per_node++) {
        static struct pes pes;
        struct perseus_attr attr = pes_attr(pes_per_node);
        pes_init(&pes, 3, &attr);
        pes_run_well(&pes, come_late, NULL);
        pes_finish(&pes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_barrier), cmocka_unit_test(test_barrier_under_attack),
        cmocka_unit_test(test_fence),   cmocka_unit_test(test_quiet),
        cmocka_unit_test(test_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
