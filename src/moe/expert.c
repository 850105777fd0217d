#include "moe/expert.h"

#include <stdlib.h>

#include "moe/bf16.h"

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
        prs_bf16_row_to_f32(made.expanded, weights->up, each);
        prs_bf16_row_to_f32(made.expanded + each, weights->down, each);
        made.up = made.expanded;
        made.down = made.expanded + each;
        if (config->form == PERSEUS_MOE_SWIGLU) {
            prs_bf16_row_to_f32(made.expanded + 2 * each, weights->gate, each);
            made.gate = made.expanded + 2 * each;
        }
        made.type = PERSEUS_MOE_F32;
    }
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
    uint64_t rows = plan->config.tile_tokens;
    return sizeof(float) * rows * 2 * ((uint64_t)plan->config.hidden + plan->config.intermediate);
}

enum perseus_status prs_expert_bench_init(struct prs_expert_bench *bench,
                                          const struct prs_moe_plan *plan,
                                          const struct prs_log *log)
{
    size_t hidden = (size_t)plan->config.tile_tokens * plan->config.hidden;
    size_t inner = (size_t)plan->config.tile_tokens * plan->config.intermediate;
    struct prs_expert_bench made = {.config = &plan->config};
    enum perseus_status status = prs_gemm_create(log, &made.gemm);
    if (status != PERSEUS_OK) {
        return status;
    }
    made.rows_in = malloc(hidden * sizeof(float));
    made.rows_out = malloc(hidden * sizeof(float));
    made.gate = malloc(inner * sizeof(float));
    made.inner = malloc(inner * sizeof(float));
    if (made.rows_in == NULL || made.rows_out == NULL || made.gate == NULL || made.inner == NULL) {
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
    free(bench->gate);
    free(bench->inner);
    *bench = (struct prs_expert_bench){0};
}

/* The rows in the matrices' type: themselves, or converted to the bench. */
static const void *prs_expert_input(struct prs_expert_bench *bench, const struct prs_expert *expert,
                                    size_t items, const void *in, enum perseus_moe_dtype in_type)
{
    if (in_type == expert->type) {
        return in;
    }
    if (in_type == PERSEUS_MOE_BF16) {
        prs_bf16_row_to_f32(bench->rows_in, in, items);
    } else {
        prs_bf16_row_from_f32(bench->rows_in, in, items);
    }
    return bench->rows_in;
}

/* bench->inner = silu(gate(in)) * up(in), or gelu(up(in)). */
static enum perseus_status prs_expert_inner(struct prs_expert_bench *bench,
                                            const struct prs_expert *expert, uint32_t rows,
                                            const void *in)
{
    bool swiglu = bench->config->form == PERSEUS_MOE_SWIGLU;
    struct prs_gemm_call call = {.rows = rows,
                                 .outputs = bench->config->intermediate,
                                 .inputs = bench->config->hidden,
                                 .type = expert->type,
                                 .result_type = PERSEUS_MOE_F32,
                                 .after = PRS_GEMM_SILU,
                                 .a = in,
                                 .b = expert->gate,
                                 .c = bench->gate};
    enum perseus_status status = swiglu ? prs_gemm_run(bench->gemm, &call) : PERSEUS_OK;
    if (status != PERSEUS_OK) {
        return status;
    }
    call.after = swiglu ? PRS_GEMM_MULTIPLY : PRS_GEMM_GELU;
    call.result_type = expert->type;
    call.b = expert->up;
    call.factor = bench->gate;
    call.c = bench->inner;
    return prs_gemm_run(bench->gemm, &call);
}

enum perseus_status prs_expert_run(struct prs_expert_bench *bench, const struct prs_expert *expert,
                                   uint32_t rows, const void *in, enum perseus_moe_dtype in_type,
                                   void *out, enum perseus_moe_dtype out_type)
{
    size_t items = (size_t)rows * bench->config->hidden;
    in = prs_expert_input(bench, expert, items, in, in_type);
    enum perseus_status status = prs_expert_inner(bench, expert, rows, in);
    if (status != PERSEUS_OK) {
        return status;
    }
    bool direct = out_type == PERSEUS_MOE_F32 || out_type == expert->type;
    const struct prs_gemm_call down = {.rows = rows,
                                       .outputs = bench->config->hidden,
                                       .inputs = bench->config->intermediate,
                                       .type = expert->type,
                                       .result_type = direct ? out_type : PERSEUS_MOE_F32,
                                       .after = PRS_GEMM_PLAIN,
                                       .a = bench->inner,
                                       .b = expert->down,
                                       .c = direct ? out : bench->rows_out};
    status = prs_gemm_run(bench->gemm, &down);
    if (status == PERSEUS_OK && !direct) {
        prs_bf16_row_from_f32(out, bench->rows_out, items);
    }
    return status;
}
