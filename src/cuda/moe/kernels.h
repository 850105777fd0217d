/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.h: launches of the kernels, for the host's C; each returns a cudaError_t. */
#ifndef PRS_CUDA_MOE_KERNELS_H
#define PRS_CUDA_MOE_KERNELS_H

#include "cuda/moe/maps.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `columns`: of an output tile, one of prs_gpu_moe_cut's. */
int prs_gpu_moe_launch_experts(uint32_t columns, uint32_t ctas,
                               const struct prs_gpu_moe_products *products,
                               const struct prs_moe_maps *maps, void *results,
                               const uint32_t *counts, void *stream);

#ifdef __cplusplus
}
#endif
#endif
