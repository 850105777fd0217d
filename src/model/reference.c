/* SPDX-License-Identifier: Apache-2.0 */
#include "model/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "moe/math/bf16.h"
#include "moe/math/gemm.h"
#include "model/weights.h"

/* The rows of one expert, gathered, and its network's inner and outer results. */
struct work {
    struct prs_gemm *gemm;
    uint32_t *choices; /* indices into ids and weights */
    float *in, *gate, *inner, *out;
    float *matrices; /* one expert's, in float */
};

/* Every choice that gets through, in order: the first `capacity` of a PE for an expert. */
static uint32_t capacity_of(const struct perseus_moe_config *config)
{
    double rows =
        ceil(config->capacity_factor * config->tokens_max * config->top_k / config->experts);
    return config->capacity_factor == 0 ? UINT32_MAX : rows < 1 ? 1 : (uint32_t)rows;
}

/* The choices of `expert` that get through; returns how many, and adds to *dropped. */
static uint32_t select_rows(const struct prs_reference *reference, uint32_t expert,
                            uint32_t first_pe, uint32_t n_pes, uint32_t *choices, uint64_t *dropped)
{
    uint32_t top_k = reference->config->top_k, selected = 0;
    uint32_t capacity = capacity_of(reference->config);
    for (uint32_t pe = first_pe; pe < first_pe + n_pes; pe++) {
        uint32_t taken = 0;
        size_t first = (size_t)pe * reference->tokens_per_pe * top_k;
        for (size_t i = first; i < first + (size_t)reference->tokens_per_pe * top_k; i++) {
            if (reference->ids[i] != (int32_t)expert) {
                continue;
            }
            if (taken == capacity) {
                (*dropped)++;
                continue;
            }
            taken++;
            if (choices != NULL) {
                choices[selected] = (uint32_t)i;
            }
            selected++;
        }
    }
    return selected;
}

void prs_reference_counts(const struct prs_reference *reference, uint32_t *counts,
                          uint64_t *out_dropped)
{
    uint64_t dropped = 0;
    for (uint32_t pe = 0; pe < reference->n_pes; pe++) {
        for (uint32_t expert = 0; expert < reference->config->experts; expert++) {
            counts[(size_t)pe * reference->config->experts + expert] =
                select_rows(reference, expert, pe, 1, NULL, &dropped);
        }
    }
    *out_dropped = dropped;
}

/* Matrix `from` of the expert in float: itself, or converted to `to`. */
static const float *in_float(const struct perseus_moe_config *config, const void *from, float *to)
{
    if (config->weight_dtype == PERSEUS_MOE_F32) {
        return from;
    }
    prs_bf16_row_to_f32(to, from, (size_t)config->hidden * config->intermediate);
    return to;
}

/* out[rows, outputs] = in[rows, inputs] * matrix[outputs, inputs]^T */
static enum perseus_status multiply(const struct work *work, uint32_t rows, uint32_t outputs,
                                    uint32_t inputs, const float *in, const float *matrix,
                                    float *out)
{
    const struct prs_gemm_call call = {
        .rows = rows, .outputs = outputs, .inputs = inputs, .a = in, .b = matrix, .c = out};
    return prs_gemm_run(work->gemm, &call);
}

