/* SPDX-License-Identifier: Apache-2.0 */
/* Expert networks and the reference, against loops that leave no doubt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <math.h>

#include "base/rng.h"
#include "moe/math/bf16.h"
#include "model/capture.h"
#include "moe/expert.h"
#include "model/reference.h"
#include "model/routing.h"
#include "model/weights.h"

enum { HIDDEN = 40, INNER = 24, EXPERTS = 6, ROWS = 7 };

static double item(const void *matrix, enum perseus_moe_dtype type, size_t index)
{
    return type == PERSEUS_MOE_BF16 ? prs_bf16_to_f32(((const uint16_t *)matrix)[index])
                                    : ((const float *)matrix)[index];
}

/* One row through one expert, in double. */
static void naive(const struct perseus_moe_config *config, const struct perseus_moe_expert *expert,
                  const float *in, double *out)
{
    double inner[INNER];
    for (int j = 0; j < INNER; j++) {
        double gate = 0, up = 0;
        for (int i = 0; i < HIDDEN; i++) {
            up += in[i] * item(expert->up, config->weight_dtype, (size_t)j * HIDDEN + i);
            if (config->form == PERSEUS_MOE_SWIGLU) {
                gate += in[i] * item(expert->gate, config->weight_dtype, (size_t)j * HIDDEN + i);
            }
        }
        inner[j] = config->form == PERSEUS_MOE_SWIGLU ? gate / (1 + exp(-gate)) * up
                                                      : up * 0.5 * (1 + erf(up / sqrt(2)));
    }
    for (int i = 0; i < HIDDEN; i++) {
        out[i] = 0;
        for (int j = 0; j < INNER; j++) {
            out[i] += inner[j] * item(expert->down, config->weight_dtype, (size_t)i * INNER + j);
        }
    }
}

static void fill(float *values, size_t count, uint64_t seed)
{
    struct prs_rng rng = prs_rng_seeded(seed);
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)(4 * prs_rng_unit(&rng) - 2);
    }
}

static double relative_error(const double *expected, const double *found, size_t count)
{
    double difference = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        difference += (found[i] - expected[i]) * (found[i] - expected[i]);
        size += expected[i] * expected[i];
    }
    return sqrt(difference / size);
}

static struct perseus_moe_config config_of(int form, int weight, int wire)
{
    return (struct perseus_moe_config){.hidden = HIDDEN,
                                       .intermediate = INNER,
                                       .experts = EXPERTS,
                                       .top_k = 2,
                                       .tokens_max = 16,
                                       .tile_tokens = 8,
                                       .form = (enum perseus_moe_form)form,
                                       .weight_dtype = (enum perseus_moe_dtype)weight,
                                       .wire_dtype = (enum perseus_moe_dtype)wire};
}

/* Rows through prs_expert_run in place, as the layer does it. */
static void check_expert(const struct perseus_moe_config *config, bool expand)
{
    struct prs_moe_plan plan;
    struct prs_expert_bench bench;
    struct prs_expert expert = {0};
    assert_int_equal(prs_moe_plan_make(config, 1, NULL, &plan), PERSEUS_OK);
    void *block = malloc(prs_weights_bytes(config));
    assert_non_null(block);
    prs_weights_random(config, block, 2, 11);
    const struct perseus_moe_expert weights = prs_weights_view(config, block, 2);
    assert_int_equal(prs_expert_bench_init(&bench, &plan, NULL), PERSEUS_OK);
    assert_int_equal(prs_expert_init(&expert, config, &weights, expand, NULL), PERSEUS_OK);

    float in[ROWS * HIDDEN];
    uint16_t wire[ROWS * HIDDEN];
    double expected[ROWS * HIDDEN], found[ROWS * HIDDEN];
    bool bf16 = config->wire_dtype == PERSEUS_MOE_BF16;
    fill(in, ROWS * HIDDEN, 3);
    for (int i = 0; i < ROWS * HIDDEN; i++) {
        wire[i] = prs_bf16_from_f32(in[i]);
        in[i] = bf16 ? prs_bf16_to_f32(wire[i]) : in[i];
    }
    for (int row = 0; row < ROWS; row++) {
        naive(config, &weights, in + row * HIDDEN, expected + row * HIDDEN);
    }
    void *rows = bf16 ? (void *)wire : (void *)in;
    const struct prs_expert_rows all = {.count = ROWS, .in = rows, .out = rows};
    assert_int_equal(
        prs_expert_run(&bench, &expert, &all, 1, config->wire_dtype, config->wire_dtype),
        PERSEUS_OK);
    for (int i = 0; i < ROWS * HIDDEN; i++) {
        found[i] = item(rows, config->wire_dtype, (size_t)i);
    }
    double error = relative_error(expected, found, ROWS * HIDDEN);
    bool rounds = bf16 || config->weight_dtype == PERSEUS_MOE_BF16;
    if (error > (rounds ? 1e-2 : 1e-5)) {
        fail_msg("form %d, weights %d, wire %d, expanded %d: relative error %g", config->form,
                 config->weight_dtype, config->wire_dtype, expand, error);
    }
    prs_expert_finish(&expert);
    prs_expert_bench_finish(&bench);
    free(block);
}

