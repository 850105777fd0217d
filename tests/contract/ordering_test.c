/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every ordering mode, under every style of program, on every kind of fabric that the loopback can
 * play, with an adversary that reorders, delays and refuses whatever the contract allows.
 * PERSEUS_TEST_SEEDS sets the number of seeds per case, PERSEUS_TEST_SEED runs one.
 */
#include "contract/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>

#define SEEDS_DEFAULT 40
#define LANES         4
#define PIECE_BYTES   16 /* the programs' larger puts are up to as many pieces as lanes */

struct grant {
    const char *name;
    uint64_t unordered, ungranted;
};

static const struct grant grants[] = {
    {"all granted", 0, 0},
    {"unordered, fence flag", PRS_ORDER_EVERY_PAIR, 0},
    {"unordered, no fence flag", PRS_ORDER_EVERY_PAIR, PRS_UNGRANT_FENCE},
    {"unordered, no fence, 32-bit immediates, no atomics", PRS_ORDER_EVERY_PAIR,
     PRS_UNGRANT_FENCE | PRS_UNGRANT_WIDE_IMMEDIATE | PRS_UNGRANT_ATOMICS},
    {"unordered, no immediates", PRS_ORDER_EVERY_PAIR, PRS_UNGRANT_IMMEDIATE},
    {"ordered writes, unordered atomics", PRS_ORDER_PUT_ATOMIC, PRS_UNGRANT_FENCE},
    {"ordered, atomics not coherent with the CPU", 0, PRS_UNGRANT_COHERENT},
    {"ordered, words tear", 0, PRS_UNGRANT_WHOLE_SIGNALS | PRS_UNGRANT_FENCE},
    {"unordered, words tear", PRS_ORDER_EVERY_PAIR, PRS_UNGRANT_WHOLE_SIGNALS},
    {"fence flag, completions only transmitted, no immediates, no atomics", PRS_ORDER_EVERY_PAIR,
     PRS_UNGRANT_DELIVERED | PRS_UNGRANT_IMMEDIATE | PRS_UNGRANT_ATOMICS},
};

static const char *const style_names[] = {"coupled", "decoupled", "mixed"};

static uint64_t seeds_wanted(uint64_t *first)
{
    const char *one = getenv("PERSEUS_TEST_SEED");
    const char *many = getenv("PERSEUS_TEST_SEEDS");
    *first = one != NULL ? strtoull(one, NULL, 10) : 1;
    return one != NULL ? 1 : many != NULL ? strtoull(many, NULL, 10) : SEEDS_DEFAULT;
}

/* By the seed: on one lane, on several, and on several with puts in pieces. */
static void run_case(struct world_case *what, uint32_t *cases)
{
    if (world_supported(what) != PERSEUS_OK) {
        return;
    }
    uint64_t first, count = seeds_wanted(&first);
    for (uint64_t seed = first; seed < first + count; seed++) {
        char why[256];
        what->lanes = seed % 2 == 0 ? 1 : LANES;
        what->piece_bytes = seed % 4 == 1 ? PIECE_BYTES : 0;
        const char *bad = world_run(what, seed, why, sizeof why);
        if (bad != NULL) {
            fail_msg(
                "%s, %s, %s, lanes %u%s%s%s: %s; reproduce with PERSEUS_TEST_SEED=%llu", what->name,
                perseus_ordering_name(what->ordering), style_names[what->style], what->lanes,
                what->small_pools ? ", small pools" : "", what->loses ? ", loss" : "",
                what->no_immediate_signal ? ", nothing rides" : "", bad, (unsigned long long)seed);
        }
    }
    ++*cases;
}

/* Every kind of fabric, every style; then everything that can run out at its minimum, signals in
 * records of their own, and a loss. */
static void run_mode(enum perseus_ordering ordering)
{
    uint32_t cases = 0;
    for (size_t g = 0; g < sizeof grants / sizeof grants[0]; g++) {
        for (int style = STYLE_COUPLED; style <= STYLE_MIXED; style++) {
            struct world_case what = {.name = grants[g].name,
                                      .ordering = ordering,
                                      .style = (enum program_style)style,
                                      .unordered_mask = grants[g].unordered,
                                      .ungranted_mask = grants[g].ungranted};
            run_case(&what, &cases);
            what.small_pools = true;
            run_case(&what, &cases);
            what.no_immediate_signal = true;
            run_case(&what, &cases);
            what.small_pools = false;
            what.loses = true;
            run_case(&what, &cases);
            what.no_immediate_signal = false;
            run_case(&what, &cases);
        }
    }
    assert_true(cases >= 30); /* every mode is kept by at least two kinds of fabric */
}

static void test_drain(void **state)
{
    (void)state;
    run_mode(PERSEUS_ORDERING_DRAIN);
}

static void test_drain_peer(void **state)
{
    (void)state;
    run_mode(PERSEUS_ORDERING_DRAIN_PEER);
}

static void test_deferred(void **state)
{
    (void)state;
    run_mode(PERSEUS_ORDERING_DEFERRED);
}

static void test_nic_fence(void **state)
{
    (void)state;
    run_mode(PERSEUS_ORDERING_NIC_FENCE);
}

static void test_fifo(void **state)
{
    (void)state;
    run_mode(PERSEUS_ORDERING_FIFO);
}

static void test_counted(void **state)
{
    (void)state;
    run_mode(PERSEUS_ORDERING_COUNTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drain),    cmocka_unit_test(test_drain_peer),
        cmocka_unit_test(test_deferred), cmocka_unit_test(test_nic_fence),
        cmocka_unit_test(test_fifo),     cmocka_unit_test(test_counted),
    };
    return cmocka_run_group_tests_name("ordering contract", tests, NULL, NULL);
}
