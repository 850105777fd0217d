/* SPDX-License-Identifier: Apache-2.0 */
/* What lies where in a PE's heap. */
#include "cuda/moe/layer/layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define PROCESSORS 132

static char said[512];

static void keep(void *user, enum perseus_log_level level, const char *text)
{
    (void)user;
    (void)level;
    strncpy(said, text, sizeof said - 1);
}

static const struct prs_log log_here = {keep, NULL, PERSEUS_LOG_ERROR, -1};

static struct perseus_moe_cuda_attr attr_of(uint32_t n_pes, uint32_t my_pe)
{
    return (struct perseus_moe_cuda_attr){.hidden = 200,
                                          .intermediate = 136,
                                          .experts = 11,
                                          .top_k = 4,
                                          .shared_experts = n_pes % 3,
                                          .form = PERSEUS_MOE_SWIGLU,
                                          .tokens_max = 77,
                                          .my_pe = my_pe,
                                          .n_pes = n_pes};
}

static struct prs_gpu_moe_plan plan_of(const struct perseus_moe_cuda_attr *attr)
{
    struct prs_gpu_moe_plan plan;
    assert_int_equal(prs_gpu_moe_plan(attr, PROCESSORS, &log_here, &plan), PERSEUS_OK);
    return plan;
}

/* In the order in which they lie. */
static void test_pieces_follow_one_another(void **state)
{
    (void)state;
    for (uint32_t n_pes = 1; n_pes <= 11; n_pes++) {
        const struct perseus_moe_cuda_attr attr = attr_of(n_pes, 0);
        const struct prs_gpu_moe_plan plan = plan_of(&attr);
        const struct prs_gpu_moe_layout *layout = &plan.layout;
        const uint64_t row = attr.hidden * 2, blocks = plan.blocks_max;
        const uint64_t tiles = plan.cut.shape.first_tiles + plan.cut.shape.second_tiles;
        const struct {
            uint64_t begin, bytes;
        } pieces[] = {
            {layout->rows, plan.rows_max * row},
            {layout->senders, plan.rows_max * 8},
            {layout->answers, attr.tokens_max * (attr.top_k + attr.shared_experts) * row},
            {layout->counts, (uint64_t)n_pes * attr.experts * 4},
            {layout->told, n_pes * UINT64_C(4)},
            {layout->arrived, blocks * 4},
            {layout->answered, attr.tokens_max * UINT64_C(4)},
            {layout->tasks, (blocks * tiles + plan.ctas) * 8},
            {layout->first_done, blocks * 4},
            {layout->second_done, blocks * 4},
            {layout->sent, attr.experts * UINT64_C(4)},
            {layout->words, PRS_GPU_MOE_WORDS * 4},
            {layout->half_bytes, 0},
        };
        const size_t n = sizeof pieces / sizeof pieces[0];
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(pieces[i].begin % 128, 0);
            assert_true(i + 1 == n || pieces[i].begin + pieces[i].bytes <= pieces[i + 1].begin);
        }
        assert_int_equal(layout->counters, layout->arrived); /* all behind it is zeroed */
        assert_true(layout->told + n_pes * UINT64_C(4) <= layout->counters);
        assert_true(layout->halves[0] + layout->half_bytes <= layout->halves[1]);
        assert_true(layout->halves[1] + layout->half_bytes <= layout->heap_bytes);
    }
}

/* Peers use a PE's offsets for their own: whatever a PE hosts, and however many CTAs it has. */
static void test_every_pe_has_the_same_layout(void **state)
{
    (void)state;
    const struct perseus_moe_cuda_attr first = attr_of(5, 0);
    const struct prs_gpu_moe_plan expected = plan_of(&first);
    uint32_t next = 0;
    for (uint32_t pe = 0; pe < 5; pe++) {
        struct perseus_moe_cuda_attr attr = attr_of(5, pe);
        attr.ctas = pe == 1 ? 7 : 0;
        const struct prs_gpu_moe_plan plan = plan_of(&attr);
        assert_memory_equal(&plan.layout, &expected.layout, sizeof plan.layout);
        assert_int_equal(plan.first_expert, next);
        next += plan.cut.shape.hosted - attr.shared_experts;
    }
    assert_int_equal(next, first.experts);
}

/* All tokens of all PEs for the experts of one, each expert's last block all but empty; and its own
 * for the shared ones. */
static void test_the_worst_routing_fits(void **state)
{
    (void)state;
    for (uint32_t n_pes = 1; n_pes <= 11; n_pes++) {
        const struct perseus_moe_cuda_attr attr = attr_of(n_pes, 0);
        const struct prs_gpu_moe_plan plan = plan_of(&attr);
        const uint32_t hosted = plan.cut.shape.hosted - attr.shared_experts;
        const uint32_t choices = attr.top_k < hosted ? attr.top_k : hosted;
        uint64_t left = (uint64_t)n_pes * attr.tokens_max * choices;
        uint64_t blocks = attr.shared_experts; /* of few tokens */
        for (uint32_t expert = 0; expert + 1 < hosted && left > 0; expert++, left--) {
            blocks++; /* one row */
        }
        blocks += (left + PRS_GPU_MOE_BLOCK - 1) / PRS_GPU_MOE_BLOCK;
        assert_true(blocks <= plan.blocks_max);
    }
}

static void test_what_does_not_fit_is_refused(void **state)
{
    (void)state;
    const struct {
        const char *field;
        struct perseus_moe_cuda_attr attr;
    } cases[] = {
        {"number of PEs", attr_of(0, 0)},
        {"the PE", attr_of(2, 2)},
        {"experts", attr_of(12, 0)},
        {"top_k", {.hidden = 64, .experts = 4, .top_k = 5, .tokens_max = 8, .n_pes = 1}},
        {"tokens_max", {.hidden = 64, .experts = 4, .top_k = 2, .tokens_max = 65537, .n_pes = 1}},
        {"shared_experts",
         {.hidden = 64,
          .experts = 4,
          .top_k = 2,
          .shared_experts = 63,
          .tokens_max = 8,
          .n_pes = 1}},
        {"ctas",
         {.hidden = 64, .experts = 4, .top_k = 2, .tokens_max = 8, .n_pes = 1, .ctas = 133}},
        {"hidden", {.hidden = 12, .experts = 4, .top_k = 2, .tokens_max = 8, .n_pes = 1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct prs_gpu_moe_plan plan;
        said[0] = '\0';
        assert_int_equal(prs_gpu_moe_plan(&cases[i].attr, PROCESSORS, &log_here, &plan),
                         PERSEUS_INVALID_ARGUMENT);
        assert_non_null(strstr(said, cases[i].field));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_follow_one_another),
        cmocka_unit_test(test_every_pe_has_the_same_layout),
        cmocka_unit_test(test_the_worst_routing_fits),
        cmocka_unit_test(test_what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
