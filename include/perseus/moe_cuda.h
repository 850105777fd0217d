/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moe_cuda.h: a Mixture-of-Experts layer on NVIDIA GPUs of compute capability 9.0, forward: one
 * kernel a PE, from routed tokens in GPU memory to their outputs. Experts are split over PEs as in
 * moe.h. Link libperseus_moe_cuda; docs/gpu-moe.md says how it works and how fast it is.
 *
 *     perseus_moe_cuda_heap_bytes(&attr, &bytes);           each PE: cudaMalloc, cudaMemset to zero
 *     perseus_moe_cuda_create(&attr, heaps, &moe);          heaps of all PEs, as this GPU has them
 *     perseus_moe_cuda_forward(moe, &input, stream);
 *     perseus_moe_cuda_check(moe);                          after the stream: what went wrong in it
 *
 * PEs reach each other's heaps by loads and stores: they share a GPU, or their GPUs are of one node
 * (peer access within a process, cudaIpcGetMemHandle and cudaIpcOpenMemHandle between processes).
 * All PEs launch equally often, and their kernels must be able to run at once: PEs that share a GPU
 * share its multiprocessors (`ctas`).
 *
 * Threads: calls for one layer by one thread at a time, with the layer's GPU current. Launches of
 * one layer go into one stream, or streams that the caller orders, and may be captured in a graph;
 * a PE may be one forward ahead of another. Nothing prints; every wait in a kernel has a deadline.
 */
#ifndef PERSEUS_MOE_CUDA_H
#define PERSEUS_MOE_CUDA_H

#include <perseus/moe.h>

#ifdef __cplusplus
extern "C" {
#endif

struct perseus_moe_cuda;

/* Rows of an expert begin at a multiple of it. */
#define PERSEUS_MOE_CUDA_BLOCK 128

/* The same on every PE but for what is a PE's own. */
struct perseus_moe_cuda_attr {
    uint32_t hidden;       /* a multiple of eight, as intermediate */
    uint32_t intermediate; /* 0: no experts here, for dispatch and combine alone */
    uint32_t experts, top_k;
    uint32_t shared_experts; /* each on every PE, of the same sizes, applied to every token with
                                weight 1; top_k + shared_experts at most 64 */
    enum perseus_moe_form form;
    uint32_t tokens_max; /* most tokens of one forward of one PE */
    uint32_t n_pes;
    /* A PE's own: */
    uint32_t my_pe;
    uint32_t ctas; /* 0: as many as the GPU has multiprocessors */
    /* GPU memory, bf16, the caller's, for the hosted experts and behind them the shared ones;
     * 16-byte aligned. Unused where intermediate is 0. */
    const void *first;   /* [hosted + shared][2 * intermediate, hidden]: gate, then up; two-matrix
                            form: [hosted + shared][intermediate, hidden] */
    const void *second;  /* [hosted + shared][hidden, intermediate] */
    uint32_t timeout_ms; /* of waits in the kernel; 0: 10000 */
    perseus_log_fn log;  /* NULL: none */
    void *log_user;
    enum perseus_log_level log_level;
};

/* Bytes of one PE's heap, the same on every PE. Asks the current GPU. NOT_SUPPORTED for one of
 * another compute capability, INVALID_ARGUMENT or LIMIT for a shape that is refused. */
enum perseus_status perseus_moe_cuda_heap_bytes(const struct perseus_moe_cuda_attr *attr,
                                                uint64_t *out);
/* On the current GPU, which must reach all `heaps` ([n_pes], 128-byte aligned, the caller's, zeroed
 * before any PE launches; the array is copied). Not collective. */
enum perseus_status perseus_moe_cuda_create(const struct perseus_moe_cuda_attr *attr,
                                            void *const *heaps, struct perseus_moe_cuda **out);
void perseus_moe_cuda_destroy(struct perseus_moe_cuda *moe); /* NULL allowed; nothing in flight */

/* Arrays in GPU memory, which stay until the launch has run. */
struct perseus_moe_cuda_input {
    uint32_t tokens;      /* 0 to tokens_max */
    uint32_t id_bytes;    /* 4: int32_t ids, 8: int64_t */
    const void *x;        /* bf16 [tokens, hidden], 16-byte aligned */
    const void *ids;      /* [tokens, top_k], distinct within a token; -1: choice not used */
    const float *weights; /* [tokens, top_k] */
    void *y;              /* bf16 [tokens, hidden], 16-byte aligned; written */
};

/* Launches one forward, on a cudaStream_t. INVALID_ARGUMENT for tokens or pointers that are wrong,
 * or a layer without experts; ids that are no expert end the forward, and check says so. */
enum perseus_status perseus_moe_cuda_forward(struct perseus_moe_cuda *moe,
                                             const struct perseus_moe_cuda_input *input,
                                             void *stream);

/* The same forward in two halves, around experts of the caller's. Dispatch sends the tokens and
 * ends when all rows of this PE's experts lie in `rows`, bf16 [rows_max, hidden], and their
 * numbers in `counts`, [hosted + shared]; both GPU memory, the caller's. Shared experts have a row
 * of each of this PE's tokens. Rows of an expert begin at a multiple of PERSEUS_MOE_CUDA_BLOCK,
 * behind those of the expert before it, in no particular order. Combine takes what became of them,
 * in the same places, to the tokens they came from, and adds up into input's y; ids and weights
 * are those of dispatch. They take turns, INVALID_ARGUMENT otherwise. */
uint64_t perseus_moe_cuda_rows_max(const struct perseus_moe_cuda *moe);
enum perseus_status perseus_moe_dispatch(struct perseus_moe_cuda *moe,
                                         const struct perseus_moe_cuda_input *input, void *rows,
                                         uint32_t *counts, void *stream);
enum perseus_status perseus_moe_combine(struct perseus_moe_cuda *moe,
                                        const struct perseus_moe_cuda_input *input,
                                        const void *rows, void *stream);

/* After the stream: OK, or what ended a kernel, which is logged. The layer is over then. */
enum perseus_status perseus_moe_cuda_check(struct perseus_moe_cuda *moe);

#ifdef __cplusplus
}
#endif
#endif
