/* SPDX-License-Identifier: Apache-2.0 */
/* The table of registered buffers: look-ups at every edge, overlaps refused, windows used again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "core/memory/buffers.h"
#include "core/messages.h"

#define SLOTS  32
#define SLOT   128
#define ROUNDS 5000
#define SEED   11

static void test_edges(void **state)
{
    (void)state;
    static unsigned char memory[300];
    struct prs_buffers *buffers = NULL;
    uint16_t window = 9;
    uint64_t offset = 9;
    assert_int_equal(prs_buffers_create(NULL, NULL, &buffers), PERSEUS_OK);
    assert_false(prs_buffers_find(buffers, memory, 1, &window, &offset));
    assert_int_equal(prs_buffers_add(buffers, memory + 100, 100), PERSEUS_OK);
    assert_false(prs_buffers_find(buffers, memory + 99, 1, &window, &offset));
    assert_false(prs_buffers_find(buffers, memory + 99, 2, &window, &offset));
    assert_false(prs_buffers_find(buffers, memory + 199, 2, &window, &offset));
    assert_false(prs_buffers_find(buffers, memory + 201, 0, &window, &offset));
    assert_false(prs_buffers_find(buffers, memory + 150, SIZE_MAX, &window, &offset));
    assert_int_equal(window, 9);
    assert_true(prs_buffers_find(buffers, memory + 100, 100, &window, &offset));
    assert_int_equal(offset, 0);
    assert_true(prs_buffers_find(buffers, memory + 199, 1, &window, &offset));
    assert_int_equal(offset, 99);
    assert_true(window != PRS_WINDOW_HEAP);
    prs_buffers_destroy(buffers);
}

static void test_overlaps(void **state)
{
    (void)state;
    static unsigned char memory[400];
    struct messages messages;
    messages_init(&messages);
    const struct prs_log log = {.fn = messages_take, .user = &messages, .pe = 0};
    struct prs_buffers *buffers = NULL;
    assert_int_equal(prs_buffers_create(&log, NULL, &buffers), PERSEUS_OK);
    assert_int_equal(prs_buffers_add(buffers, memory + 100, 100), PERSEUS_OK);
    assert_int_equal(prs_buffers_add(buffers, memory + 100, 100), PERSEUS_INVALID_ARGUMENT);
    assert_int_equal(prs_buffers_add(buffers, memory + 199, 1), PERSEUS_INVALID_ARGUMENT);
    assert_int_equal(prs_buffers_add(buffers, memory, 101), PERSEUS_INVALID_ARGUMENT);
    assert_int_equal(prs_buffers_add(buffers, memory, 400), PERSEUS_INVALID_ARGUMENT);
    assert_int_equal(messages_errors(&messages), 4);
    assert_true(messages_have(&messages, "overlaps"));
    assert_int_equal(prs_buffers_add(buffers, memory, 100), PERSEUS_OK);
    assert_int_equal(prs_buffers_add(buffers, memory + 200, 200), PERSEUS_OK);
    assert_int_equal(prs_buffers_remove(buffers, memory + 1), PERSEUS_INVALID_ARGUMENT);
    assert_false(prs_buffers_has(buffers, memory + 1));
    assert_int_equal(prs_buffers_remove(buffers, memory), PERSEUS_OK);
    assert_int_equal(prs_buffers_remove(buffers, memory), PERSEUS_INVALID_ARGUMENT);
    prs_buffers_destroy(buffers);
    prs_buffers_destroy(NULL);
}

static void test_random(void **state)
{
    (void)state;
    print_message("seed %d\n", SEED);
    static unsigned char memory[SLOTS * SLOT];
    struct prs_rng rng = prs_rng_seeded(SEED);
    struct prs_buffers *buffers = NULL;
    size_t sizes[SLOTS] = {0};
    assert_int_equal(prs_buffers_create(NULL, NULL, &buffers), PERSEUS_OK);
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t slot = prs_rng_below(&rng, SLOTS);
        unsigned char *base = memory + slot * SLOT;
        if (sizes[slot] == 0) {
            sizes[slot] = 1 + prs_rng_below(&rng, SLOT);
            assert_int_equal(prs_buffers_add(buffers, base, sizes[slot]), PERSEUS_OK);
        } else {
            assert_int_equal(prs_buffers_remove(buffers, base), PERSEUS_OK);
            sizes[slot] = 0;
        }
        uint32_t at = prs_rng_below(&rng, SLOTS * SLOT);
        uint16_t window = 0;
        uint64_t offset = 0;
        bool found = prs_buffers_find(buffers, memory + at, 1, &window, &offset);
        assert_int_equal(found, at % SLOT < sizes[at / SLOT]);
        assert_true(!found || (offset == at % SLOT && window >= 1 && window <= SLOTS));
    }
    prs_buffers_destroy(buffers);
}

static void test_limit(void **state)
{
    (void)state;
    static unsigned char memory[PRS_BUFFERS_MAX];
    struct prs_buffers *buffers = NULL;
    assert_int_equal(prs_buffers_create(NULL, NULL, &buffers), PERSEUS_OK);
    for (size_t i = 0; i < PRS_BUFFERS_MAX - 1; i++) {
        assert_int_equal(prs_buffers_add(buffers, memory + i, 1), PERSEUS_OK);
    }
    assert_int_equal(prs_buffers_add(buffers, memory + PRS_BUFFERS_MAX - 1, 1), PERSEUS_LIMIT);
    assert_int_equal(prs_buffers_remove(buffers, memory + 7), PERSEUS_OK);
    assert_int_equal(prs_buffers_add(buffers, memory + PRS_BUFFERS_MAX - 1, 1), PERSEUS_OK);
    assert_null(prs_buffers_region(buffers, 1)); /* no fabric, no region */
    prs_buffers_destroy(buffers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_overlaps),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
