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

#define SEEDS_MAX 2000

static bool caught(const struct mutant *mutant)
{
    for (uint64_t seed = 1; seed <= SEEDS_MAX; seed++) {
        for (int style = STYLE_COUPLED; style <= STYLE_MIXED; style++) {
            struct world_case what = {.name = mutant->name,
                                      .mode = &mutant->mode,
                                      .style = (enum program_style)style,
                                      .unordered_mask = mutant->unordered,
                                      .ungranted_mask = mutant->ungranted};
            char why[256];
            if (world_run(&what, seed, why, sizeof why) != NULL) {
                print_message("%s: caught at seed %llu: %s\n", mutant->name,
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
        if (!caught(&ordering_mutants[i])) {
            fail_msg("the mutant \"%s\" survived %d seeds", ordering_mutants[i].name, SEEDS_MAX);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_mutant_is_caught)};
    return cmocka_run_group_tests_name("ordering mutants", tests, NULL, NULL);
}
