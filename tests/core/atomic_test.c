/* SPDX-License-Identifier: Apache-2.0 */
/* Atomics against a model, and from all PEs at once on one word: neighbours, far PEs and the owner
 * itself must not lose each other's updates, in any ordering mode. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/check.h"
#include "core/pes.h"

#define ADDS 200

static uint64_t *allocate(struct perseus_pe *pe, size_t words)
{
    void *memory = NULL;
    CHECK_OK(perseus_malloc(pe, words * sizeof(uint64_t), &memory));
    return memory;
}

/* One PE works on a word of the next one, so that every step is known. */
static void one_by_one(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)context;
    static const struct {
        enum perseus_atomic op;
        uint64_t operand, compare, after;
    } steps[] = {
        {PERSEUS_ATOMIC_SET, 0xf0, 0, 0xf0},
        {PERSEUS_ATOMIC_ADD, 0x0f, 0, 0xff},
        {PERSEUS_ATOMIC_AND, 0x3c, 0, 0x3c},
        {PERSEUS_ATOMIC_OR, 0x41, 0, 0x7d},
        {PERSEUS_ATOMIC_XOR, 0xff, 0, 0x82},
        {PERSEUS_ATOMIC_COMPARE_SWAP, 5, 0x81, 0x82}, /* not equal: stays */
        {PERSEUS_ATOMIC_COMPARE_SWAP, UINT64_MAX, 0x82, UINT64_MAX},
        {PERSEUS_ATOMIC_ADD, 2, 0, 1}, /* wraps */
        {PERSEUS_ATOMIC_ADD, 0, 0, 1}, /* a plain fetch */
    };
    int next = (perseus_my_pe(pe) + 1) % job->size;
    uint64_t *words = allocate(pe, 2);
    uint64_t before = 0, old = 77;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        CHECK_OK(perseus_atomic_fetch(pe, &words[0], steps[i].op, steps[i].operand,
                                      steps[i].compare, next, &old));
        CHECK(old == before);
        before = steps[i].after;
        if (steps[i].op != PERSEUS_ATOMIC_COMPARE_SWAP) {
            CHECK_OK(perseus_atomic_nbi(pe, &words[1], steps[i].op, steps[i].operand, next));
            CHECK_OK(perseus_fence(pe)); /* the next step on the same word must come after */
        }
    }
    CHECK_OK(perseus_barrier_all(pe));
    CHECK(words[0] == 1);
    CHECK(words[1] == 0x84);
}

/* Everybody counts on PE 0, the owner too, each fetched value is seen once. */
static void count_together(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)context;
    int me = perseus_my_pe(pe);
    uint64_t *words = allocate(pe, 2 + (size_t)job->size * ADDS);
    uint64_t *seen = words + 2;
    for (int i = 0; i < ADDS; i++) {
        uint64_t old = 0;
        CHECK_OK(perseus_atomic_nbi(pe, &words[0], PERSEUS_ATOMIC_ADD, 1, 0));
        CHECK_OK(perseus_atomic_fetch(pe, &words[1], PERSEUS_ATOMIC_ADD, 1, 0, 0, &old));
        CHECK(old < (uint64_t)job->size * ADDS);
        CHECK_OK(perseus_atomic_nbi(pe, &seen[old], PERSEUS_ATOMIC_ADD, 1 + (uint64_t)me, 0));
    }
    CHECK_OK(perseus_barrier_all(pe));
    if (me == 0) {
        uint64_t sum = 0;
        CHECK(words[0] == (uint64_t)job->size * ADDS && words[1] == words[0]);
        for (int i = 0; i < job->size * ADDS; i++) {
            CHECK(seen[i] >= 1 && seen[i] <= (uint64_t)job->size);
            sum += seen[i];
        }
        CHECK(sum == (uint64_t)(job->size * (job->size + 1) / 2) * ADDS);
    }
}

static void test_modes(void **state)
{
    (void)state;
    struct perseus_attr attr = pes_attr(2); /* PEs 0 and 1 share memory, 2 is far */
    for (unsigned seed = 0; seed <= 3; seed++) {
        pes_with_every_mode(3, &attr, seed, one_by_one, NULL);
        pes_with_every_mode(3, &attr, seed, count_together, NULL);
    }
}

static void wrong_arguments(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)context;
    struct messages *messages = &job->messages[perseus_my_pe(pe)];
    int other = 1 - perseus_my_pe(pe);
    uint64_t stack = 0, out = 77;
    uint64_t *word = allocate(pe, 1);
    CHECK_STATUS(perseus_atomic_nbi(pe, word, PERSEUS_ATOMIC_COMPARE_SWAP, 1, other),
                 PERSEUS_INVALID_ARGUMENT);
    CHECK(messages_have(messages, "use perseus_atomic_fetch"));
    CHECK_STATUS(perseus_atomic_fetch(pe, word, (enum perseus_atomic)6, 1, 0, other, &out),
                 PERSEUS_INVALID_ARGUMENT);
    CHECK_STATUS(perseus_atomic_nbi(pe, &stack, PERSEUS_ATOMIC_ADD, 1, other),
                 PERSEUS_OUT_OF_RANGE);
    CHECK_STATUS(perseus_atomic_fetch(pe, (uint64_t *)(void *)((char *)word + 1),
                                      PERSEUS_ATOMIC_ADD, 1, 0, other, &out),
                 PERSEUS_INVALID_ARGUMENT);
    CHECK_STATUS(perseus_atomic_fetch(pe, word, PERSEUS_ATOMIC_ADD, 1, 0, -1, &out),
                 PERSEUS_INVALID_ARGUMENT);
    CHECK(messages_errors(messages) == 5);
    CHECK_OK(perseus_barrier_all(pe));
    CHECK(*word == 0 && out == 77);
}

static void test_arguments(void **state)
{
    (void)state;
    for (int pes_per_node = 0; pes_per_node <= 1; pes_per_node++) {
        struct perseus_attr attr = pes_attr(pes_per_node);
        pes_with(2, &attr, wrong_arguments, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
