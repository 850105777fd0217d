/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue.cuh: the scheduler. Tasks are taken in the order in which they became ready, by whichever
 * CTA is free; a CTA that finds none waits at its ticket for the next to be filled in.
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
    __device__ uint32_t index() const
    {
        return (uint32_t)(word >> PRS_GPU_MOE_TASK_INDEX) & 3;
    }
    __device__ uint32_t group_rows() const
    {
        return ((uint32_t)(word >> PRS_GPU_MOE_TASK_ROWS) & 0x1ff) + 1;
    }
    __device__ uint32_t group_blocks() const
    {
        return (group_rows() + PRS_GPU_MOE_BLOCK - 1) / PRS_GPU_MOE_BLOCK;
    }
    __device__ uint32_t expert() const
    {
        return (uint32_t)(word >> PRS_GPU_MOE_TASK_EXPERT) & 0xfff;
    }
    __device__ uint32_t group() const
    {
        return (uint32_t)(word >> PRS_GPU_MOE_TASK_BLOCK) & (PRS_GPU_MOE_BLOCKS_MAX - 1);
    }
    __device__ uint32_t block() const
    {
        return group() + index();
    }
    /* Of the block `at` of the group. */
    __device__ uint32_t rows_of(uint32_t at) const
    {
        const uint32_t left = group_rows() - at * PRS_GPU_MOE_BLOCK;
        return left < PRS_GPU_MOE_BLOCK ? left : PRS_GPU_MOE_BLOCK;
    }
    __device__ uint32_t rows() const
    {
        return rows_of(index());
    }
    /* Number `at` of the group's tasks in one product: blocks that share weights follow another. */
    __device__ prs_moe_task number(uint32_t at) const
    {
        const uint32_t blocks = group_blocks();
        return {word | (uint64_t)(at / blocks) << PRS_GPU_MOE_TASK_TILE |
                (uint64_t)(at % blocks) << PRS_GPU_MOE_TASK_INDEX};
    }
    /* Number 0 of the same group in the second product. */
    __device__ prs_moe_task second() const
    {
        return {(word | PRS_GPU_MOE_TASK_SECOND) &
                ~(0xffull << PRS_GPU_MOE_TASK_TILE | 3ull << PRS_GPU_MOE_TASK_INDEX)};
    }
};

/* Number 0 of a group in the first product. */
PRS_DEVICE prs_moe_task prs_moe_group_task(uint32_t first_block, uint32_t expert, uint32_t rows)
{
    return {PRS_GPU_MOE_TASK_VALID | (uint64_t)(rows - 1) << PRS_GPU_MOE_TASK_ROWS |
            (uint64_t)expert << PRS_GPU_MOE_TASK_EXPERT |
            (uint64_t)first_block << PRS_GPU_MOE_TASK_BLOCK};
}

/* Of an expert with `rows` rows, the group that begins at its block `at`. */
PRS_DEVICE prs_moe_task prs_moe_expert_group(uint32_t first_block, uint32_t expert, uint32_t rows,
                                             uint32_t at)
{
    const uint32_t left = rows - at * PRS_GPU_MOE_BLOCK;
    const uint32_t most = PRS_GPU_MOE_GROUP * PRS_GPU_MOE_BLOCK;
    return prs_moe_group_task(first_block + at, expert, left < most ? left : most);
}

PRS_DEVICE uint32_t prs_moe_blocks(uint32_t rows)
{
    return (rows + PRS_GPU_MOE_BLOCK - 1) / PRS_GPU_MOE_BLOCK;
}

/* By one warp: the groups of an expert, each at its first block. */
PRS_DEVICE void prs_moe_lay_groups(uint64_t *groups, uint32_t first_block, uint32_t expert,
                                   uint32_t rows)
{
    for (uint32_t i = threadIdx.x & 31; i < prs_moe_blocks(rows); i += 32) {
        groups[first_block + i] = i % PRS_GPU_MOE_GROUP == 0
                                      ? prs_moe_expert_group(first_block, expert, rows, i).word
                                      : 0;
    }
}

/* All tasks of a group in one product, by lanes `lane`, `lane` + `lanes` ... of those that call it
 * with the same place `at` in the queue. Release, with the acquire of take, of what the caller did
 * or was synchronized with: what made them ready is there. */
PRS_DEVICE void prs_moe_queue_put(const prs_gpu_moe_queue &queue, uint32_t at, prs_moe_task group,
                                  uint32_t tiles, uint32_t lane, uint32_t lanes)
{
    const uint32_t n = tiles * group.group_blocks();
    prs_fence_gpu();
    for (uint32_t i = lane; i < n; i += lanes) {
        asm volatile("st.relaxed.gpu.u64 [%0], %1;"
                     :
                     : "l"(&queue.tasks[at + i]), "l"(group.number(i).word)
                     : "memory");
    }
}

PRS_DEVICE uint32_t prs_moe_queue_reserve(const prs_gpu_moe_queue &queue, prs_moe_task group,
                                          uint32_t tiles)
{
    return atomicAdd(queue.tail, tiles * group.group_blocks());
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