static enum perseus_status run_expert(const struct perseus_moe_config *config,
                                      const struct perseus_moe_expert *expert, uint32_t rows,
                                      const struct work *work)
{
    uint32_t hidden = config->hidden, inner = config->intermediate;
    bool swiglu = config->form == PERSEUS_MOE_SWIGLU;
    const float *matrix = in_float(config, expert->up, work->matrices);
    enum perseus_status status = multiply(work, rows, inner, hidden, work->in, matrix, work->inner);
    if (status == PERSEUS_OK && swiglu) {
        matrix = in_float(config, expert->gate, work->matrices);
        status = multiply(work, rows, inner, hidden, work->in, matrix, work->gate);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    for (size_t i = 0; i < (size_t)rows * inner; i++) {
        work->inner[i] *= swiglu ? work->gate[i] / (1.0f + expf(-work->gate[i]))
                                 : 0.5f * (1.0f + erff(work->inner[i] * 0.70710678f));
    }
    matrix = in_float(config, expert->down, work->matrices);
    return multiply(work, rows, hidden, inner, work->inner, matrix, work->out);
}

/* Adds one expert's share (index experts and up: a shared expert, every token with weight 1). */
static enum perseus_status add_expert(const struct prs_reference *reference, const void *block,
                                      uint32_t index, const struct work *work, float *y)
{
    const struct perseus_moe_config *config = reference->config;
    bool shared = index >= config->experts;
    uint32_t hidden = config->hidden, tokens = reference->n_pes * reference->tokens_per_pe;
    uint64_t dropped = 0;
    uint32_t rows =
        shared ? tokens
               : select_rows(reference, index, 0, reference->n_pes, work->choices, &dropped);
    for (uint32_t row = 0; row < rows; row++) {
        uint32_t token = shared ? row : work->choices[row] / config->top_k;
        memcpy(work->in + (size_t)row * hidden, reference->x + (size_t)token * hidden,
               hidden * sizeof(float));
    }
    if (rows > 0 && !config->communication_only) {
        struct perseus_moe_expert expert = prs_weights_view(config, block, index);
        enum perseus_status status = run_expert(config, &expert, rows, work);
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    const float *result = config->communication_only ? work->in : work->out;
    for (uint32_t row = 0; row < rows; row++) {
        uint32_t token = shared ? row : work->choices[row] / config->top_k;
        float weight = shared ? 1.0f : reference->weights[work->choices[row]];
        for (uint32_t i = 0; i < hidden; i++) {
            y[(size_t)token * hidden + i] += weight * result[(size_t)row * hidden + i];
        }
    }
    return PERSEUS_OK;
}

static bool work_init(struct work *work, const struct perseus_moe_config *config, size_t tokens)
{
    size_t hidden = tokens * config->hidden, inner = tokens * config->intermediate;
    *work = (struct work){
        .choices = malloc(tokens * sizeof *work->choices + 1), /* a token has an expert once */
        .in = malloc(hidden * sizeof(float) + 1),
        .gate = malloc(inner * sizeof(float) + 1),
        .inner = malloc(inner * sizeof(float) + 1),
        .out = malloc(hidden * sizeof(float) + 1),
        .matrices = malloc((size_t)config->hidden * config->intermediate * sizeof(float)),
    };
    return work->choices != NULL && work->in != NULL && work->gate != NULL && work->inner != NULL &&
           work->out != NULL && work->matrices != NULL;
}

static void work_finish(struct work *work)
{
    prs_gemm_destroy(work->gemm);
    free(work->choices);
    free(work->in);
    free(work->gate);
    free(work->inner);
    free(work->out);
    free(work->matrices);
}

enum perseus_status prs_reference_run(const struct prs_reference *reference, const void *block,
                                      void (*progress)(void *context, uint32_t done), void *context,
                                      const struct prs_log *log, float *y)
{
    const struct perseus_moe_config *config = reference->config;
    size_t tokens = (size_t)reference->n_pes * reference->tokens_per_pe;
    struct work work;
    enum perseus_status status =
        work_init(&work, config, tokens)
            ? prs_gemm_create(log, &work.gemm)
            : prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for the reference of %zu tokens",
                       tokens);
    if (status == PERSEUS_OK) {
        memset(y, 0, tokens * config->hidden * sizeof *y);
    }
    uint32_t experts = config->experts + (config->communication_only ? 0 : config->shared_experts);
    for (uint32_t index = 0; index < experts && status == PERSEUS_OK; index++) {
        status = add_expert(reference, block, index, &work, y);
        if (progress != NULL) {
            progress(context, index + 1);
        }
    }
    work_finish(&work);
    return status;
}

void prs_reference_compare(const float *y, const float *expected, size_t count,
                           double *out_difference, double *out_expected)
{
    double difference = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        double apart = (double)y[i] - (double)expected[i];
        difference += apart * apart;
        size += (double)expected[i] * (double)expected[i];
    }
    *out_difference = difference;
    *out_expected = size;
}
