/* SPDX-License-Identifier: Apache-2.0 */
#include "model/weights.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "moe/math/bf16.h"
#include "moe/plan.h"
#include "model/names.h"

static size_t matrix_bytes(const struct perseus_moe_config *config)
{
    return (size_t)prs_moe_expert_bytes(config) / prs_moe_matrices(config);
}

uint64_t prs_weights_bytes(const struct perseus_moe_config *config)
{
    return prs_moe_expert_bytes(config) * (config->experts + config->shared_experts);
}

struct perseus_moe_expert prs_weights_view(const struct perseus_moe_config *config,
                                           const void *block, uint32_t index)
{
    size_t each = matrix_bytes(config);
    const char *first = (const char *)block + index * (size_t)prs_moe_expert_bytes(config);
    const char *up = prs_moe_matrices(config) == 3 ? first + each : first;
    return (struct perseus_moe_expert){
        .gate = up > first ? first : NULL, .up = up, .down = up + each};
}

static void *matrix_at(const struct perseus_moe_config *config, void *block, uint32_t index,
                       enum prs_matrix matrix)
{
    struct perseus_moe_expert view = prs_weights_view(config, block, index);
    const void *const matrices[] = {view.gate, view.up, view.down};
    return (void *)matrices[matrix];
}

void prs_weights_random(const struct perseus_moe_config *config, void *block, uint32_t index,
                        uint64_t seed)
{
    size_t count = (size_t)config->hidden * config->intermediate;
    for (int matrix = 0; matrix < PRS_MATRIX_COUNT; matrix++) {
        if (matrix == PRS_MATRIX_GATE && config->form != PERSEUS_MOE_SWIGLU) {
            continue;
        }
        struct prs_rng rng = prs_rng_seeded(
            seed ^ ((uint64_t)index * PRS_MATRIX_COUNT + (uint64_t)matrix + 1) << 32);
        uint32_t fan_in = matrix == PRS_MATRIX_DOWN ? config->intermediate : config->hidden;
        float scale = sqrtf(3.0f / (float)fan_in) * 0x1.0p-31f;
        void *out = matrix_at(config, block, index, matrix);
        uint64_t bits = 0;
        for (size_t i = 0; i < count; i++) { /* two values of 32 bits from each draw */
            bits = i % 2 == 0 ? prs_rng_next(&rng) : bits >> 32;
            float value = (float)(int32_t)(uint32_t)bits * scale;
            if (config->weight_dtype == PERSEUS_MOE_BF16) {
                ((uint16_t *)out)[i] = prs_bf16_from_f32(value);
            } else {
                ((float *)out)[i] = value;
            }
        }
    }
}

/* ---- from a checkpoint ---- */

/* A matrix of one expert inside a tensor: shared experts lie one behind the other in one, side by
 * side in the down projection. */
struct part {
    struct prs_tensor tensor;
    size_t rows, columns; /* of the matrix */
    size_t first, stride; /* in the tensor, counted in items: its first item, and from row to row */
};

static float f16_to_f32(uint16_t bits)
{
    int exponent = bits >> 10 & 0x1f;
    float fraction = (float)(bits & 0x3ff);
    float value = exponent == 0    ? ldexpf(fraction, -24)
                  : exponent == 31 ? (fraction == 0 ? INFINITY : NAN)
                                   : ldexpf(fraction + 1024, exponent - 25);
    return bits >> 15 != 0 ? -value : value;
}

/* Item `index` of the tensor, at whatever address. */
static float item_of(const struct prs_tensor *tensor, size_t index)
{
    float value;
    uint16_t bits;
    if (tensor->type == PRS_TENSOR_F32) {
        memcpy(&value, tensor->data + 4 * index, sizeof value);
        return value;
    }
    memcpy(&bits, tensor->data + 2 * index, sizeof bits);
    return tensor->type == PRS_TENSOR_BF16 ? prs_bf16_to_f32(bits) : f16_to_f32(bits);
}

/* Copies it in the type that the block has. False at the first item that is not finite there:
 * *out_at. */
