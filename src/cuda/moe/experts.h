/* SPDX-License-Identifier: Apache-2.0 */
/*
 * experts.h: the two products of a layer's experts on one GPU, for rows that lie sorted by expert:
 * what the megakernel's processors do, without communication.
 */
#ifndef PRS_CUDA_MOE_EXPERTS_H
#define PRS_CUDA_MOE_EXPERTS_H

#include <stdbool.h>

#include "base/log.h"
#include "cuda/moe/maps.h"
#include "cuda/moe/round.h"

#ifdef __cplusplus
extern "C" {
#endif

struct prs_gpu_moe_experts;

/* Device memory, bf16, the caller's; 16-byte aligned, widths multiples of eight. Rows of expert e
 * begin at a multiple of PRS_GPU_MOE_BLOCK, behind the blocks of expert e - 1. */
struct prs_gpu_moe_experts_attr {
    uint32_t hidden, intermediate, hosted;
    bool is_swiglu;
    uint32_t blocks_max; /* of rows */
    const void *rows;    /* [blocks_max * PRS_GPU_MOE_BLOCK, hidden] */
    const void *first;   /* [hosted][2 * intermediate, hidden]: gate, then up; two-matrix form:
                            [hosted][intermediate, hidden] */
    const void *second;  /* [hosted][hidden, intermediate] */
    void *results;       /* as rows; rows that no expert has are not written */
    uint32_t timeout_ms; /* of waits in the kernel; 0: 10000 */
};

/* On the current GPU. `log` outlives it. NOT_SUPPORTED for a GPU that is not of compute capability
 * 9.0, INVALID_ARGUMENT for widths that do not fit. */
enum perseus_status prs_gpu_moe_experts_create(const struct prs_gpu_moe_experts_attr *attr,
                                               const struct prs_log *log,
                                               struct prs_gpu_moe_experts **out);
void prs_gpu_moe_experts_destroy(struct prs_gpu_moe_experts *experts); /* NULL allowed */
/* Launches, on a cudaStream_t; may be captured. `counts`: device, [hosted], rows of each expert. */
enum perseus_status prs_gpu_moe_experts_run(struct prs_gpu_moe_experts *experts,
                                            const uint32_t *counts, void *stream);
/* What a kernel of another one's takes of it: valid until destroy. Every launch begins with the
 * counters as zero. */
struct prs_gpu_moe_experts_view {
    uint32_t columns; /* of an output tile */
    struct prs_gpu_moe_products products;
    const struct prs_moe_maps *maps;
    void *counters; /* queue and counts of the products */
    uint64_t counter_bytes;
};
void prs_gpu_moe_experts_see(const struct prs_gpu_moe_experts *experts,
                             struct prs_gpu_moe_experts_view *out);
/* After the stream: OK, or what a wait in the kernel found, which is logged. */
enum perseus_status prs_gpu_moe_experts_check(struct prs_gpu_moe_experts *experts);

#ifdef __cplusplus
}
#endif
#endif
