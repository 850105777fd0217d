/* SPDX-License-Identifier: Apache-2.0 */
#include "moe/expert.h"

#include <stdlib.h>
#include <string.h>

#include "moe/math/activation.h"
#include "moe/math/bf16.h"

static size_t item_bytes(enum perseus_moe_dtype type)
{
    return type == PERSEUS_MOE_BF16 ? sizeof(uint16_t) : sizeof(float);
}

enum perseus_status prs_expert_init(struct prs_expert *expert,
                                    const struct perseus_moe_config *config,
                                    const struct perseus_moe_expert *weights, bool expand,
                                    const struct prs_log *log)
{
    struct prs_expert made = {.gate = weights->gate,
                              .up = weights->up,
                              .down = weights->down,
                              .type = config->weight_dtype};
    if (expand && config->weight_dtype == PERSEUS_MOE_BF16) {
        size_t each = (size_t)config->hidden * config->intermediate;
        made.expanded = malloc(prs_moe_matrices(config) * each * sizeof *made.expanded);
        if (made.expanded == NULL) {
            return prs_fail(
                log, PERSEUS_OUT_OF_MEMORY,
                "moe: no memory to expand an expert of %u x %u to f32 (this CPU does not "
                "multiply bf16)",
                config->hidden, config->intermediate);
        }
        float *to = made.expanded;
        if (config->form == PERSEUS_MOE_SWIGLU) {
            made.gate = to;
            prs_bf16_row_to_f32(to, weights->gate, each);
            to += each;
        }
        made.up = to;
        prs_bf16_row_to_f32(to, weights->up, each);
        made.down = to + each;
        prs_bf16_row_to_f32(to + each, weights->down, each);
        made.type = PERSEUS_MOE_F32;
    }
    size_t gate_bytes = (size_t)config->hidden * config->intermediate * item_bytes(made.type);
    made.is_joined = config->form == PERSEUS_MOE_SWIGLU &&
                     (const char *)made.gate + gate_bytes == (const char *)made.up;
    prs_expert_finish(expert);
    *expert = made;
    return PERSEUS_OK;
}

void prs_expert_finish(struct prs_expert *expert)
{
    free(expert->expanded);
    *expert = (struct prs_expert){0};
}

uint64_t prs_expert_bench_bytes(const struct prs_moe_plan *plan)
{
    uint64_t rows = prs_expert_steps(plan->config.tile_tokens);
    return sizeof(float) * rows *
           (2 * (uint64_t)plan->config.hidden + 3 * (uint64_t)plan->config.intermediate);
}

enum perseus_status prs_expert_bench_init(struct prs_expert_bench *bench,
                                          const struct prs_moe_plan *plan,
                                          const struct prs_log *log)
{
    size_t rows = prs_expert_steps(plan->config.tile_tokens);
    size_t hidden = rows * plan->config.hidden, inner = rows * plan->config.intermediate;
    struct prs_expert_bench made = {.config = &plan->config};
    enum perseus_status status = prs_gemm_create(log, &made.gemm);
    if (status != PERSEUS_OK) {
        return status;
    }
    made.rows_in = calloc(hidden, sizeof(float));
    made.rows_out = calloc(hidden, sizeof(float));
    made.outer = calloc(2 * inner, sizeof(float));
    made.inner = calloc(inner, sizeof(float));
    if (made.rows_in == NULL || made.rows_out == NULL || made.outer == NULL || made.inner == NULL) {
        prs_expert_bench_finish(&made);
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "moe: no memory for tiles of %u tokens",
                        plan->config.tile_tokens);
    }
    *bench = made;
    return PERSEUS_OK;
}

void prs_expert_bench_finish(struct prs_expert_bench *bench)
{
    prs_gemm_destroy(bench->gemm);
    free(bench->rows_in);
    free(bench->rows_out);
    free(bench->outer);
    free(bench->inner);
    *bench = (struct prs_expert_bench){0};
}

/* Copies `items` values, in another type if that is another one. */
static void copy(void *to, enum perseus_moe_dtype to_type, const void *from,
                 enum perseus_moe_dtype from_type, size_t items)
{
    if (to_type == from_type) {
        memcpy(to, from, items * item_bytes(to_type));
    } else if (to_type == PERSEUS_MOE_F32) {
        prs_bf16_row_to_f32(to, from, items);
    } else {
        prs_bf16_row_from_f32(to, from, items);
    }
}

