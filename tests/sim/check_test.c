/* SPDX-License-Identifier: Apache-2.0 */
/* The adversary in virtual time finds nothing wrong with any mode, and something with every mutant,
 * which it then shows in a few steps. The same seed fails the same way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "mutant/ordering_mutants.h"
#include "sim/check.h"

#define SEEDS     30u
#define SEEDS_MAX 3000u

static void test_modes(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < sim_check_cases_count; i++) {
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            struct sim_check check = sim_check_cases[i];
            check.seed = seed;
            sim_check_plan(&check);
            const char *bad = sim_check_run(&check);
            if (bad != NULL) {
                fail_msg("%s: %s; seed %u", perseus_ordering_name(check.ordering), bad,
                         (unsigned)seed);
            }
        }
    }
}

static bool is_caught(const struct mutant *mutant)
{
    for (uint64_t seed = 1; seed <= SEEDS_MAX; seed++) {
        struct sim_check check = {.ordering = mutant->mode.ordering,
                                  .mode = &mutant->mode,
                                  .ordered = mutant->unordered == 0,
                                  .fence = true,
                                  .immediate_bits = 64,
                                  .seed = seed};
        sim_check_plan(&check);
        if (sim_check_run(&check) == NULL) {
            continue;
        }
        uint32_t left = sim_check_shrink(&check);
        char why[sizeof check.why];
        memcpy(why, check.why, sizeof why);
        assert_non_null(sim_check_run(&check));
        assert_string_equal(why, check.why);
        print_message("%s: seed %u, %u steps left: %s\n", mutant->name, (unsigned)seed, left, why);
        return true;
    }
    return false;
}

static void test_mutants(void **state)
{
    (void)state;
    ordering_mutants_fill();
    for (uint32_t i = 0; i < ordering_mutants_count; i++) {
        /* A cluster's PEs have one lane to each other, on which mutants of several are right. */
        bool is_wrong = ordering_mutants[i].lanes <= 1;
        if (is_caught(&ordering_mutants[i]) != is_wrong) {
            fail_msg("the mutant \"%s\" %s", ordering_mutants[i].name,
                     is_wrong ? "survived" : "was caught on one lane");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_modes),
                                       cmocka_unit_test(test_mutants)};
    return cmocka_run_group_tests_name("adversary in virtual time", tests, NULL, NULL);
}
