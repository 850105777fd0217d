/* SPDX-License-Identifier: Apache-2.0 */
/* models.h: the named Mixture-of-Experts shapes, as published with the models. */
#ifndef PRS_MODEL_MODELS_H
#define PRS_MODEL_MODELS_H

#include <stddef.h>
#include <stdint.h>

struct prs_moe_model {
    const char *name;
    uint32_t hidden, intermediate, experts, top_k;
    uint32_t shared_experts; /* each of `intermediate`, applied to every token */
};

/* NULL when there is no such model. */
const struct prs_moe_model *prs_moe_model_find(const char *name);
/* All of them, for listings. */
const struct prs_moe_model *prs_moe_models(size_t *out_count);

#endif
