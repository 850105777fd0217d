/* SPDX-License-Identifier: Apache-2.0 */
/* device/gpu_side.h: what a device PE has in the GPU's memory and in mapped pinned memory. */
#ifndef PRS_DEVICE_GPU_SIDE_H
#define PRS_DEVICE_GPU_SIDE_H

#include "cuda/device.h"
#include <perseus/device/pe.h>

#define PRS_GPU_SIDE_ANSWERS 256

struct prs_gpu_side {
    struct prs_gpu_device gpu;
    unsigned char *heap;
    unsigned char *own;    /* GPU memory: the producers' words, uses of answers, the direct table */
    unsigned char *shared; /* pinned: the ring, the answers, the fault */
    struct prs_ring ring;  /* as the GPU sees it */
    struct prs_answer *answers;
    uint32_t *answer_uses, *fault_taken;
    struct perseus_device_fault *fault;
    unsigned char **direct;
};

/* The GPU is entered and left. On failure: close. `gpu` is set before. */
enum perseus_status prs_gpu_side_open(struct prs_gpu_side *side, size_t heap_bytes, uint32_t slots,
                                      uint32_t n_pes);
void prs_gpu_side_close(struct prs_gpu_side *side); /* zeroed allowed */
/* Copies between the GPU's memory and the caller's, at once. */
enum perseus_status prs_gpu_side_copy(const struct prs_gpu_side *side, void *target,
                                      const void *source, size_t bytes);

#endif
