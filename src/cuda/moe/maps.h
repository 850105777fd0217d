/* SPDX-License-Identifier: Apache-2.0 */
/* maps.h: what the tensor copies read, as the driver encodes it; valid as C11 and CUDA. */
#ifndef PRS_CUDA_MOE_MAPS_H
#define PRS_CUDA_MOE_MAPS_H

#include <cuda.h>

#include "base/log.h"
#include "cuda/moe/round.h"

#ifdef __cplusplus
extern "C" {
#endif

/* bf16 matrices, in boxes of PRS_GPU_MOE_DEPTH columns. */
struct prs_moe_maps {
    CUtensorMap rows, activations; /* boxes of half a block of rows */
    CUtensorMap first, second;     /* weights; boxes of half an output tile's columns */
};

/* Row-major [rows, columns]; columns a multiple of eight, the matrix 16-byte aligned. What a box
 * has beyond the matrix is zero. */
enum perseus_status prs_gpu_moe_map(const void *matrix, uint64_t rows, uint64_t columns,
                                    uint32_t box_rows, const struct prs_log *log, CUtensorMap *out);

#ifdef __cplusplus
}
#endif
#endif
