/* SPDX-License-Identifier: Apache-2.0 */
/* The symmetric allocator against a plain map of its range: never overlapping, always first fit,
 * the same on every PE, and nothing lost to fragmentation once all is freed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "core/memory/allocator.h"

#define UNIT   PRS_ALLOCATOR_ALIGNMENT
#define UNITS  256
#define BYTES  ((size_t)UNITS * UNIT)
#define LIVE   64
#define SEEDS  200
#define ROUNDS 300

/* A second opinion: one flag per unit of 64 bytes. */
struct model {
    bool taken[UNITS];
};

static size_t units_of(size_t bytes)
{
    return (bytes + UNIT - 1) / UNIT;
}

/* Lowest offset with room, or BYTES. */
static size_t model_first_fit(const struct model *model, size_t bytes)
{
    size_t wanted = units_of(bytes), run = 0;
    for (size_t i = 0; i < UNITS; i++) {
        run = model->taken[i] ? 0 : run + 1;
        if (run == wanted) {
            return (i + 1 - wanted) * UNIT;
        }
    }
    return BYTES;
}

static void model_mark(struct model *model, size_t offset, size_t bytes, bool taken)
{
    for (size_t i = 0; i < units_of(bytes); i++) {
        assert_true(model->taken[offset / UNIT + i] != taken);
        model->taken[offset / UNIT + i] = taken;
    }
}

static void random_calls(uint64_t seed)
{
    struct prs_rng rng = prs_rng_seeded(seed);
    struct model model = {{false}};
    struct prs_allocator *allocator = NULL, *other_pe = NULL;
    size_t offsets[LIVE], sizes[LIVE], live = 0;
    assert_int_equal(prs_allocator_create(BYTES, &allocator), PERSEUS_OK);
    assert_int_equal(prs_allocator_create(BYTES, &other_pe), PERSEUS_OK);
    for (int round = 0; round < ROUNDS; round++) {
        if (live < LIVE && (live == 0 || prs_rng_below(&rng, 2) == 0)) {
            size_t bytes = 1 + prs_rng_below(&rng, 20 * UNIT), offset = 1, other = 2;
            size_t expected = model_first_fit(&model, bytes);
            enum perseus_status status = prs_allocator_take(allocator, bytes, &offset);
            assert_int_equal(status, prs_allocator_take(other_pe, bytes, &other));
            assert_int_equal(status, expected == BYTES ? PERSEUS_OUT_OF_MEMORY : PERSEUS_OK);
            if (status == PERSEUS_OK) {
                assert_int_equal(offset, expected);
                assert_int_equal(offset, other);
                model_mark(&model, offset, bytes, true);
                offsets[live] = offset;
                sizes[live++] = bytes;
            }
        } else {
            size_t i = prs_rng_below(&rng, (uint32_t)live);
            assert_true(prs_allocator_holds(allocator, offsets[i]));
            assert_int_equal(prs_allocator_give(allocator, offsets[i]), PERSEUS_OK);
            assert_int_equal(prs_allocator_give(other_pe, offsets[i]), PERSEUS_OK);
            assert_false(prs_allocator_holds(allocator, offsets[i]));
            model_mark(&model, offsets[i], sizes[i], false);
            live--;
            offsets[i] = offsets[live];
            sizes[i] = sizes[live];
        }
    }
    while (live > 0) {
        assert_int_equal(prs_allocator_give(allocator, offsets[--live]), PERSEUS_OK);
    }
    assert_int_equal(prs_allocator_largest_free(allocator), BYTES);
    prs_allocator_destroy(other_pe);
    prs_allocator_destroy(allocator);
}

static void test_random(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        random_calls(seed);
    }
}

static void test_bad_frees(void **state)
{
    (void)state;
    struct prs_allocator *allocator = NULL;
    size_t a, b;
    assert_int_equal(prs_allocator_create(BYTES, &allocator), PERSEUS_OK);
    assert_int_equal(prs_allocator_take(allocator, 100, &a), PERSEUS_OK);
    assert_int_equal(prs_allocator_take(allocator, 100, &b), PERSEUS_OK);
    assert_int_equal(prs_allocator_give(allocator, a + UNIT), PERSEUS_INVALID_ARGUMENT);
    assert_int_equal(prs_allocator_give(allocator, BYTES), PERSEUS_INVALID_ARGUMENT);
    assert_int_equal(prs_allocator_give(allocator, a), PERSEUS_OK);
    assert_int_equal(prs_allocator_give(allocator, a), PERSEUS_INVALID_ARGUMENT);
    assert_true(prs_allocator_holds(allocator, b));
    prs_allocator_destroy(allocator);
}

static void test_limits(void **state)
{
    (void)state;
    struct prs_allocator *allocator = NULL;
    size_t offset = 7;
    prs_allocator_destroy(NULL);
    assert_int_equal(prs_allocator_create(BYTES, &allocator), PERSEUS_OK);
    assert_int_equal(prs_allocator_take(allocator, BYTES + 1, &offset), PERSEUS_OUT_OF_MEMORY);
    assert_int_equal(prs_allocator_take(allocator, SIZE_MAX, &offset), PERSEUS_OUT_OF_MEMORY);
    assert_int_equal(prs_allocator_take(allocator, SIZE_MAX - 62, &offset), PERSEUS_OUT_OF_MEMORY);
    assert_int_equal(offset, 7); /* outputs are set on success only */
    assert_int_equal(prs_allocator_take(allocator, BYTES, &offset), PERSEUS_OK);
    assert_int_equal(offset, 0);
    assert_int_equal(prs_allocator_largest_free(allocator), 0);
    assert_int_equal(prs_allocator_take(allocator, 1, &offset), PERSEUS_OUT_OF_MEMORY);
    prs_allocator_destroy(allocator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_bad_frees),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