/* bench->inner = silu(gate(in)) * up(in), or gelu(up(in)), of `rows` rows. */
static enum perseus_status gate_and_up(struct prs_expert_bench *bench,
                                       const struct prs_expert *expert, uint32_t rows,
                                       const void *in)
{
    uint32_t inner = bench->config->intermediate, steps = prs_expert_steps(rows);
    size_t second = (size_t)steps * inner; /* where up's results begin, if on their own */
    bool is_swiglu = bench->config->form == PERSEUS_MOE_SWIGLU;
    struct prs_gemm_call call = {.rows = steps,
                                 .outputs = expert->is_joined ? 2 * inner : inner,
                                 .inputs = bench->config->hidden,
                                 .type = expert->type,
                                 .result_type = PERSEUS_MOE_F32,
                                 .a = in,
                                 .b = is_swiglu ? expert->gate : expert->up,
                                 .c = bench->outer};
    enum perseus_status status = prs_gemm_run(bench->gemm, &call);
    if (status == PERSEUS_OK && is_swiglu && !expert->is_joined) {
        call.b = expert->up;
        call.c = bench->outer + second;
        status = prs_gemm_run(bench->gemm, &call);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    if (is_swiglu) {
        const float *up = bench->outer + (expert->is_joined ? inner : second);
        prs_activation_swiglu(rows, inner, bench->outer, up, call.outputs, expert->type,
                              bench->inner);
    } else {
        prs_activation_gelu(rows, inner, bench->outer, expert->type, bench->inner);
    }
    return PERSEUS_OK;
}

static uint32_t count_rows(const struct prs_expert_rows *parts, uint32_t n_parts)
{
    uint32_t rows = 0;
    for (uint32_t i = 0; i < n_parts; i++) {
        rows += parts[i].count;
    }
    return rows;
}

/* All parts' rows, one behind the other, in the matrices' type: where they lie, or a copy. */
static const void *gather(struct prs_expert_bench *bench, enum perseus_moe_dtype type,
                          const struct prs_expert_rows *parts, uint32_t n_parts,
                          enum perseus_moe_dtype in_type, bool is_whole)
{
    unsigned char *to = bench->rows_in;
    if (is_whole && in_type == type) {
        return parts[0].in;
    }
    for (uint32_t i = 0; i < n_parts; i++) {
        size_t items = (size_t)parts[i].count * bench->config->hidden;
        copy(to, type, parts[i].in, in_type, items);
        to += items * item_bytes(type);
    }
    return bench->rows_in;
}

static void scatter(const struct prs_expert_bench *bench, enum perseus_moe_dtype type,
                    const struct prs_expert_rows *parts, uint32_t n_parts,
                    enum perseus_moe_dtype out_type)
{
    const unsigned char *from = bench->rows_out;
    for (uint32_t i = 0; i < n_parts; i++) {
        size_t items = (size_t)parts[i].count * bench->config->hidden;
        if (parts[i].out != from) {
            copy(parts[i].out, out_type, from, type, items);
        }
        from += items * item_bytes(type);
    }
}

enum perseus_status prs_expert_run(struct prs_expert_bench *bench, const struct prs_expert *expert,
                                   const struct prs_expert_rows *parts, uint32_t n_parts,
                                   enum perseus_moe_dtype in_type, enum perseus_moe_dtype out_type)
{
    uint32_t rows = count_rows(parts, n_parts), steps = prs_expert_steps(rows);
    /* f32 products cannot give bf16. */
    enum perseus_moe_dtype product_type = out_type == expert->type ? out_type : PERSEUS_MOE_F32;
    bool is_whole = steps == rows && n_parts == 1;
    const void *in = gather(bench, expert->type, parts, n_parts, in_type, is_whole);
    enum perseus_status status = gate_and_up(bench, expert, rows, in);
    if (status != PERSEUS_OK) {
        return status;
    }
    bool is_direct = is_whole && product_type == out_type;
    const struct prs_gemm_call down = {.rows = steps,
                                       .outputs = bench->config->hidden,
                                       .inputs = bench->config->intermediate,
                                       .type = expert->type,
                                       .result_type = product_type,
                                       .a = bench->inner,
                                       .b = expert->down,
                                       .c = is_direct ? parts[0].out : bench->rows_out};
    status = prs_gemm_run(bench->gemm, &down);
    if (status == PERSEUS_OK && !is_direct) {
        scatter(bench, product_type, parts, n_parts, out_type);
    }
    return status;
}