static void test_expert_in_every_form_and_type(void **state)
{
    (void)state;
    bool native = prs_gemm_has_bf16();
    print_message("bf16 products: %s\n", native ? "native" : "through f32");
    for (int form = 0; form < 2; form++) {
        for (int weight = 0; weight < 2; weight++) {
            for (int wire = 0; wire < 2; wire++) {
                const struct perseus_moe_config config = config_of(form, weight, wire);
                check_expert(&config, true);
                if (native || weight == PERSEUS_MOE_F32) {
                    check_expert(&config, false);
                }
            }
        }
    }
}

/* Results of rows that are computed alone, and of the same rows in any company: the same to the
 * bit, as a forward's y must not depend on what waits when a tile is taken. */
static void check_company(const struct perseus_moe_config *config)
{
    enum { STEP = PRS_EXPERT_STEP };
    struct prs_moe_plan plan;
    struct prs_expert_bench bench;
    struct prs_expert expert = {0};
    struct prs_rng rng = prs_rng_seeded(77);
    uint32_t hidden = config->hidden;
    size_t row_bytes = hidden * (config->wire_dtype == PERSEUS_MOE_BF16 ? 2 : 4);
    assert_int_equal(prs_moe_plan_make(config, 1, NULL, &plan), PERSEUS_OK);
    void *block = malloc(prs_weights_bytes(config));
    float *values = malloc(STEP * hidden * sizeof *values);
    unsigned char *in = malloc(STEP * row_bytes), *alone = malloc(STEP * row_bytes);
    unsigned char *out = malloc(STEP * row_bytes);
    assert_true(block && values && in && alone && out);
    prs_weights_random(config, block, 1, 5);
    const struct perseus_moe_expert weights = prs_weights_view(config, block, 1);
    assert_int_equal(prs_expert_bench_init(&bench, &plan, NULL), PERSEUS_OK);
    assert_int_equal(prs_expert_init(&expert, config, &weights, !prs_gemm_has_bf16(), NULL),
                     PERSEUS_OK);
    fill(values, STEP * hidden, 21);
    if (config->wire_dtype == PERSEUS_MOE_BF16) {
        prs_bf16_row_from_f32((uint16_t *)(void *)in, values, STEP * hidden);
    } else {
        memcpy(in, values, STEP * row_bytes);
    }
    for (uint32_t row = 0; row < STEP; row++) {
        const struct prs_expert_rows one = {1, in + row * row_bytes, alone + row * row_bytes};
        assert_int_equal(
            prs_expert_run(&bench, &expert, &one, 1, config->wire_dtype, config->wire_dtype),
            PERSEUS_OK);
    }
    for (int round = 0; round < 30; round++) { /* some rows in some order, in parts of one */
        struct prs_expert_rows parts[STEP];
        uint32_t rows[STEP], n = 1 + (uint32_t)(prs_rng_unit(&rng) * STEP);
        for (uint32_t i = 0; i < n; i++) {
            rows[i] = (uint32_t)(prs_rng_unit(&rng) * STEP);
            parts[i] = (struct prs_expert_rows){1, in + rows[i] * row_bytes, out + i * row_bytes};
        }
        assert_int_equal(
            prs_expert_run(&bench, &expert, parts, n, config->wire_dtype, config->wire_dtype),
            PERSEUS_OK);
        for (uint32_t i = 0; i < n; i++) {
            if (memcmp(out + i * row_bytes, alone + rows[i] * row_bytes, row_bytes) != 0) {
                fail_msg("form %d, weights %d, wire %d, %u x %u: row %u as number %u of %u differs",
                         config->form, config->weight_dtype, config->wire_dtype, hidden,
                         config->intermediate, rows[i], i, n);
            }
        }
    }
    prs_expert_finish(&expert);
    prs_expert_bench_finish(&bench);
    free(out);
    free(alone);
    free(in);
    free(values);
    free(block);
}

static void test_a_row_does_not_depend_on_its_company(void **state)
{
    (void)state;
    static const uint32_t shapes[][2] = {{HIDDEN, INNER}, {2880, 96}, {513, 130}, {1024, 768}};
    for (int i = 0; i < 8; i++) {
        for (size_t shape = 0; shape < sizeof shapes / sizeof *shapes; shape++) {
            struct perseus_moe_config config = config_of(i >> 2, i & 1, i >> 1 & 1);
            config.hidden = shapes[shape][0];
            config.intermediate = shapes[shape][1];
            config.experts = 2;
            check_company(&config);
        }
    }
}

