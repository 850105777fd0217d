/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting a forward's choices into rows: every kept choice has exactly one row, rows of an expert
 * are contiguous and in token order, nothing exceeds the plan's rooms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/rng.h"
#include "model/capture.h"
#include "moe/rows.h"
#include "model/routing.h"

struct fixture {
    struct prs_moe_plan plan;
    struct prs_rows rows;
};

static void fixture_init(struct fixture *fixture, uint32_t experts, uint32_t top_k, uint32_t tokens,
                         int n_pes, double capacity_factor)
{
    const struct perseus_moe_config config = {.hidden = 8,
                                              .intermediate = 8,
                                              .experts = experts,
                                              .top_k = top_k,
                                              .tokens_max = tokens,
                                              .tile_tokens = 4,
                                              .capacity_factor = capacity_factor};
    assert_int_equal(prs_moe_plan_make(&config, n_pes, NULL, &fixture->plan), PERSEUS_OK);
    assert_int_equal(prs_rows_init(&fixture->rows, &fixture->plan, NULL), PERSEUS_OK);
}

/* Checks the filled rows against the ids it came from. */
static void check(const struct fixture *fixture, const int32_t *ids, uint32_t tokens)
{
    const struct prs_moe_plan *plan = &fixture->plan;
    const struct prs_rows *rows = &fixture->rows;
    uint32_t kept = 0, dropped = 0, top_k = plan->config.top_k;
    for (uint32_t i = 0; i < tokens * top_k; i++) {
        uint32_t row = rows->row_of[i];
        if (row == PRS_ROWS_NONE) {
            dropped += ids[i] >= 0;
            continue;
        }
        kept++;
        assert_true(row >= rows->first_row[ids[i]] && row < rows->first_row[ids[i] + 1]);
        assert_int_equal(rows->row_token[row], i / top_k);
    }
    assert_int_equal(kept, rows->count);
    assert_int_equal(dropped, rows->dropped);
    assert_true(rows->count <= plan->rows_out);
    for (uint32_t expert = 0; expert < plan->config.experts; expert++) {
        assert_true(prs_rows_of(rows, expert) <= plan->rows_per_expert);
        for (uint32_t row = rows->first_row[expert] + 1; row < rows->first_row[expert + 1]; row++) {
            assert_true(rows->row_token[row - 1] < rows->row_token[row]);
        }
    }
    for (uint32_t pe = 0; pe < plan->n_pes; pe++) {
        uint32_t first = prs_moe_first_expert(plan, pe);
        uint32_t end = first + prs_moe_hosted(plan, pe);
        assert_true(rows->first_row[end] - rows->first_row[first] <= plan->rows_per_pair);
    }
    uint32_t in_tiles = 0;
    for (uint32_t tile = 0; tile < plan->token_tiles; tile++) {
        in_tiles += rows->left[tile];
    }
    assert_int_equal(in_tiles, kept);
}

static void test_random_routing(void **state)
{
    (void)state;
    const uint64_t seed = 41;
    struct prs_rng rng = prs_rng_seeded(seed);
    for (int round = 0; round < 300; round++) {
        uint32_t experts = 1 + prs_rng_below(&rng, 40), top_k = 1 + prs_rng_below(&rng, experts);
        uint32_t tokens_max = 1 + prs_rng_below(&rng, 50);
        uint32_t tokens = prs_rng_below(&rng, tokens_max + 1);
        double capacity = prs_rng_below(&rng, 2) ? 0 : prs_rng_unit(&rng) * 2;
        top_k = top_k > 8 ? 8 : top_k;
        struct fixture fixture;
        fixture_init(&fixture, experts, top_k, tokens_max, 1 + (int)prs_rng_below(&rng, 9),
                     capacity);
        const struct prs_routing_spec spec = {.kind = PRS_ROUTING_ZIPF,
                                              .exponent = prs_rng_unit(&rng) * 3};
        struct prs_routing routing;
        assert_int_equal(
            prs_routing_init(&routing, &spec, tokens_max, experts, top_k, prs_rng_next(&rng), NULL),
            PERSEUS_OK);
        for (uint32_t i = 0; i < tokens * top_k; i++) {
            if (prs_rng_below(&rng, 10) == 0) {
                routing.ids[i] = PRS_ROUTING_NONE;
            }
        }
        assert_int_equal(prs_rows_check(&fixture.plan, tokens, routing.ids, NULL), PERSEUS_OK);
        prs_rows_fill(&fixture.rows, &fixture.plan, tokens, routing.ids);
        check(&fixture, routing.ids, tokens);
        if (capacity == 0) {
            assert_int_equal(fixture.rows.dropped, 0);
        }
        prs_routing_finish(&routing);
        prs_rows_finish(&fixture.rows);
    }
}

static void test_extremes(void **state)
{
    (void)state;
    struct fixture fixture;
    int32_t ids[12];
    fixture_init(&fixture, 8, 1, 12, 3, 0);
    for (int i = 0; i < 12; i++) {
        ids[i] = 5; /* all tokens to one expert */
    }
    prs_rows_fill(&fixture.rows, &fixture.plan, 12, ids);
    check(&fixture, ids, 12);
    assert_int_equal(prs_rows_of(&fixture.rows, 5), 12);
    assert_int_equal(prs_rows_of(&fixture.rows, 0), 0);
    prs_rows_fill(&fixture.rows, &fixture.plan, 0, ids); /* no token at all */
    check(&fixture, ids, 0);
    assert_int_equal(fixture.rows.count, 0);
    prs_rows_finish(&fixture.rows);

    fixture_init(&fixture, 8, 1, 12, 3, 1); /* ceil(12 / 8) = 2 rows an expert */
    prs_rows_fill(&fixture.rows, &fixture.plan, 12, ids);
    check(&fixture, ids, 12);
    assert_int_equal(fixture.rows.dropped, 10);
    assert_int_equal(fixture.rows.row_of[1], 1); /* the first tokens are kept */
    assert_int_equal(fixture.rows.row_of[2], PRS_ROWS_NONE);
    prs_rows_finish(&fixture.rows);
}

static void test_refuses_bad_ids(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture, 8, 2, 4, 2, 0);
    const struct {
        int32_t ids[4];
        const char *said;
    } bad[] = {
        {{0, 1, 2, 8}, "token 1, choice 1 is expert 8"},
        {{0, 1, -2, 3}, "token 1, choice 0 is expert -2"},
        {{3, 3, 0, 1}, "token 0, choice 1 is expert 3"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct capture capture;
        capture_init(&capture);
        assert_int_equal(prs_rows_check(&fixture.plan, 2, bad[i].ids, &capture.log),
                         PERSEUS_INVALID_ARGUMENT);
        assert_said(&capture, bad[i].said);
    }
    const int32_t unused[] = {-1, -1, 4, -1};
    assert_int_equal(prs_rows_check(&fixture.plan, 2, unused, NULL), PERSEUS_OK);
    prs_rows_finish(&fixture.rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_routing),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_refuses_bad_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
