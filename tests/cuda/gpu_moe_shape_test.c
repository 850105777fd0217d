/* SPDX-License-Identifier: Apache-2.0 */
/* How the two products are cut into output tiles. */
#include "cuda/moe/shape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static char said[512];

static void keep(void *user, enum perseus_log_level level, const char *text)
{
    (void)user;
    (void)level;
    strncpy(said, text, sizeof said - 1);
}

static const struct prs_log log_here = {keep, NULL, PERSEUS_LOG_ERROR, -1};

static struct prs_gpu_moe_cut cut(uint32_t hidden, uint32_t intermediate, bool is_swiglu)
{
    struct prs_gpu_moe_cut out;
    assert_int_equal(prs_gpu_moe_cut(hidden, intermediate, 8, is_swiglu, &log_here, &out),
                     PERSEUS_OK);
    return out;
}

/* Every column of both products lies in exactly one tile, and no tile is empty. */
static void test_tiles_cover_all_columns(void **state)
{
    (void)state;
    for (uint32_t hidden = 8; hidden < 1200; hidden += 56) {
        for (uint32_t intermediate = 8; intermediate < 1200; intermediate += 40) {
            for (int is_swiglu = 0; is_swiglu < 2; is_swiglu++) {
                struct prs_gpu_moe_cut got = cut(hidden, intermediate, is_swiglu);
                uint32_t first = is_swiglu ? got.columns / 2 : got.columns;
                assert_true(got.shape.first_tiles * first >= intermediate);
                assert_true((got.shape.first_tiles - 1) * first < intermediate);
                assert_true(got.shape.second_tiles * got.columns >= hidden);
                assert_true((got.shape.second_tiles - 1) * got.columns < hidden);
                assert_int_equal(got.first_rows, intermediate * (is_swiglu ? 2 : 1));
            }
        }
    }
}

static void test_models_leave_no_tile_half_empty(void **state)
{
    (void)state;
    assert_int_equal(cut(2048, 768, true).columns, 256);  /* qwen3-30b */
    assert_int_equal(cut(2880, 2880, true).columns, 192); /* gpt-oss */
    assert_int_equal(cut(7168, 2048, true).columns, 256); /* deepseek-v3 */
}

static void test_widths_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    const uint32_t bad[][2] = {{0, 64}, {12, 64}, {64, 12}, {256 * 300, 64}, {64, 128 * 300}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct prs_gpu_moe_cut out;
        said[0] = '\0';
        assert_int_equal(prs_gpu_moe_cut(bad[i][0], bad[i][1], 8, true, &log_here, &out),
                         PERSEUS_INVALID_ARGUMENT);
        assert_non_null(strstr(said, "moe on a GPU"));
    }
    struct prs_gpu_moe_cut out;
    assert_int_equal(prs_gpu_moe_cut(64, 64, 4096, true, &log_here, &out),
                     PERSEUS_INVALID_ARGUMENT);
}

/* Rows travel and come back without products; a round still counts its blocks by their tiles. */
static void test_a_layer_without_experts_has_tiles_to_count(void **state)
{
    (void)state;
    struct prs_gpu_moe_cut got = cut(200, 0, true);
    assert_int_equal(got.shape.first_tiles, 0);
    assert_true(got.shape.second_tiles > 0);
    assert_int_equal(got.first_rows, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiles_cover_all_columns),
        cmocka_unit_test(test_models_leave_no_tile_half_empty),
        cmocka_unit_test(test_widths_that_do_not_fit_are_refused),
        cmocka_unit_test(test_a_layer_without_experts_has_tiles_to_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
