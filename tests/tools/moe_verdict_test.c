/* SPDX-License-Identifier: Apache-2.0 */
/* The words below the table of `perseus moe`: every case of every sentence, and none beside it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "moe/verdict.h"

enum { VANILLA, GROUPED, ORDERED, BOTH, COLLECTIVE, PUT_ONLY, CEILING, N };

/* A run in which both levers help and win; tests change what they are about. */
static struct prs_moe_results usual(void)
{
    static const struct {
        const char *name;
        enum prs_moe_role role;
        enum perseus_moe_protocol number;
        double comm, total, fences, drains, stall;
    } rows[N] = {
        [VANILLA] = {"coupled + drain", PRS_MOE_VANILLA, PERSEUS_MOE_COUPLED, 40, 80, 300, 300, 30},
        [GROUPED] = {"decoupled + drain", PRS_MOE_GROUPED, PERSEUS_MOE_DECOUPLED, 20, 60, 90, 90,
                     9},
        [ORDERED] = {"coupled + fifo", PRS_MOE_ORDERED, PERSEUS_MOE_COUPLED, 10, 45, 300, 0, 0},
        [BOTH] = {"decoupled + fifo", PRS_MOE_BOTH, PERSEUS_MOE_DECOUPLED, 8, 40, 90, 0, 0},
        [COLLECTIVE] = {"collective", PRS_MOE_OTHER, PERSEUS_MOE_COLLECTIVE, 12, 50, 0, 0, 0},
        [PUT_ONLY] = {"put-only", PRS_MOE_OTHER, PERSEUS_MOE_PUT_ONLY, 9, 48, 0, 0, 0},
        [CEILING] = {"ceiling, by PE", PRS_MOE_CEILING, PERSEUS_MOE_COLLECTIVE, 5, NAN, NAN, NAN,
                     NAN},
    };
    struct prs_moe_results results = {.n_variants = N};
    for (int i = 0; i < N; i++) {
        struct prs_moe_variant *variant = &results.variants[i];
        variant->role = rows[i].role;
        variant->number = rows[i].number;
        snprintf(variant->name, sizeof variant->name, "%s", rows[i].name);
        results.result[i] = (struct prs_moe_result){.is_run = true,
                                                    .comm = rows[i].comm,
                                                    .total = rows[i].total,
                                                    .fences = rows[i].fences,
                                                    .drains = rows[i].drains,
                                                    .stall = rows[i].stall};
    }
    return results;
}

static char said[4096];

static void listen(const struct prs_moe_results *results)
{
    FILE *to = fmemopen(said, sizeof said, "w");
    assert_non_null(to);
    prs_moe_verdict(results, to);
    fclose(to);
}

#define assert_says(words)                                     \
    do {                                                       \
        if (strstr(said, (words)) == NULL) {                   \
            fail_msg("expected \"%s\" in: %s", (words), said); \
        }                                                      \
    } while (0)
#define assert_says_not(words) assert_null(strstr(said, (words)))

static void test_both_levers(void **state)
{
    (void)state;
    struct prs_moe_results results = usual();
    listen(&results);
    assert_says(
        "The bottleneck was the fence of every put-with-signal: 300 drains held up the proxies "
        "for 30.00 ms each");
    assert_says(
        "Ordering without a drain (cheap fences) alone makes communication 4.0 times as fast, "
        "both levers 5.0 times: 8.00 instead of 40.00 ms.");
    assert_says(
        "decoupled + fifo comes closest to the ceiling, puts that nothing orders: 1.60 times "
        "5.00 ms.");
    assert_says(
        "decoupled + fifo has the best total: 40.00 ms, 2.00 times as fast as the vanilla way's "
        "80.00.");
    assert_says("Of these 40.00 ms computing experts takes the most.");
    results.result[GROUPED].comm = 9;
    listen(&results);
    assert_says(
        "Decoupled signaling (fewer fences) alone makes communication 4.4 times as fast, both");
    results.result[BOTH].comm = 30;
    results.result[BOTH].total = 40;
    listen(&results);
    assert_says("Of these 40.00 ms communication takes the most.");
}

static void test_nothing_is_sent(void **state)
{
    (void)state;
    struct prs_moe_results results = usual();
    results.result[VANILLA].fences = results.result[VANILLA].drains = 0;
    listen(&results);
    assert_says("Signaling was no bottleneck: no signal left a node");
    assert_says_not("lever");
    assert_says_not("ceiling");
    assert_says("has the best total");
}

static void test_no_bottleneck(void **state)
{
    (void)state;
    struct prs_moe_results results = usual();
    results.result[VANILLA].stall = 0.5;
    results.result[VANILLA].comm = 8.2;
    results.result[ORDERED].comm = 8.3;
    listen(&results);
    assert_says(
        "Signaling was no bottleneck: communication takes 8.20 ms in the vanilla way and 8.00 ms "
        "with decoupled + fifo.");
    assert_says_not("times as fast, both");
}

