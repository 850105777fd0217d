/* SPDX-License-Identifier: Apache-2.0 */
/* layout.h: what lies where in a PE's heap. Pure. */
#ifndef PRS_CUDA_MOE_LAYOUT_H
#define PRS_CUDA_MOE_LAYOUT_H

#include "cuda/moe/layer/forward.h"
#include "cuda/moe/shape.h"

struct prs_gpu_moe_plan {
    struct prs_gpu_moe_cut cut;
    uint32_t ctas;
    uint32_t first_expert;
    uint64_t rows_max;   /* that a PE may get, whole blocks */
    uint32_t blocks_max; /* of them */
    struct prs_gpu_moe_layout layout;
};

/* `processors`: of the GPU; no PE has more CTAs. */
enum perseus_status prs_gpu_moe_plan(const struct perseus_moe_cuda_attr *attr, uint32_t processors,
                                     const struct prs_log *log, struct prs_gpu_moe_plan *out);

#endif
