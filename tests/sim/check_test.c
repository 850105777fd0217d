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

#define SEEDS       30u
#define KNOWN_PLAN  0x23746e79f4399860u
#define SEEDS_MAX   3000u
#define SEEDS_RIGHT 100u

/* What the programs of a seed are to show, by protocol. */
static void add_planned(const struct sim_check *check, uint64_t planned[SIM_CHECK_KINDS])
{
    for (uint32_t pe = 0; pe < SIM_CHECK_PES; pe++) {
        for (uint32_t i = 0; i < SIM_CHECK_STEPS; i++) {
            const struct sim_check_step *step = &check->steps[pe][i];
            planned[step->kind] += step->kind == SIM_CHECK_COUNTER ? 1 : step->members;
        }
    }
}

/* Every cell of mode by protocol is run: each signal that was planned is seen and looked at. */
static void test_modes(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < sim_check_cases_count; i++) {
        uint64_t planned[SIM_CHECK_KINDS] = {0}, seen[SIM_CHECK_KINDS] = {0};
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            struct sim_check check = sim_check_cases[i];
            check.seed = seed;
            sim_check_plan(&check);
            const char *bad = sim_check_run(&check);
            if (bad != NULL) {
                fail_msg("%s: %s; seed %u", perseus_ordering_name(check.ordering), bad,
                         (unsigned)seed);
            }
            add_planned(&check, planned);
            for (int kind = 0; kind < SIM_CHECK_KINDS; kind++) {
                seen[kind] += check.seen[kind];
            }
        }
        for (int kind = 0; kind < SIM_CHECK_KINDS; kind++) {
            assert_true(seen[kind] > SEEDS && seen[kind] == planned[kind]);
        }
    }
}

static bool is_caught(const struct mutant *mutant, uint32_t lanes, uint64_t seeds)
{
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        struct sim_check check = {.ordering = mutant->mode.ordering,
                                  .mode = &mutant->mode,
                                  .ordered = mutant->unordered == 0,
                                  .fence = true,
                                  .immediate_bits = 64,
                                  .lanes = lanes,
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
        print_message("%s, lanes %u: seed %u, %u steps left: %s\n", mutant->name, lanes,
                      (unsigned)seed, left, why);
        return true;
    }
    return false;
}

static void test_mutants(void **state)
{
    (void)state;
    ordering_mutants_fill();
    for (uint32_t i = 0; i < ordering_mutants_count; i++) {
        if (!is_caught(&ordering_mutants[i], ordering_mutants[i].lanes, SEEDS_MAX)) {
            fail_msg("the mutant \"%s\" survived", ordering_mutants[i].name);
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
            assert_false(is_caught(&ordering_mutants[i], 1, SEEDS_RIGHT));
        }
    }
}

/* The plan of a seed, so that compilers, builds and machines agree on it. */
static void test_known_plan(void **state)
{
    (void)state;
    struct sim_check check = {.seed = 7, .immediate_bits = 64};
    uint64_t mixed = 0;
    sim_check_plan(&check);
    for (uint32_t pe = 0; pe < SIM_CHECK_PES; pe++) {
        for (uint32_t i = 0; i < SIM_CHECK_STEPS; i++) {
            const struct sim_check_step *step = &check.steps[pe][i];
            const uint64_t fields[] = {step->kind, step->target,   step->members,
                                       step->adds, step->delay_ns, step->preempted_ns};
            for (size_t f = 0; f < sizeof fields / sizeof fields[0]; f++) {
                mixed = (mixed ^ fields[f]) * 0x9e3779b97f4a7c15u;
                mixed ^= mixed >> 31;
            }
        }
    }
    print_message("plan %llx\n", (unsigned long long)mixed);
    assert_true(mixed == KNOWN_PLAN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modes), cmocka_unit_test(test_known_plan),
        cmocka_unit_test(test_mutants),
        cmocka_unit_test(test_one_lane_makes_mutants_of_lanes_right)};
    return cmocka_run_group_tests_name("adversary in virtual time", tests, NULL, NULL);
}
