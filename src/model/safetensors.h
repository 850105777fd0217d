/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.h: the tensor file format of model hubs: a JSON header, then raw little-endian
 * data. */
#ifndef PRS_MODEL_SAFETENSORS_H
#define PRS_MODEL_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"

#define PRS_TENSOR_DIMS_MAX 4

enum prs_tensor_type { PRS_TENSOR_F32, PRS_TENSOR_BF16, PRS_TENSOR_F16 };

struct prs_tensor {
    enum prs_tensor_type type;
    uint32_t dims;
    uint64_t shape[PRS_TENSOR_DIMS_MAX];
    const unsigned char *data; /* points into the file's bytes, at any alignment */
};

struct prs_safetensors;

/* Parses the header; `bytes` must outlive the object. PROTOCOL says which file, at which offset,
 * and what was expected. `name` is copied. */
enum perseus_status prs_safetensors_create(const char *name, const unsigned char *bytes,
                                           size_t size, const struct prs_log *log,
                                           struct prs_safetensors **out);
void prs_safetensors_destroy(struct prs_safetensors *file); /* NULL allowed */

/* Whether the file has a tensor of this name. */
bool prs_safetensors_has(const struct prs_safetensors *file, const char *tensor);
/* The tensor, checked against the file's size. NOT_FOUND, PROTOCOL (damaged) or NOT_SUPPORTED (a
 * type other than F32, BF16 and F16), with a message. */
enum perseus_status prs_safetensors_find(const struct prs_safetensors *file, const char *tensor,
                                         const struct prs_log *log, struct prs_tensor *out);
/* Any one name of the file, for "no such tensor, there is for example ..."; "" if it has none. */
const char *prs_safetensors_example(const struct prs_safetensors *file);

#endif
