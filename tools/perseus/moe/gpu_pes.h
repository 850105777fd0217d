/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_pes.h: the PEs of --device cuda: layers on GPUs of this process, with weights and tokens. */
#ifndef PRS_TOOLS_MOE_GPU_PES_H
#define PRS_TOOLS_MOE_GPU_PES_H

#include <cuda_runtime_api.h>
#include <perseus/moe_cuda.h>

#include "cuda/moe/experts.h"
#include "moe/job.h"

#define PRS_MOE_GPU_STAMPS  4
#define PRS_MOE_GPU_ARRAYS  12 /* of a PE, in GPU memory */
#define PRS_MOE_GPU_PES_MAX 64

struct prs_moe_gpu_pe {
    int gpu;
    uint32_t first, hosted; /* its experts */
    void *arrays[PRS_MOE_GPU_ARRAYS];
    uint32_t n_arrays;
    struct perseus_moe_cuda_input input;
    struct perseus_moe_cuda *layer;
    /* Of the forward phase after phase: rows by expert, and what the products made of them. */
    struct prs_gpu_moe_experts *experts;
    void *rows, *results;
    uint32_t *counts;
    cudaStream_t stream;
    cudaEvent_t stamps[PRS_MOE_GPU_STAMPS];
};

struct prs_moe_gpu_pes {
    const struct prs_moe_setup *setup;
    const struct prs_moe_inputs *inputs;
    struct prs_log log;
    uint32_t n;
    struct prs_moe_gpu_pe pe[PRS_MOE_GPU_PES_MAX];
    void *heaps[PRS_MOE_GPU_PES_MAX];
    uint32_t processors; /* of a PE */
    char gpu_name[64];
};

/* True for success; else says what failed. */
bool prs_moe_gpu_done(cudaError_t error, const char *what);
/* Attributes of PE `pe`'s layer but for weights and multiprocessors. */
struct perseus_moe_cuda_attr prs_moe_gpu_attr(const struct prs_moe_setup *setup, uint32_t pe);
/* False after a message; stop it all the same. */
bool prs_moe_gpu_pes_start(struct prs_moe_gpu_pes *pes, const struct prs_moe_setup *setup,
                           const struct prs_moe_inputs *inputs);
void prs_moe_gpu_pes_stop(struct prs_moe_gpu_pes *pes);

/* All outputs become no numbers. */
bool prs_moe_gpu_poison(struct prs_moe_gpu_pes *pes);
/* Behind all that was launched; false after what went wrong in a kernel. */
bool prs_moe_gpu_wait(struct prs_moe_gpu_pes *pes);
/* The outputs' relative error, and whether every expert had its rows, where dispatch counted
 * them. */
bool prs_moe_gpu_verify(struct prs_moe_gpu_pes *pes, bool has_counts,
                        struct prs_moe_result *result);

#endif
