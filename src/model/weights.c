/* SPDX-License-Identifier: Apache-2.0 */
#include "model/weights.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "moe/math/bf16.h"
#include "model/file_map.h"
#include "moe/plan.h"
#include "model/safetensors.h"

enum matrix { MATRIX_GATE, MATRIX_UP, MATRIX_DOWN, MATRIX_COUNT };

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
                       enum matrix matrix)
{
    struct perseus_moe_expert view = prs_weights_view(config, block, index);
    const void *const matrices[] = {view.gate, view.up, view.down};
    return (void *)matrices[matrix];
}

void prs_weights_random(const struct perseus_moe_config *config, void *block, uint32_t index,
                        uint64_t seed)
{
    size_t count = (size_t)config->hidden * config->intermediate;
    for (int matrix = 0; matrix < MATRIX_COUNT; matrix++) {
        if (matrix == MATRIX_GATE && config->form != PERSEUS_MOE_SWIGLU) {
            continue;
        }
        struct prs_rng rng =
            prs_rng_seeded(seed ^ ((uint64_t)index * MATRIX_COUNT + (uint64_t)matrix + 1) << 32);
        uint32_t fan_in = matrix == MATRIX_DOWN ? config->intermediate : config->hidden;
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

/* Copies a tensor's items, which may lie at any address, in the type that the block has. */
static void copy(const struct prs_tensor *tensor, size_t count, bool to_bf16, void *out)
{
    bool from_bf16 = tensor->type == PRS_TENSOR_BF16;
    if (from_bf16 == to_bf16) {
        memcpy(out, tensor->data, count * (to_bf16 ? 2 : 4));
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (to_bf16) {
            float value;
            memcpy(&value, tensor->data + 4 * i, sizeof value);
            ((uint16_t *)out)[i] = prs_bf16_from_f32(value);
        } else {
            uint16_t bits;
            memcpy(&bits, tensor->data + 2 * i, sizeof bits);
            ((float *)out)[i] = prs_bf16_to_f32(bits);
        }
    }
}

/* The name of a matrix under either family's names, whichever the file has. */
static void name_of(const struct prs_safetensors *file, uint32_t layer, uint32_t expert,
                    bool shared, enum matrix matrix, char *out, size_t capacity)
{
    static const char *const mixtral[] = {"w1", "w3", "w2"};
    static const char *const qwen[] = {"gate_proj", "up_proj", "down_proj"};
    snprintf(out, capacity, "model.layers.%u.block_sparse_moe.experts.%u.%s.weight", layer, expert,
             mixtral[matrix]);
    if (shared) {
        snprintf(out, capacity, "model.layers.%u.mlp.shared_experts.%s.weight", layer,
                 qwen[matrix]);
    } else if (!prs_safetensors_has(file, out)) {
        snprintf(out, capacity, "model.layers.%u.mlp.experts.%u.%s.weight", layer, expert,
                 qwen[matrix]);
    }
}

static enum perseus_status load_matrix(const struct perseus_moe_config *config,
                                       const struct prs_safetensors *file, const char *name,
                                       enum matrix matrix, const struct prs_log *log, void *out)
{
    uint64_t outputs = matrix == MATRIX_DOWN ? config->hidden : config->intermediate;
    uint64_t inputs = matrix == MATRIX_DOWN ? config->intermediate : config->hidden;
    struct prs_tensor tensor;
    enum perseus_status status = prs_safetensors_find(file, name, log, &tensor);
    if (status != PERSEUS_OK) {
        return status;
    }
    if (tensor.dims != 2 || tensor.shape[0] != outputs || tensor.shape[1] != inputs) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "tensor %s: expected shape [%llu, %llu], found %u dimensions [%llu, %llu]: "
                        "does the model match?",
                        name, (unsigned long long)outputs, (unsigned long long)inputs, tensor.dims,
                        (unsigned long long)tensor.shape[0], (unsigned long long)tensor.shape[1]);
    }
    copy(&tensor, (size_t)(outputs * inputs), config->weight_dtype == PERSEUS_MOE_BF16, out);
    return PERSEUS_OK;
}

static enum perseus_status load_all(const struct perseus_moe_config *config,
                                    const struct prs_safetensors *file, uint32_t layer,
                                    const struct prs_log *log, void *block)
{
    if (config->shared_experts > 1) {
        return prs_fail(log, PERSEUS_NOT_SUPPORTED,
                        "weights of %u shared experts cannot be told apart in one tensor; use one",
                        config->shared_experts);
    }
    for (uint32_t index = 0; index < config->experts + config->shared_experts; index++) {
        for (int matrix = 0; matrix < MATRIX_COUNT; matrix++) {
            if (matrix == MATRIX_GATE && config->form != PERSEUS_MOE_SWIGLU) {
                continue;
            }
            char name[128];
            name_of(file, layer, index, index >= config->experts, matrix, name, sizeof name);
            enum perseus_status status = load_matrix(config, file, name, matrix, log,
                                                     matrix_at(config, block, index, matrix));
            if (status != PERSEUS_OK) {
                return status;
            }
        }
    }
    return PERSEUS_OK;
}

enum perseus_status prs_weights_load(const struct perseus_moe_config *config, void *block,
                                     const char *path, uint32_t layer, const struct prs_log *log)
{
    struct prs_file_map map;
    struct prs_safetensors *file = NULL;
    enum perseus_status status = prs_file_map_init(&map, path, log);
    if (status != PERSEUS_OK) {
        return status;
    }
    status = prs_safetensors_create(path, map.bytes, map.size, log, &file);
    if (status == PERSEUS_OK) {
        status = load_all(config, file, layer, log, block);
    }
    prs_safetensors_destroy(file);
    prs_file_map_finish(&map);
    return status;
}
