/* SPDX-License-Identifier: Apache-2.0 */
/* The contract's adversary must catch every mutant; if it does not, the contract suite has lost its
 * teeth. */
#include "contract/world.h"
#include "mutant/ordering_mutants.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>

#define SEEDS_MAX   2000
#define SEEDS_RIGHT 100

static bool caught(const struct mutant *mutant, uint32_t lanes, uint64_t seeds)
{
    int last = mutant->piece_bytes > 0 ? STYLE_COUPLED : STYLE_MIXED;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        for (int style = STYLE_COUPLED; style <= last; style++) {
            struct world_case what = {.name = mutant->name,
                                      .mode = &mutant->mode,
                                      .style = (enum program_style)style,
                                      .lanes = lanes,
                                      .piece_bytes = mutant->piece_bytes,
                                      .unordered_mask = mutant->unordered,
                                      .ungranted_mask = mutant->ungranted};
            char why[256];
            if (world_run(&what, seed, why, sizeof why) != NULL) {
                print_message("%s, lanes %u: caught at seed %llu: %s\n", mutant->name, lanes,
                              (unsigned long long)seed, why);
                return true;
            }
        }
    }
    return false;
}

static void test_every_mutant_is_caught(void **state)
{
    (void)state;
    ordering_mutants_fill();
    for (uint32_t i = 0; i < ordering_mutants_count; i++) {
        if (!caught(&ordering_mutants[i], ordering_mutants[i].lanes, SEEDS_MAX)) {
            fail_msg("the mutant \"%s\" survived %d seeds", ordering_mutants[i].name, SEEDS_MAX);
        }
    }
}

/* What is wrong with those of several lanes is that they use several. */
static void test_one_lane_makes_mutants_of_lanes_right(void **state)
{
    (void)state;
    ordering_mutants_fill();
    for (uint32_t i = 0; i < ordering_mutants_count; i++) {
        if (ordering_mutants[i].lanes > 1) {
            assert_false(caught(&ordering_mutants[i], 1, SEEDS_RIGHT));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_mutant_is_caught),
        cmocka_unit_test(test_one_lane_makes_mutants_of_lanes_right)};
    return cmocka_run_group_tests_name("ordering mutants", tests, NULL, NULL);
}
