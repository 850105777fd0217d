/* SPDX-License-Identifier: Apache-2.0 */
/* The symmetric heap: same offsets everywhere, zeroed also when used again, full heaps and PEs that
 * disagree are clear errors on every PE. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "core/check.h"
#include "core/pes.h"

#define SEED   5
#define LIVE   12
#define ROUNDS 60

static bool is_zero(const unsigned char *memory, size_t bytes)
{
    size_t i = 0;
    while (i < bytes && memory[i] == 0) {
        i++;
    }
    return i == bytes;
}

static void allocate_and_free(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)context;
    struct prs_rng rng = prs_rng_seeded(SEED); /* the same calls on every PE */
    unsigned char *live[LIVE] = {NULL};
    uint64_t *offset = NULL, seen = 0;
    void *memory = NULL;
    CHECK_OK(perseus_malloc(pe, sizeof *offset, &memory));
    offset = memory;
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t slot = prs_rng_below(&rng, LIVE);
        size_t bytes = 1 + prs_rng_below(&rng, 50000);
        if (live[slot] == NULL) {
            CHECK_OK(perseus_malloc(pe, bytes, &memory));
            CHECK((uintptr_t)memory % 64 == 0 && is_zero(memory, bytes));
            live[slot] = memory;
            memset(memory, 0xee, bytes);
            *offset = (uint64_t)(live[slot] - (unsigned char *)offset);
            CHECK_OK(perseus_barrier_all(pe));
            CHECK_OK(perseus_atomic_fetch(pe, offset, PERSEUS_ATOMIC_ADD, 0, 0,
                                          (perseus_my_pe(pe) + 1) % job->size, &seen));
            CHECK(seen == perseus_signal_fetch(offset)); /* others add 0 to it meanwhile */
            CHECK_OK(perseus_barrier_all(pe));
        } else {
            CHECK_OK(perseus_free(pe, live[slot]));
            live[slot] = NULL;
        }
    }
    CHECK_OK(perseus_free(pe, NULL));
}

static void fill_up(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)context;
    struct messages *messages = &job->messages[perseus_my_pe(pe)];
    size_t all = pe->heap->bytes - PRS_HEAP_RESERVED;
    void *whole = NULL, *more = NULL;
    CHECK_STATUS(perseus_malloc(pe, all + 1, &whole), PERSEUS_OUT_OF_MEMORY);
    CHECK_STATUS(perseus_malloc(pe, SIZE_MAX, &whole), PERSEUS_OUT_OF_MEMORY);
    CHECK_STATUS(perseus_malloc(pe, 0, &whole), PERSEUS_INVALID_ARGUMENT);
    CHECK(messages_errors(messages) == 3 && messages_have(messages, "PERSEUS_HEAP_BYTES"));
    CHECK(whole == NULL);
    CHECK_OK(perseus_malloc(pe, all, &whole)); /* every byte that was asked for is there */
    CHECK_STATUS(perseus_malloc(pe, 1, &more), PERSEUS_OUT_OF_MEMORY);
    CHECK_OK(perseus_free(pe, whole));
    CHECK_OK(perseus_malloc(pe, all, &more));
    CHECK(more == whole);
}

static void disagree(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)context;
    struct messages *messages = &job->messages[perseus_my_pe(pe)];
    bool odd = perseus_my_pe(pe) == 1;
    void *a = NULL, *b = NULL, *c = NULL;
    CHECK_STATUS(perseus_malloc(pe, odd ? 100 : 200, &a), PERSEUS_INVALID_ARGUMENT);
    CHECK(messages_have(messages, odd ? "PE 0 asked for 200 bytes" : "PE 1 asked for 100 bytes"));
    CHECK_OK(perseus_malloc(pe, 100, &a)); /* nothing of the failed call stays */
    CHECK_OK(perseus_malloc(pe, 100, &b));
    CHECK_STATUS(perseus_free(pe, odd ? a : b), PERSEUS_INVALID_ARGUMENT);
    CHECK_STATUS(odd ? perseus_free(pe, a) : perseus_malloc(pe, 5, &c), PERSEUS_INVALID_ARGUMENT);
    CHECK_STATUS(perseus_malloc(pe, odd ? SIZE_MAX : 8, &c), PERSEUS_INVALID_ARGUMENT);
    CHECK(c == NULL);
    CHECK_OK(perseus_free(pe, a));
    CHECK_OK(perseus_free(pe, b));
}

static void free_wrongly(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)job;
    (void)context;
    unsigned char stack[8];
    void *memory = NULL;
    CHECK_OK(perseus_malloc(pe, 100, &memory));
    CHECK_STATUS(perseus_free(pe, stack), PERSEUS_OUT_OF_RANGE);
    CHECK_STATUS(perseus_free(pe, (unsigned char *)memory + 64), PERSEUS_INVALID_ARGUMENT);
    CHECK_STATUS(perseus_free(pe, pe->heap->base), PERSEUS_OUT_OF_RANGE);
    CHECK_OK(perseus_free(pe, memory));
    CHECK_STATUS(perseus_free(pe, memory), PERSEUS_INVALID_ARGUMENT);
}

/* A neighbour's store through perseus_ptr is this PE's memory. */
static void share(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)context;
    int me = perseus_my_pe(pe), next = (me + 1) % job->size;
    void *memory = NULL;
    CHECK_OK(perseus_malloc(pe, sizeof(int), &memory));
    int *there = perseus_ptr(pe, memory, next);
    CHECK(there != NULL && (job->size == 1 || there != memory));
    *there = me + 1;
    CHECK_OK(perseus_barrier_all(pe));
    CHECK(*(int *)memory == (me + job->size - 1) % job->size + 1);
    CHECK(perseus_ptr(pe, memory, -1) == NULL && perseus_ptr(pe, memory, job->size) == NULL);
    CHECK(perseus_ptr(pe, &me, next) == NULL);
}

static void on_both(int size, pes_body body)
{
    struct perseus_attr attr = pes_attr(0);
    pes_with(size, &attr, body, NULL);
    attr = pes_attr(1);
    pes_with(size, &attr, body, NULL);
}

static void test_allocate(void **state)
{
    (void)state;
    print_message("seed %d\n", SEED);
    on_both(3, allocate_and_free);
}

static void test_full(void **state)
{
    (void)state;
    on_both(2, fill_up);
}

static void test_disagree(void **state)
{
    (void)state;
    on_both(3, disagree);
}

static void test_wrong_free(void **state)
{
    (void)state;
    on_both(2, free_wrongly);
}

static void test_share(void **state)
{
    (void)state;
    struct perseus_attr attr = pes_attr(0);
    pes_with(1, &attr, share, NULL);
    pes_with(4, &attr, share, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocate), cmocka_unit_test(test_full),
        cmocka_unit_test(test_disagree), cmocka_unit_test(test_wrong_free),
        cmocka_unit_test(test_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
