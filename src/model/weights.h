/* SPDX-License-Identifier: Apache-2.0 */
/* weights.h: expert weights for tools and tests: random from a seed, or from a safetensors file.
 *
 * All experts of a layer lie here in one block, which the caller may share between processes:
 * experts first, then shared experts. */
#ifndef PRS_MODEL_WEIGHTS_H
#define PRS_MODEL_WEIGHTS_H

#include <perseus/moe.h>

#include "base/log.h"

/* Bytes of the block. `config` has been checked (plan.h). */
uint64_t prs_weights_bytes(const struct perseus_moe_config *config);
/* Expert `index` of the block; experts and up: a shared expert. */
struct perseus_moe_expert prs_weights_view(const struct perseus_moe_config *config,
                                           const void *block, uint32_t index);
/* Fills expert `index` from the seed: uniform, scaled by the fan-in, so that activations keep their
 * size through the layer. The bf16 values are the rounded f32 ones. */
void prs_weights_random(const struct perseus_moe_config *config, void *block, uint32_t index,
                        uint64_t seed);
/* Fills all experts from the tensors of layer `layer` of a checkpoint (checkpoint.h; names.h lists
 * the families), converted to weight_dtype. NOT_FOUND, PROTOCOL and so on name the file and the
 * tensor; so does INVALID_ARGUMENT, where a value is no finite number. */
enum perseus_status prs_weights_load(const struct perseus_moe_config *config, void *block,
                                     const char *path, uint32_t layer, const struct prs_log *log);

#endif
