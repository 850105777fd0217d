/* SPDX-License-Identifier: Apache-2.0 */
#include "model/models.h"

#include <string.h>

static const struct prs_moe_model prs_moe_model_table[] = {
    {"gpt-oss-20b", 2880, 2880, 32, 4, 0},  {"gpt-oss-120b", 2880, 2880, 128, 4, 0},
    {"qwen3-30b", 2048, 768, 128, 8, 0},    {"qwen3-235b", 4096, 1536, 128, 8, 0},
    {"deepseek-v3", 7168, 2048, 256, 8, 1}, {"llama4-scout", 5120, 8192, 16, 1, 0},
    {"mixtral-8x7b", 4096, 14336, 8, 2, 0},
};

const struct prs_moe_model *prs_moe_model_find(const char *name)
{
    size_t count;
    const struct prs_moe_model *models = prs_moe_models(&count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(models[i].name, name) == 0) {
            return &models[i];
        }
    }
    return NULL;
}

const struct prs_moe_model *prs_moe_models(size_t *out_count)
{
    *out_count = sizeof prs_moe_model_table / sizeof *prs_moe_model_table;
    return prs_moe_model_table;
}
