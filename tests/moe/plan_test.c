/* SPDX-License-Identifier: Apache-2.0 */
/* The plan's arithmetic: partition, layout, limits, and the signal word. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "model/capture.h"
#include "model/models.h"
#include "moe/plan.h"
#include "moe/word.h"

static struct perseus_moe_config config_of(uint32_t experts, uint32_t top_k, uint32_t tokens)
{
    return (struct perseus_moe_config){.hidden = 48,
                                       .intermediate = 32,
                                       .experts = experts,
                                       .top_k = top_k,
                                       .tokens_max = tokens,
                                       .tile_tokens = 16};
}

static void test_models_are_the_published_shapes(void **state)
{
    (void)state;
    size_t count;
    prs_moe_models(&count);
    assert_int_equal(count, 7);
    const struct prs_moe_model *model = prs_moe_model_find("deepseek-v3");
    assert_non_null(model);
    assert_int_equal(model->hidden, 7168);
    assert_int_equal(model->intermediate, 2048);
    assert_int_equal(model->experts, 256);
    assert_int_equal(model->top_k, 8);
    assert_int_equal(model->shared_experts, 1);
    assert_null(prs_moe_model_find("gpt-oss"));
}

static void test_partition_covers_every_expert_once(void **state)
{
    (void)state;
    for (uint32_t experts = 1; experts <= 40; experts++) {
        for (int n_pes = 1; n_pes <= 48; n_pes++) {
            struct perseus_moe_config config = config_of(experts, 1, 8);
            struct prs_moe_plan plan;
            assert_int_equal(prs_moe_plan_make(&config, n_pes, NULL, &plan), PERSEUS_OK);
            uint32_t next = 0;
            for (uint32_t pe = 0; pe < (uint32_t)n_pes; pe++) {
                assert_int_equal(prs_moe_first_expert(&plan, pe), next);
                uint32_t hosted = prs_moe_hosted(&plan, pe);
                assert_true(hosted <= plan.hosted_max && hosted + 1 >= plan.hosted_max);
                for (uint32_t i = 0; i < hosted; i++) {
                    assert_int_equal(prs_moe_host(&plan, next++), pe);
                }
            }
            assert_int_equal(next, experts);
        }
    }
}

/* Regions are aligned, in order, do not overlap and fill the block. */
static void check_layout(const struct prs_moe_plan *plan)
{
    uint64_t at = 0;
    for (int half = 0; half < PRS_MOE_HALVES; half++) {
        const uint64_t starts[] = {plan->arrivals[half], plan->outgoing[half],
                                   plan->dispatch_words[half], plan->answer_words[half]};
        const uint64_t sizes[] = {
            (uint64_t)plan->n_pes * plan->rows_per_pair * plan->row_bytes,
            plan->rows_out * plan->row_bytes,
            8 * (prs_moe_dispatch_word(plan, plan->n_pes - 1, plan->tiles_per_expert - 1,
                                       plan->hosted_max - 1) +
                 1),
            8 * (prs_moe_answer_word(plan, plan->tiles_per_expert - 1, plan->config.experts - 1) +
                 1)};
        for (int i = 0; i < 4; i++) {
            assert_int_equal(starts[i], at);
            assert_int_equal(starts[i] % PRS_MOE_ALIGNMENT, 0);
            at += (sizes[i] + PRS_MOE_ALIGNMENT - 1) / PRS_MOE_ALIGNMENT * PRS_MOE_ALIGNMENT;
        }
    }
    assert_int_equal(plan->symmetric_bytes, at);
}

static void test_layout_of_every_model(void **state)
{
    (void)state;
    size_t count;
    const struct prs_moe_model *models = prs_moe_models(&count);
    for (size_t i = 0; i < count; i++) {
        for (int n_pes = 1; n_pes <= 16; n_pes++) {
            for (int capped = 0; capped < 2; capped++) {
                struct perseus_moe_config config = {.hidden = models[i].hidden,
                                                    .intermediate = models[i].intermediate,
                                                    .experts = models[i].experts,
                                                    .top_k = models[i].top_k,
                                                    .tokens_max = 100,
                                                    .wire_dtype = PERSEUS_MOE_BF16,
                                                    .capacity_factor = capped ? 1.25 : 0};
                struct prs_moe_plan plan;
                assert_int_equal(prs_moe_plan_make(&config, n_pes, NULL, &plan), PERSEUS_OK);
                check_layout(&plan);
                assert_int_equal(plan.config.tile_tokens, 64);
                assert_int_equal(plan.row_bytes, 2 * models[i].hidden);
                assert_true(plan.rows_out <= 100 * models[i].top_k);
            }
        }
    }
}

