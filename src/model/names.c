/* SPDX-License-Identifier: Apache-2.0 */
#include "model/names.h"

#include <stdio.h>

static const char *const w123[] = {"w1", "w3", "w2"};
static const char *const projections[] = {"gate_proj", "up_proj", "down_proj"};

/* Text models, and those inside one that sees or hears. */
static const char *const prefixes[] = {"model.", "model.language_model.", "language_model.model.",
                                       ""};

struct place {
    const char *where;
    const char *const *matrices;
};
static const struct place experts[] = {
    {"mlp.experts", projections},          /* Qwen-MoE, DeepSeek, OLMoE, GLM-MoE, Ernie */
    {"block_sparse_moe.experts", w123},    /* Mixtral, Phi-MoE, MiniMax */
    {"feed_forward.experts", projections}, /* Jamba */
};
static const struct place shared[] = {
    {"mlp.shared_experts", projections},         /* DeepSeek, GLM-MoE, Ernie */
    {"mlp.shared_expert", projections},          /* Qwen2-MoE, Qwen3-Next */
    {"mlp.shared_mlp", projections},             /* Hunyuan */
    {"feed_forward.shared_expert", projections}, /* Llama 4 */
};

/* Names that say that experts are there, but not how they are read. */
static const struct {
    const char *where, *why;
} refused[] = {
    {"mlp.experts.gate_up_proj_blocks",
     "holds all experts, quantized (MXFP4): save one BF16 tensor per matrix"},
    {"mlp.experts.gate_up_proj", "holds all experts together: save one tensor per matrix"},
    {"feed_forward.experts.gate_up_proj", "holds all experts together: save one tensor per matrix"},
    {"block_sparse_moe.input_linear.weight",
     "holds all experts together: save one tensor per matrix"},
    {"ffn.experts.mlp.w1", "holds all experts together: save one tensor per matrix"},
    {"mlp.experts.0.gate_proj.qweight", "is quantized (GPTQ, AWQ): convert the checkpoint to BF16"},
    {"mlp.experts.0.gate_proj.weight_packed", "is quantized: convert the checkpoint to BF16"},
    {"block_sparse_moe.experts.0.w1.qweight",
     "is quantized (GPTQ, AWQ): convert the checkpoint to BF16"},
    {"mlp.gate_proj.weight", "is that of a dense layer, which has no experts: use another layer"},
};

void prs_names_of_expert(const struct prs_names *names, uint32_t expert, enum prs_matrix matrix,
                         char out[PRS_NAME_BYTES])
{
    snprintf(out, PRS_NAME_BYTES, "%slayers.%u.%s.%u.%s.weight", names->prefix, names->layer,
             names->experts, expert, names->matrices[matrix]);
}

void prs_names_of_shared(const struct prs_names *names, enum prs_matrix matrix,
                         char out[PRS_NAME_BYTES])
{
    snprintf(out, PRS_NAME_BYTES, "%slayers.%u.%s.%s.weight", names->prefix, names->layer,
             names->shared, names->shared_matrices[matrix]);
}

/* "model.layers.3." and `where`. */
static const char *in_layer(const struct prs_names *names, const char *where,
                            char out[PRS_NAME_BYTES])
{
    snprintf(out, PRS_NAME_BYTES, "%slayers.%u.%s", names->prefix, names->layer, where);
    return out;
}

/* Tries every prefix; leaves the one that fits. */
static bool find_experts(const struct prs_checkpoint *checkpoint, struct prs_names *names)
{
    char name[PRS_NAME_BYTES];
    for (size_t p = 0; p < sizeof prefixes / sizeof *prefixes; p++) {
        for (size_t i = 0; i < sizeof experts / sizeof *experts; i++) {
            names->prefix = prefixes[p];
            names->experts = experts[i].where;
            names->matrices = experts[i].matrices;
            prs_names_of_expert(names, 0, PRS_MATRIX_UP, name);
            if (prs_checkpoint_has(checkpoint, name)) {
                return true;
            }
        }
    }
    names->prefix = prefixes[0];
    names->experts = experts[0].where;
    names->matrices = experts[0].matrices;
    return false;
}

/* Why there are none: what is there instead, or the first name that was looked for. */
static enum perseus_status refuse(const struct prs_checkpoint *checkpoint,
                                  const struct prs_names *names, const struct prs_log *log)
{
    char name[PRS_NAME_BYTES];
    struct prs_names other = *names;
    for (size_t p = 0; p < sizeof prefixes / sizeof *prefixes; p++) {
        other.prefix = prefixes[p];
        for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
            if (prs_checkpoint_has(checkpoint, in_layer(&other, refused[i].where, name))) {
                return prs_fail(log, PERSEUS_NOT_SUPPORTED, "%s: tensor %s %s",
                                prs_checkpoint_path(checkpoint), name, refused[i].why);
            }
        }
    }
    prs_names_of_expert(names, 0, PRS_MATRIX_GATE, name);
    return prs_fail(log, PERSEUS_NOT_FOUND,
                    "%s has no experts in layer %u: no tensor %s, nor any of the other names that "
                    "docs/moe.md lists",
                    prs_checkpoint_path(checkpoint), names->layer, name);
}

static enum perseus_status find_shared(const struct prs_checkpoint *checkpoint,
                                       struct prs_names *names, const struct prs_log *log)
{
    char name[PRS_NAME_BYTES];
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        names->shared = shared[i].where;
        names->shared_matrices = shared[i].matrices;
        prs_names_of_shared(names, PRS_MATRIX_UP, name);
        if (prs_checkpoint_has(checkpoint, name)) {
            if (prs_checkpoint_has(checkpoint,
                                   in_layer(names, "mlp.shared_expert_gate.weight", name))) {
                prs_log(
                    log, PERSEUS_LOG_WARN,
                    "%s: the shared expert has a gate (%s), which the layer does not compute: it "
                    "adds the shared expert with weight 1",
                    prs_checkpoint_path(checkpoint), name);
            }
            return PERSEUS_OK;
        }
    }
    names->shared = shared[0].where;
    names->shared_matrices = shared[0].matrices;
    prs_names_of_shared(names, PRS_MATRIX_UP, name);
    return prs_fail(log, PERSEUS_NOT_FOUND,
                    "%s has no shared expert in layer %u: no tensor %s, nor any of the other names "
                    "that docs/moe.md lists; --shared-experts 0 does without",
                    prs_checkpoint_path(checkpoint), names->layer, name);
}

enum perseus_status prs_names_find(const struct prs_checkpoint *checkpoint, uint32_t layer,
                                   bool wants_shared, const struct prs_log *log,
                                   struct prs_names *out)
{
    struct prs_names names = {.layer = layer};
    char where[64], name[PRS_NAME_BYTES];
    if (!find_experts(checkpoint, &names)) {
        return refuse(checkpoint, &names, log);
    }
    snprintf(where, sizeof where, "%s.0.%s.bias", names.experts, names.matrices[PRS_MATRIX_UP]);
    if (prs_checkpoint_has(checkpoint, in_layer(&names, where, name))) {
        return prs_fail(log, PERSEUS_NOT_SUPPORTED,
                        "%s: experts have biases (%s), which the layer does not compute",
                        prs_checkpoint_path(checkpoint), name);
    }
    enum perseus_status status = wants_shared ? find_shared(checkpoint, &names, log) : PERSEUS_OK;
    *out = names;
    return status;
}
