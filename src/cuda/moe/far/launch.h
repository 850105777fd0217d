/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h: the kernels of far.h, for C++ on the host; each returns a cudaError_t. */
#ifndef PRS_CUDA_MOE_FAR_LAUNCH_H
#define PRS_CUDA_MOE_FAR_LAUNCH_H

#include "cuda/moe/experts.h"
#include "cuda/moe/far/round.cuh"

/* All `ctas` must be able to run at once, together with those of all other PEs of the GPU. */
int prs_moe_far_launch_dispatch(const prs_moe_far &far, const perseus_moe_cuda_input &input,
                                uint64_t number, uint32_t *counts, uint32_t ctas, void *stream);
int prs_moe_far_launch_combine(const prs_moe_far &far, const perseus_moe_cuda_input &input,
                               uint64_t number, uint64_t results, uint32_t ctas, void *stream);
/* Both and the experts between them, as one megakernel; coupled or decoupled. `experts`: made for
 * this PE's rows in the half number % 2; its results and its run are not used. */
int prs_moe_far_launch_forward(const prs_moe_far &far, const prs_gpu_moe_experts_view &experts,
                               const perseus_moe_cuda_input &input, uint64_t number, uint32_t ctas,
                               void *stream);

#endif
