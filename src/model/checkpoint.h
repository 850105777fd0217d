/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.h: a model's tensors, however many safetensors files they are spread over. Files are
 * mapped when a tensor of theirs is asked for. One thread. */
#ifndef PRS_MODEL_CHECKPOINT_H
#define PRS_MODEL_CHECKPOINT_H

#include "model/safetensors.h"

struct prs_checkpoint;

/* `path`: a .safetensors file; an index (model.safetensors.index.json), which says which file
 * beside it has which tensor; or a folder with either. Other containers are refused by name:
 * NOT_SUPPORTED. */
enum perseus_status prs_checkpoint_open(const char *path, const struct prs_log *log,
                                        struct prs_checkpoint **out);
void prs_checkpoint_close(struct prs_checkpoint *checkpoint); /* NULL allowed */

bool prs_checkpoint_has(const struct prs_checkpoint *checkpoint, const char *tensor);
/* As prs_safetensors_find; the tensor lives until close. */
enum perseus_status prs_checkpoint_find(struct prs_checkpoint *checkpoint, const char *tensor,
                                        const struct prs_log *log, struct prs_tensor *out);
const char *prs_checkpoint_path(const struct prs_checkpoint *checkpoint);

#endif