/* Never "no bottleneck" beside proxies that stood still. */
static void test_stalls_that_nothing_removes(void **state)
{
    (void)state;
    struct prs_moe_results results = usual();
    results.result[VANILLA].stall = 46;
    for (int i = 0; i < CEILING; i++) {
        results.result[i].comm = 100;
    }
    listen(&results);
    assert_says("Proxies stood still for 46.00 ms each of a vanilla forward (300 drains), yet "
                "communication takes 100.00 ms with decoupled + fifo and 100.00 ms without");
    assert_says_not("no bottleneck");
}

static void test_signals_without_stalls(void **state)
{
    (void)state;
    struct prs_moe_results results = usual();
    results.result[VANILLA].stall = 1;
    listen(&results);
    assert_says("Signaling was in the way, but not by standing proxies (1.00 ms each");
    assert_says("both levers 5.0 times");
}

static void test_one_lever_does_more(void **state)
{
    (void)state;
    struct prs_moe_results results = usual();
    results.result[BOTH].comm = 14;
    listen(&results);
    assert_says(
        "Ordering without a drain (cheap fences) alone makes communication 4.0 times as fast "
        "(10.00 instead of 40.00 ms); the other lever adds nothing to that (both: 14.00 ms).");
}

static void test_levers_that_cost(void **state)
{
    (void)state;
    struct prs_moe_results results = usual();
    results.result[VANILLA].comm = 7;
    results.result[VANILLA].stall = 0;
    listen(&results);
    assert_says(
        "With decoupled + fifo communication is slower than in the vanilla way: 8.00 against "
        "7.00 ms.");
}

static void test_one_lever_only(void **state)
{
    (void)state;
    struct prs_moe_results results = usual();
    results.result[ORDERED].is_run = results.result[BOTH].is_run = false;
    listen(&results);
    assert_says(
        "decoupled signaling is the only lever; with it communication is 2.0 times as fast.");
    assert_says("The best total is put-only's: 48.00 ms, against 60.00 with decoupled + drain.");
}

static void test_ceilings(void **state)
{
    (void)state;
    struct prs_moe_results results = usual();
    results.result[CEILING].comm = 10;
    listen(&results);
    assert_says(
        "decoupled + fifo communicates in 8.00 ms, the same puts without any order took 10.00");
    assert_says_not("closest");
    results.result[CEILING].comm = 8.1; /* within what two medians differ by */
    listen(&results);
    assert_says("closest to the ceiling");
    results.result[CEILING].is_run = false;
    listen(&results);
    assert_says_not("ceiling");
    results = usual();
    results.result[COLLECTIVE].comm = 6;
    listen(&results);
    assert_says(
        "collective comes closest to the ceiling, puts that nothing orders: 1.20 times 5.00 ms.");
}

static void test_totals(void **state)
{
    (void)state;
    struct prs_moe_results results = usual();
    results.result[COLLECTIVE].total = 31;
    listen(&results);
    assert_says("The best total is collective's: 31.00 ms, against 40.00 with decoupled + fifo.");
    assert_says("Of these 31.00 ms computing experts takes the most.");
    results.result[COLLECTIVE].total = 39.5;
    listen(&results);
    assert_says("In total collective (39.50 ms) and decoupled + fifo (40.00 ms) are as good as "
                "each other.");
    results.result[ORDERED].total = 20;
    listen(&results);
    assert_says(
        "The best total is coupled + fifo's: 20.00 ms, against 40.00 with decoupled + fifo.");
}

/* Several rows of one role: communication is judged by one, totals by another. */
static void test_the_best_of_a_role(void **state)
{
    (void)state;
    struct prs_moe_results results = usual();
    results.variants[N] = results.variants[BOTH];
    results.result[N] = results.result[BOTH];
    snprintf(results.variants[N].name, sizeof results.variants[N].name, "decoupled 4 + fifo");
    results.result[N].comm = 7;
    results.result[N].total = 44;
    results.n_variants = N + 1;
    listen(&results);
    assert_says("decoupled 4 + fifo comes closest");
    assert_says("decoupled + fifo has the best total");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_levers),
        cmocka_unit_test(test_nothing_is_sent),
        cmocka_unit_test(test_no_bottleneck),
        cmocka_unit_test(test_stalls_that_nothing_removes),
        cmocka_unit_test(test_signals_without_stalls),
        cmocka_unit_test(test_one_lever_does_more),
        cmocka_unit_test(test_levers_that_cost),
        cmocka_unit_test(test_one_lever_only),
        cmocka_unit_test(test_ceilings),
        cmocka_unit_test(test_totals),
        cmocka_unit_test(test_the_best_of_a_role),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
