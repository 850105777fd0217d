/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue.cuh: the scheduler. Tasks are taken in the order in which they became ready, by whichever CTA
 * is free; a CTA that finds none waits at its ticket for the next to be filled in.
 */
#ifndef PRS_CUDA_MOE_QUEUE_CUH
#define PRS_CUDA_MOE_QUEUE_CUH

#include "cuda/moe/watch.cuh"

struct prs_moe_task {
    uint64_t word;

    __device__ bool is_second() const
    {
        return (word & PRS_GPU_MOE_TASK_SECOND) != 0;
    }
    __device__ uint32_t tile() const
    {
        return (uint32_t)(word >> PRS_GPU_MOE_TASK_TILE) & 0xff;
    }
    __device__ uint32_t rows() const
    {
        return ((uint32_t)(word >> PRS_GPU_MOE_TASK_ROWS) & 0x7f) + 1;
    }
    __device__ uint32_t expert() const
    {
        return (uint32_t)(word >> PRS_GPU_MOE_TASK_EXPERT) & 0xffff;
    }
    __device__ uint32_t block() const
    {
        return (uint32_t)(word >> PRS_GPU_MOE_TASK_BLOCK) & 0xffffff;
    }
    /* The task of the second product's tile 0 for the same rows. */
    __device__ prs_moe_task second() const
    {
        return {(word | PRS_GPU_MOE_TASK_SECOND) & ~(0xffull << PRS_GPU_MOE_TASK_TILE)};
    }
};

/* The task of the first product's tile 0. */
PRS_DEVICE prs_moe_task prs_moe_block_task(uint32_t block, uint32_t expert, uint32_t rows)
{
    return {PRS_GPU_MOE_TASK_VALID | (uint64_t)(rows - 1) << PRS_GPU_MOE_TASK_ROWS |
            (uint64_t)expert << PRS_GPU_MOE_TASK_EXPERT |
            (uint64_t)block << PRS_GPU_MOE_TASK_BLOCK};
}

/* All tiles of a block. Release, with the acquire of take: what made it ready is there. */
PRS_DEVICE void prs_moe_queue_fill(const prs_gpu_moe_queue &queue, prs_moe_task first,
                                   uint32_t tiles)
{
    const uint32_t at = atomicAdd(queue.tail, tiles);
    prs_fence_gpu();
    for (uint32_t tile = 0; tile < tiles; tile++) {
        const uint64_t word = first.word | (uint64_t)tile << PRS_GPU_MOE_TASK_TILE;
        asm volatile("st.relaxed.gpu.u64 [%0], %1;"
                     :
                     : "l"(&queue.tasks[at + tile]), "l"(word)
                     : "memory");
    }
}

/* Word 0: the round has no more, or a wait failed. */
PRS_DEVICE prs_moe_task prs_moe_queue_take(const prs_gpu_moe_queue &queue,
                                           const prs_gpu_moe_watch &watch)
{
    const uint32_t ticket = atomicAdd(queue.head, 1u);
    prs_moe_patience patience(watch);
    for (;;) {
        const uint32_t total = prs_load_relaxed_gpu(queue.total);
        if (total != 0 && ticket >= total - 1) {
            return {0};
        }
        const uint64_t word = prs_load_acquire_gpu(&queue.tasks[ticket]);
        if (word != 0) {
            return {word};
        }
        if (!patience.lasts(PRS_GPU_MOE_WAIT_TASK, -1, ticket, 0, total)) {
            return {0};
        }
    }
}

#endif
