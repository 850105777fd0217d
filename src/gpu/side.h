/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/side.h: what a PE has on its GPU: the heap, the ring that kernels fill, the proxy's answers
 * to them, the report of what went wrong in one, and signal groups.
 *
 *   side.c    the memory, and reaching it from the host
 *   fault.c   what kernels report
 *   group.c   signal groups
 *
 * Threads: any, but for open, close and the making of groups, which are the PE's.
 */
#ifndef PRS_GPU_SIDE_H
#define PRS_GPU_SIDE_H

#include <pthread.h>

#include <perseus/gpu.h>

#include "cuda/device.h"
#include "ring/answers.h"

#define PRS_GPU_SIDE_ANSWERS   256
#define PRS_GPU_SIDE_SLOTS_MIN 64 /* a warp claims 32 at once */

struct prs_gpu_side_config {
    int gpu; /* its number for CUDA */
    size_t heap_bytes;
    uint64_t heap_offset; /* of the first byte that kernels may name, as descriptors count */
    uint32_t slots;       /* of the ring; a power of two from PRS_GPU_SIDE_SLOTS_MIN on */
    uint32_t timeout_ms;  /* of waits in kernels for room and answers */
    int my_pe, n_pes;
    const struct prs_log *log; /* outlives the side */
};

struct prs_gpu_group_memory {
    struct prs_gpu_group_memory *next;
    void *memory; /* of one group, the GPU's */
};

struct prs_gpu_side {
    struct prs_gpu_side_config config;
    struct prs_gpu *cuda;
    struct prs_gpu_device gpu;
    pthread_mutex_t copying; /* held while `stream` and `staged` are used */
    void *stream;     /* not the default one, which would wait for kernels that may wait for us */
    uint64_t *staged; /* pinned: a word on its way */
    unsigned char *heap;
    unsigned char *own;    /* GPU memory: the producers' words, uses of answers, the direct table */
    unsigned char *shared; /* pinned: the ring, the answers, the fault */
    struct prs_ring ring;  /* as the GPU sees it */
    struct prs_answer *slots;    /* of the answers, which both sides see */
    struct prs_answers *answers; /* the proxy's side of them */
    uint32_t *answer_uses, *fault_taken;
    struct perseus_device_fault *fault;
    unsigned char **direct; /* by PE: a heap that this GPU's stores reach; NULL at first */
    struct prs_gpu_group_memory *groups;
};

/* NOT_FOUND without a GPU of this number; on failure nothing is left behind. */
enum perseus_status prs_gpu_side_open(const struct prs_gpu_side_config *config,
                                      struct prs_gpu_side **out);
/* No kernel, proxy or copy uses it any more. NULL allowed. */
void prs_gpu_side_close(struct prs_gpu_side *side);

/* Copies between the GPU's memory and the caller's, and zeroes the GPU's; done on return. */
enum perseus_status prs_gpu_side_copy(struct prs_gpu_side *side, void *target, const void *source,
                                      size_t bytes);
enum perseus_status prs_gpu_side_zero(struct prs_gpu_side *side, void *target, size_t bytes);
/* A word of the GPU's memory, whole; what was ordered before it is readable for whoever copies or
 * loads behind this. */
enum perseus_status prs_gpu_side_load(struct prs_gpu_side *side, const uint64_t *word,
                                      uint64_t *out);
/* A signal or atomic that a peer's put cannot carry out, on a word of the GPU's memory; returns the
 * old value. Never a CPU's atomic: two copies around it, on the proxy's thread, which is the one
 * writer of such words while they are targets of peers' atomics; kernels read them. */
uint64_t prs_gpu_side_apply(struct prs_gpu_side *side, void *word, enum perseus_atomic op,
                            uint64_t operand, uint64_t compare, uint32_t bytes);
/* Whether it is GPU memory, of any GPU. */
bool prs_gpu_side_is_device(struct prs_gpu_side *side, const void *pointer);

/* The ring for the proxy, which does not reach its producers. */
struct prs_ring prs_gpu_side_consumer(const struct prs_gpu_side *side);
/* What kernels need; the heap is the one buffer, in window 0. */
void prs_gpu_side_describe(const struct prs_gpu_side *side, struct perseus_device_pe *out);

/* fault.c: OK, or what ended a wait in a kernel since the last call, which is logged. */
enum perseus_status prs_gpu_side_check(struct prs_gpu_side *side);

/* group.c: a signal group in the GPU's memory, freed with the side. `vector_max`: values of one
 * message. */
enum perseus_status prs_gpu_group_create(struct prs_gpu_side *side,
                                         const struct perseus_device_group_attr *attr,
                                         uint32_t vector_max, uint32_t *out_numbers,
                                         struct perseus_device_group **out);
void prs_gpu_groups_free(struct prs_gpu_side *side);

#endif