static bool copy(const struct part *part, bool to_bf16, void *out, size_t *out_at)
{
    for (size_t row = 0; row < part->rows; row++) {
        for (size_t column = 0; column < part->columns; column++) {
            size_t at = row * part->columns + column;
            float value = item_of(&part->tensor, part->first + row * part->stride + column);
            if (to_bf16) {
                uint16_t bits = prs_bf16_from_f32(value);
                ((uint16_t *)out)[at] = bits;
                value = prs_bf16_to_f32(bits);
            } else {
                ((float *)out)[at] = value;
            }
            if (!isfinite(value)) {
                *out_at = at;
                return false;
            }
        }
    }
    return true;
}

/* What is read, and where it goes. */
struct load {
    const struct perseus_moe_config *config;
    struct prs_checkpoint *checkpoint;
    struct prs_names names;
    const struct prs_log *log;
    void *block;
};

static enum perseus_status check_shape(const struct load *load, const char *name,
                                       const struct prs_tensor *tensor, uint64_t outputs,
                                       uint64_t inputs)
{
    if (tensor->dims == 2 && tensor->shape[0] == outputs && tensor->shape[1] == inputs) {
        return PERSEUS_OK;
    }
    return prs_fail(
        load->log, PERSEUS_INVALID_ARGUMENT,
        "%s: tensor %s: expected shape [%llu, %llu], found %u dimensions [%llu, %llu]: do "
        "--model, --hidden, --intermediate and --shared-experts match?",
        prs_checkpoint_path(load->checkpoint), name, (unsigned long long)outputs,
        (unsigned long long)inputs, tensor->dims, (unsigned long long)tensor->shape[0],
        (unsigned long long)tensor->shape[1]);
}

/* Matrix `matrix` of expert `index`. All shared experts are one in the file, with their
 * intermediate sizes added up: a network of that size is the sum of theirs. */
static enum perseus_status load_matrix(const struct load *load, uint32_t index,
                                       enum prs_matrix matrix)
{
    const struct perseus_moe_config *config = load->config;
    bool is_shared = index >= config->experts, is_down = matrix == PRS_MATRIX_DOWN;
    size_t slices = is_shared ? config->shared_experts : 1;
    size_t slice = is_shared ? index - config->experts : 0;
    size_t inner = config->intermediate, hidden = config->hidden;
    char name[PRS_NAME_BYTES];
    struct part part = {.rows = is_down ? hidden : inner,
                        .columns = is_down ? inner : hidden,
                        .first = is_down ? slice * inner : slice * inner * hidden,
                        .stride = is_down ? slices * inner : hidden};
    if (is_shared) {
        prs_names_of_shared(&load->names, matrix, name);
    } else {
        prs_names_of_expert(&load->names, index, matrix, name);
    }
    enum perseus_status status =
        prs_checkpoint_find(load->checkpoint, name, load->log, &part.tensor);
    if (status == PERSEUS_OK) {
        status = check_shape(load, name, &part.tensor, is_down ? hidden : slices * inner,
                             is_down ? slices * inner : hidden);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    size_t at;
    if (!copy(&part, config->weight_dtype == PERSEUS_MOE_BF16,
              matrix_at(config, load->block, index, matrix), &at)) {
        return prs_fail(
            load->log, PERSEUS_INVALID_ARGUMENT,
            "%s: tensor %s has no finite number (a NaN or an infinity) at row %zu, column "
            "%zu: the checkpoint is damaged, or the type too small for it",
            prs_checkpoint_path(load->checkpoint), name,
            at / part.columns + (is_down ? 0 : slice * inner),
            at % part.columns + (is_down ? slice * inner : 0));
    }
    return PERSEUS_OK;
}

enum perseus_status prs_weights_load(const struct perseus_moe_config *config, void *block,
                                     const char *path, uint32_t layer, const struct prs_log *log)
{
    struct load load = {.config = config, .log = log, .block = block};
    enum perseus_status status = prs_checkpoint_open(path, log, &load.checkpoint);
    if (status != PERSEUS_OK) {
        return status;
    }
    status = prs_names_find(load.checkpoint, layer, config->shared_experts > 0, log, &load.names);
    for (uint32_t index = 0; index < config->experts + config->shared_experts; index++) {
        for (int matrix = 0; matrix < PRS_MATRIX_COUNT && status == PERSEUS_OK; matrix++) {
            if (matrix != PRS_MATRIX_GATE || config->form == PERSEUS_MOE_SWIGLU) {
                status = load_matrix(&load, index, (enum prs_matrix)matrix);
            }
        }
    }
    prs_checkpoint_close(load.checkpoint);
    return status;
}
