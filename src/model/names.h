/* SPDX-License-Identifier: Apache-2.0 */
/* names.h: what checkpoints of the different families call an expert's matrices. */
#ifndef PRS_MODEL_NAMES_H
#define PRS_MODEL_NAMES_H

#include "model/checkpoint.h"

enum prs_matrix { PRS_MATRIX_GATE, PRS_MATRIX_UP, PRS_MATRIX_DOWN, PRS_MATRIX_COUNT };

#define PRS_NAME_BYTES 192

struct prs_names {
    uint32_t layer;
    const char *prefix;           /* "model." */
    const char *experts, *shared; /* "mlp.experts"; shared NULL: not looked for */
    const char *const *matrices, *const *shared_matrices;
};

/* How `checkpoint` names the experts of one layer, and its shared expert if that is wanted. What is
 * there but not read (experts in one tensor, quantized ones, biases, a dense layer) is refused by
 * name. */
enum perseus_status prs_names_find(const struct prs_checkpoint *checkpoint, uint32_t layer,
                                   bool wants_shared, const struct prs_log *log,
                                   struct prs_names *out);
void prs_names_of_expert(const struct prs_names *names, uint32_t expert, enum prs_matrix matrix,
                         char out[PRS_NAME_BYTES]);
void prs_names_of_shared(const struct prs_names *names, enum prs_matrix matrix,
                         char out[PRS_NAME_BYTES]);

#endif
