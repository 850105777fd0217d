/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.h: launches of a layer's kernels, for the host's C; each returns a cudaError_t. */
#ifndef PRS_CUDA_MOE_LAYER_KERNELS_H
#define PRS_CUDA_MOE_LAYER_KERNELS_H

#include "cuda/moe/layer/forward.h"
#include "cuda/moe/maps.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `columns`: of an output tile, one of prs_gpu_moe_cut's; `maps`: of the two halves. */
int prs_gpu_moe_launch_layer(uint32_t columns, const struct prs_gpu_moe_layer *layer,
                             const struct prs_moe_maps *maps,
                             const struct perseus_moe_cuda_input *input, void *stream);
int prs_gpu_moe_launch_dispatch(const struct prs_gpu_moe_layer *layer,
                                const struct perseus_moe_cuda_input *input, void *rows,
                                uint32_t *counts, void *stream);
int prs_gpu_moe_launch_combine(const struct prs_gpu_moe_layer *layer,
                               const struct perseus_moe_cuda_input *input, const void *rows,
                               void *stream);

#ifdef __cplusplus
}
#endif
#endif