static void test_rooms_are_the_worst_case(void **state)
{
    (void)state;
    struct prs_moe_plan plan;
    struct perseus_moe_config config = config_of(32, 4, 10);
    assert_int_equal(prs_moe_plan_make(&config, 8, NULL, &plan), PERSEUS_OK);
    assert_int_equal(plan.rows_per_pair, 40); /* all four choices of every token */
    assert_int_equal(plan.rows_out, 40);
    assert_int_equal(plan.tiles_per_expert, 1);
    assert_int_equal(prs_moe_plan_make(&config, 16, NULL, &plan), PERSEUS_OK);
    assert_int_equal(plan.rows_per_pair, 20); /* two experts there */
    config.tokens_max = 33;
    assert_int_equal(prs_moe_plan_make(&config, 16, NULL, &plan), PERSEUS_OK);
    assert_int_equal(plan.tiles_per_expert, 3);
    assert_int_equal(prs_moe_tiles(&plan, 33), 3);
    assert_int_equal(prs_moe_tile_rows(&plan, 33, 2), 1);
    assert_int_equal(prs_moe_tiles(&plan, 0), 0);
    config.capacity_factor = 1; /* ceil(33 * 4 / 32) = 5 rows an expert */
    assert_int_equal(prs_moe_plan_make(&config, 16, NULL, &plan), PERSEUS_OK);
    assert_int_equal(plan.rows_per_expert, 5);
    assert_int_equal(plan.rows_per_pair, 10);
    assert_int_equal(plan.rows_out, 132);
    config.capacity_factor = 1e9;
    assert_int_equal(prs_moe_plan_make(&config, 16, NULL, &plan), PERSEUS_OK);
    assert_int_equal(plan.rows_per_expert, 33);
}

static void test_refuses_with_the_field(void **state)
{
    (void)state;
    struct perseus_moe_config good = config_of(32, 4, 10);
    struct {
        struct perseus_moe_config config;
        int n_pes;
        const char *said;
    } bad[] = {
        {good, 0, "number of PEs"},
        {good, -1, "number of PEs"},
        {good, 1, "hidden is 0"},
        {good, 1, "intermediate is 0"},
        {good, 1, "experts is 0"},
        {good, 1, "top_k is 0"},
        {good, 1, "more than the 3"},
        {good, 1, "tokens_max is 0"},
        {good, 1, "tokens_max is 65537"},
        {good, 1, "capacity_factor"},
        {good, 1, "protocol"},
        {good, 1, "subscribers"},
        {good, 1, "tokens_max * top_k"},
    };
    bad[2].config.hidden = 0;
    bad[3].config.intermediate = 0;
    bad[4].config.experts = 0;
    bad[5].config.top_k = 0;
    bad[6].config.experts = 3;
    bad[7].config.tokens_max = 0;
    bad[8].config.tokens_max = 65537;
    bad[9].config.capacity_factor = -1;
    bad[10].config.protocol = (enum perseus_moe_protocol)77;
    bad[11].config.subscribers = 1; /* without processors */
    bad[12].config.experts = bad[12].config.top_k = 32;
    bad[12].config.tokens_max = 65536;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct capture capture;
        struct prs_moe_plan plan;
        capture_init(&capture);
        assert_int_equal(prs_moe_plan_make(&bad[i].config, bad[i].n_pes, &capture.log, &plan),
                         PERSEUS_INVALID_ARGUMENT);
        assert_said(&capture, bad[i].said);
        assert_int_equal(capture.count, 1);
    }
}

static void test_the_largest_layer_is_counted_right(void **state)
{
    (void)state;
    struct perseus_moe_config config = config_of(1u << 16, 15, 1u << 16);
    config.hidden = 1u << 20;
    config.tile_tokens = 1;
    struct prs_moe_plan plan;
    assert_int_equal(prs_moe_plan_make(&config, 1 << 16, NULL, &plan), PERSEUS_OK);
    check_layout(&plan);
    /* From each of 2^16 PEs 2^16 rows of 2^22 bytes, in two halves. */
    assert_true(plan.symmetric_bytes > (uint64_t)1 << 55);
}

static void test_word_keeps_every_field(void **state)
{
    (void)state;
    const struct prs_moe_word words[] = {
        {.tag = 63, .whole = true, .rows = 65536, .base = 1048575, .place = 1048575},
        {.tag = 1, .whole = false, .rows = 1, .base = 2, .place = 3},
        {.tag = 1, .rows = 65536},
        {.tag = 1, .base = 1048575},
        {.tag = 1, .place = 1048575},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct prs_moe_word back = prs_moe_word_unpack(prs_moe_word_pack(words[i]));
        assert_int_equal(back.tag, words[i].tag);
        assert_int_equal(back.whole, words[i].whole);
        assert_int_equal(back.rows, words[i].rows);
        assert_int_equal(back.base, words[i].base);
        assert_int_equal(back.place, words[i].place);
    }
    for (uint64_t forward = 0; forward < 1000; forward++) {
        assert_true(prs_moe_word_tag(forward) >= 1 &&
                    prs_moe_word_tag(forward) <= PRS_MOE_WORD_TAGS);
        assert_int_not_equal(prs_moe_word_tag(forward), prs_moe_word_tag(forward + PRS_MOE_HALVES));
    }
    assert_int_equal(prs_moe_word_unpack(0).tag, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models_are_the_published_shapes),
        cmocka_unit_test(test_partition_covers_every_expert_once),
        cmocka_unit_test(test_layout_of_every_model),
        cmocka_unit_test(test_rooms_are_the_worst_case),
        cmocka_unit_test(test_refuses_with_the_field),
        cmocka_unit_test(test_the_largest_layer_is_counted_right),
        cmocka_unit_test(test_word_keeps_every_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