static void test_products_of_every_row_count_are_kept_apart(void **state)
{
    (void)state;
    struct prs_gemm *gemm;
    assert_int_equal(prs_gemm_create(NULL, &gemm), PERSEUS_OK);
    float a[600 * 2], b[3 * 2] = {1, 2, 3, 4, 5, 6}, c[600 * 3];
    fill(a, 600 * 2, 9);
    for (int round = 0; round < 2; round++) { /* more shapes than are kept */
        for (uint32_t rows = 1; rows <= 600; rows++) {
            const struct prs_gemm_call call = {
                .rows = rows, .outputs = 3, .inputs = 2, .a = a, .b = b, .c = c};
            c[3 * rows - 1] = -1000;
            assert_int_equal(prs_gemm_run(gemm, &call), PERSEUS_OK);
            float expected = a[2 * rows - 2] * 5 + a[2 * rows - 1] * 6;
            assert_true(fabsf(c[3 * rows - 1] - expected) < 1e-4f);
        }
    }
    prs_gemm_destroy(gemm);
}

/* The whole layer by the definition: y = sum of weight * expert(x), with drops. */
static void check_reference(const struct perseus_moe_config *config, uint32_t n_pes,
                            uint32_t tokens_per_pe)
{
    uint32_t tokens = n_pes * tokens_per_pe, top_k = config->top_k;
    const struct prs_routing_spec spec = {.kind = PRS_ROUTING_ZIPF, .exponent = 1};
    struct prs_routing routing;
    assert_int_equal(prs_routing_init(&routing, &spec, tokens, EXPERTS, top_k, 17, NULL),
                     PERSEUS_OK);
    float *x = malloc(tokens * HIDDEN * sizeof *x), *y = malloc(tokens * HIDDEN * sizeof *y);
    float *weights = malloc(tokens * top_k * sizeof *weights);
    double *expected = calloc(tokens * HIDDEN, sizeof *expected);
    double *found = malloc(tokens * HIDDEN * sizeof *found);
    void *block = malloc(prs_weights_bytes(config));
    assert_true(x && y && weights && expected && found && block);
    fill(x, tokens * HIDDEN, 5);
    prs_routing_gate_weights(8, tokens, top_k, weights);
    for (uint32_t i = 0; i < EXPERTS + config->shared_experts; i++) {
        prs_weights_random(config, block, i, 23);
    }
    uint32_t capacity = config->capacity_factor == 0 ? tokens_per_pe : 3;
    uint64_t dropped = 0, found_dropped;
    uint32_t *counts = malloc(n_pes * EXPERTS * sizeof *counts);
    uint32_t seen[EXPERTS];
    for (uint32_t token = 0; token < tokens; token++) {
        if (token % tokens_per_pe == 0) {
            memset(seen, 0, sizeof seen);
        }
        double row[HIDDEN];
        for (uint32_t j = 0; j < top_k + config->shared_experts; j++) {
            bool shared = j >= top_k;
            uint32_t expert =
                shared ? EXPERTS + j - top_k : (uint32_t)routing.ids[token * top_k + j];
            if (!shared && seen[expert]++ >= capacity) {
                dropped++;
                continue;
            }
            struct perseus_moe_expert view = prs_weights_view(config, block, expert);
            naive(config, &view, x + (size_t)token * HIDDEN, row);
            for (int i = 0; i < HIDDEN; i++) {
                expected[token * HIDDEN + i] += (shared ? 1 : weights[token * top_k + j]) * row[i];
            }
        }
    }
    const struct prs_reference reference = {.config = config,
                                            .n_pes = n_pes,
                                            .tokens_per_pe = tokens_per_pe,
                                            .x = x,
                                            .ids = routing.ids,
                                            .weights = weights};
    assert_int_equal(prs_reference_run(&reference, block, NULL, NULL, NULL, y), PERSEUS_OK);
    for (uint32_t i = 0; i < tokens * HIDDEN; i++) {
        found[i] = y[i];
    }
    assert_true(relative_error(expected, found, tokens * HIDDEN) < 1e-5);
    prs_reference_counts(&reference, counts, &found_dropped);
    assert_int_equal(found_dropped, dropped);
    uint64_t rows = 0;
    for (uint32_t i = 0; i < n_pes * EXPERTS; i++) {
        assert_true(counts[i] <= capacity);
        rows += counts[i];
    }
    assert_int_equal(rows + dropped, tokens * top_k);
    assert_true((config->capacity_factor != 0) == (dropped > 0));
    free(counts);
    free(block);
    free(found);
    free(expected);
    free(weights);
    free(y);
    free(x);
    prs_routing_finish(&routing);
}

static void test_reference_is_the_definition(void **state)
{
    (void)state;
    for (int form = 0; form < 2; form++) {
        for (int weight = 0; weight < 2; weight++) {
            struct perseus_moe_config config = config_of(form, weight, 0);
            check_reference(&config, 3, 16);
            config.shared_experts = 1;
            check_reference(&config, 1, 5);
            config.shared_experts = 0;
            config.capacity_factor = 0.5; /* ceil(0.5 * 16 * 2 / 6) = 3 */
            check_reference(&config, 3, 16);
        }
    }
}

int main(void)
{
    prs_gemm_thread_begin();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expert_in_every_form_and_type),
        cmocka_unit_test(test_a_row_does_not_depend_on_its_company),
        cmocka_unit_test(test_products_of_every_row_count_are_kept_apart),
        cmocka_unit_test(test_reference_is_the_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
