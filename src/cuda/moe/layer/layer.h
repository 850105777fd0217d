/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer.h: a Mixture-of-Experts layer on GPUs, forward, one megakernel a PE. PEs reach each other's
 * heaps by loads and stores: they are GPUs of one node, or share one.
 *
 * Threads: calls for one layer by one thread at a time. Forwards of one layer are launched into one
 * stream, or streams that the caller orders; a PE may be one forward ahead of another. All PEs
 * launch equally often, and their kernels must be able to run at once: PEs that share a GPU share
 * its multiprocessors (`ctas`).
 */
#ifndef PRS_CUDA_MOE_LAYER_H
#define PRS_CUDA_MOE_LAYER_H

#include <stdbool.h>

#include "base/log.h"
#include "cuda/moe/layer/forward.h"

#ifdef __cplusplus
extern "C" {
#endif

struct prs_gpu_moe;

struct prs_gpu_moe_attr {
    uint32_t hidden, intermediate, experts, top_k;
    bool is_swiglu;      /* else the two-matrix form */
    uint32_t tokens_max; /* most tokens of one forward of one PE */
    uint32_t my_pe, n_pes;
    uint32_t ctas; /* of this PE; 0: all of the GPU's multiprocessors, divided by n_pes */
    /* Device memory, bf16, the caller's, for the hosted experts; 16-byte aligned. */
    const void *first;   /* [hosted][2 * intermediate, hidden]: gate, then up; two-matrix form:
                            [hosted][intermediate, hidden] */
    const void *second;  /* [hosted][hidden, intermediate] */
    uint32_t timeout_ms; /* of waits in the kernel; 0: 10000 */
};

/* Bytes of one PE's heap; 0, with a message, for a shape that is refused. The same on every PE. */
uint64_t prs_gpu_moe_heap_bytes(const struct prs_gpu_moe_attr *attr, const struct prs_log *log);
/* On the current GPU, which must reach all `heaps` ([n_pes], of heap_bytes, 128-byte aligned, the
 * caller's, zeroed before any PE launches). `log` outlives it. */
enum perseus_status prs_gpu_moe_create(const struct prs_gpu_moe_attr *attr, void *const *heaps,
                                       const struct prs_log *log, struct prs_gpu_moe **out);
void prs_gpu_moe_destroy(struct prs_gpu_moe *moe); /* NULL allowed; nothing in flight */
/* Launches one forward, on a cudaStream_t; may be captured. The arrays are device memory and stay
 * until it has run. INVALID_ARGUMENT for tokens or pointers that are wrong; ids that are no expert
 * end the forward, and check says so. */
enum perseus_status prs_gpu_moe_forward(struct prs_gpu_moe *moe,
                                        const struct prs_gpu_moe_input *input, void *stream);

/* The same forward in two halves, around experts of the caller's. Dispatch sends the tokens and
 * ends when all rows of this PE's experts lie in `rows`, bf16 [rows_max, hidden], and their numbers
 * in `counts`, [hosted]; both device memory, the caller's. Rows of an expert begin at a multiple of
 * PRS_GPU_MOE_BLOCK, behind those of the expert before it, in no particular order. Combine takes
 * what became of them, in the same places, to the tokens they came from, and adds up into input's
 * y; ids and weights are those of dispatch. They take turns, INVALID_ARGUMENT otherwise. */
uint64_t prs_gpu_moe_rows_max(const struct prs_gpu_moe *moe);
enum perseus_status prs_gpu_moe_dispatch(struct prs_gpu_moe *moe,
                                         const struct prs_gpu_moe_input *input, void *rows,
                                         uint32_t *counts, void *stream);
enum perseus_status prs_gpu_moe_combine(struct prs_gpu_moe *moe,
                                        const struct prs_gpu_moe_input *input, const void *rows,
                                        void *stream);
/* After the stream: OK, or what ended a kernel, which is logged. The layer is over then. */
enum perseus_status prs_gpu_moe_check(struct prs_gpu_moe *moe);

#ifdef __cplusplus
}
#endif
#endif
