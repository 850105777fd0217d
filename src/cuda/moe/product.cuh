/* SPDX-License-Identifier: Apache-2.0 */
/*
 * product.cuh: the processors. One thread of a CTA takes tasks and streams their operands through
 * shared memory; two warpgroups multiply, 64 rows each, and write what comes out; one warp tells
 * whoever waits for it, so that nobody who multiplies waits for memory to have been written.
 *
 * The first product has, in one output tile, half a tile of gate columns and the same of up
 * columns: a thread holds both for each of its elements, and writes activations.
 *
 *                      first product                    second product
 *     rows of a block  rows [rows, hidden]              activations [rows, intermediate]
 *     weights          gate, up [2 * intermediate,      down [hidden, intermediate] of each expert
 *                      hidden] of each expert
 *     goes to          activations                      target
 */
#ifndef PRS_CUDA_MOE_PRODUCT_CUH
#define PRS_CUDA_MOE_PRODUCT_CUH

#include "cuda/moe/maps.h"
#include "cuda/moe/pipeline.cuh"
#include "cuda/moe/queue.cuh"
#include "cuda/moe/store.cuh"

#define PRS_GPU_MOE_HALF       (PRS_GPU_MOE_BLOCK / 2) /* rows of a warpgroup */
#define PRS_GPU_MOE_TASKS      4   /* of a CTA, from being taken to being told of */
#define PRS_GPU_MOE_MATH_FIRST 128 /* the first thread that multiplies */
#define PRS_GPU_MOE_MATH_WARPS 8

/* N: columns of an output tile. Shared memory holds as many stages as fit. */
template <int N> struct prs_moe_stages {
    static constexpr uint32_t count = N == 256 ? 4 : 5;
    static constexpr uint32_t row_values = PRS_GPU_MOE_BLOCK * PRS_GPU_MOE_DEPTH;
    static constexpr uint32_t weight_values = N * PRS_GPU_MOE_DEPTH;

    __nv_bfloat16 rows[count][row_values];
    __nv_bfloat16 weights[count][weight_values];
    uint64_t filled[count], freed[count];
    uint64_t task[PRS_GPU_MOE_TASKS];
    uint64_t task_filled[PRS_GPU_MOE_TASKS]; /* taken: to be multiplied */
    uint64_t task_stored[PRS_GPU_MOE_TASKS]; /* written: to be told */
    uint64_t task_freed[PRS_GPU_MOE_TASKS];
};

template <int N> PRS_MEMBER void prs_moe_stages_init(prs_moe_stages<N> &stages)
{
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < stages.count; i++) {
            prs_mbarrier_init(&stages.filled[i], 1);
            prs_mbarrier_init(&stages.freed[i], PRS_GPU_MOE_MATH_WARPS);
        }
        for (uint32_t i = 0; i < PRS_GPU_MOE_TASKS; i++) {
            prs_mbarrier_init(&stages.task_filled[i], 1);
            prs_mbarrier_init(&stages.task_stored[i], PRS_GPU_MOE_MATH_WARPS);
            prs_mbarrier_init(&stages.task_freed[i], 1);
        }
        prs_mbarrier_publish();
    }
    __syncthreads();
}

/* ---- loading: one thread ---- */

/* Where a task's operands lie. */
struct prs_moe_operands {
    const CUtensorMap *rows, *weights;
    uint32_t row, upper_weight,
        lower_weight; /* the latter is the other half of the tile's columns */
    uint32_t steps;
    bool is_whole; /* more rows than one warpgroup takes */
};

template <int N>
PRS_MEMBER prs_moe_operands prs_moe_task_operands(const prs_gpu_moe_shape &shape,
                                                  const prs_moe_maps &maps, prs_moe_task task)
{
    prs_moe_operands of;
    of.row = task.block() * PRS_GPU_MOE_BLOCK;
    of.is_whole = task.rows() > PRS_GPU_MOE_HALF;
    if (task.is_second()) {
        of.rows = &maps.activations;
        of.weights = &maps.second;
        of.upper_weight = task.expert() * shape.hidden + task.tile() * N;
        of.lower_weight = of.upper_weight + N / 2;
        of.steps = (shape.intermediate + PRS_GPU_MOE_DEPTH - 1) / PRS_GPU_MOE_DEPTH;
        return of;
    }
    of.rows = &maps.rows;
    of.weights = &maps.first;
    of.steps = (shape.hidden + PRS_GPU_MOE_DEPTH - 1) / PRS_GPU_MOE_DEPTH;
    if (shape.is_swiglu != 0) {
        of.upper_weight = task.expert() * 2 * shape.intermediate + task.tile() * (N / 2);
        of.lower_weight = of.upper_weight + shape.intermediate;
    } else {
        of.upper_weight = task.expert() * shape.intermediate + task.tile() * N;
        of.lower_weight = of.upper_weight + N / 2;
    }
    return of;
}

/* Takes tasks until there are none, and hands each on before its operands. */
template <int N>
PRS_MEMBER void prs_moe_load(const prs_gpu_moe_products &products, const prs_moe_maps &maps,
                             prs_moe_stages<N> &stages)
{
    prs_stage stage, slot;
    for (;;) {
        const prs_moe_task task = prs_moe_queue_take(products.queue, products.watch);
        prs_mbarrier_wait(&stages.task_freed[slot.index], slot.parity ^ 1);
        stages.task[slot.index] = task.word;
        prs_mbarrier_arrive(&stages.task_filled[slot.index]);
        slot.advance(PRS_GPU_MOE_TASKS);
        if (task.word == 0) {
            return;
        }
        prs_fence_tensor_copies(); /* behind the acquire of take: rows were stored, not copied */
        const prs_moe_operands of = prs_moe_task_operands<N>(products.shape, maps, task);
        const uint32_t bytes =
            2 * (PRS_GPU_MOE_HALF * (of.is_whole ? 2 : 1) + N) * PRS_GPU_MOE_DEPTH;
        for (uint32_t step = 0; step < of.steps; step++) {
            const uint32_t column = step * PRS_GPU_MOE_DEPTH;
            uint64_t *filled = &stages.filled[stage.index];
            __nv_bfloat16 *rows = stages.rows[stage.index], *weights = stages.weights[stage.index];
            prs_mbarrier_wait(&stages.freed[stage.index], stage.parity ^ 1);
            prs_mbarrier_expect(filled, bytes);
            prs_tensor_load(weights, of.weights, filled, column, of.upper_weight);
            prs_tensor_load(weights + stages.weight_values / 2, of.weights, filled, column,
                            of.lower_weight);
            prs_tensor_load(rows, of.rows, filled, column, of.row);
            if (of.is_whole) {
                prs_tensor_load(rows + stages.row_values / 2, of.rows, filled, column,
                                of.row + PRS_GPU_MOE_HALF);
            }
            stage.advance(stages.count);
        }
    }
}

/* ---- multiplying: two warpgroups ---- */

/* Every warp arrives, with all that its lanes did: one that lagged a whole ring behind the others
 * would take a later phase of the same parity for its own. */
PRS_MEMBER void prs_moe_warp_arrive(uint64_t *barrier)
{
    __syncwarp();
    if ((threadIdx.x & 31) == 0) {
        prs_mbarrier_arrive(barrier);
    }
}

/* One output tile: sums of `steps` stages, each given back as soon as it has been read. */
template <int N>
PRS_MEMBER void prs_moe_multiply_tile(prs_moe_stages<N> &stages, prs_stage &stage, uint32_t steps,
                                      uint32_t half, float (&sums)[N / 2])
{
    uint64_t *before = nullptr;
    for (uint32_t step = 0; step < steps; step++) {
        prs_mbarrier_wait(&stages.filled[stage.index], stage.parity);
        const uint64_t rows =
            prs_wgmma_operand(stages.rows[stage.index] + half * (stages.row_values / 2));
        const uint64_t weights = prs_wgmma_operand(stages.weights[stage.index]);
        prs_wgmma_begin();
#pragma unroll
        for (uint32_t k = 0; k < PRS_GPU_MOE_DEPTH / 16; k++) {
            prs_wgmma<N>::multiply(sums, rows + 2 * k, weights + 2 * k, step != 0 || k != 0);
        }
        prs_wgmma_commit();
        prs_wgmma_wait<1>();
        if (before != nullptr) {
            prs_moe_warp_arrive(before);
        }
        before = &stages.freed[stage.index];
        stage.advance(stages.count);
    }
    prs_wgmma_wait<0>();
    prs_moe_warp_arrive(before);
}

/* The stages of a tile that has no rows for this warpgroup. */
template <int N>
PRS_MEMBER void prs_moe_skip_tile(prs_moe_stages<N> &stages, prs_stage &stage, uint32_t steps)
{
    for (uint32_t step = 0; step < steps; step++) {
        prs_mbarrier_wait(&stages.filled[stage.index], stage.parity);
        prs_moe_warp_arrive(&stages.freed[stage.index]);
        stage.advance(stages.count);
    }
}

/* The first of this thread's two rows within the block; the other is eight below. */
PRS_MEMBER uint32_t prs_moe_thread_row(uint32_t half)
{
    const uint32_t thread = threadIdx.x & 127;
    return half * PRS_GPU_MOE_HALF + thread / 32 * 16 + (thread & 31) / 4;
}

/* Sums of the first product become activations. */
template <int N>
PRS_MEMBER void prs_moe_store_first(const prs_gpu_moe_products &products, prs_moe_task task,
                                    uint32_t half, float (&sums)[N / 2])
{
    const prs_gpu_moe_shape &shape = products.shape;
    const uint32_t row = prs_moe_thread_row(half);
    __nv_bfloat16 *upper = (__nv_bfloat16 *)products.activations +
                           (uint64_t)(task.block() * PRS_GPU_MOE_BLOCK + row) * shape.intermediate;
    __nv_bfloat16 *lower =
        row + 8 < task.rows() ? upper + 8 * (uint64_t)shape.intermediate : nullptr;
    upper = row < task.rows() ? upper : nullptr;
    if (shape.is_swiglu != 0) {
        prs_store_rows<N / 64>(
            upper, lower, task.tile() * (N / 2), shape.intermediate, [&](int group, int i) {
                return prs_swiglu(sums[4 * group + i], sums[N / 4 + 4 * group + i]);
            });
    } else {
        prs_store_rows<N / 32>(upper, lower, task.tile() * N, shape.intermediate,
                               [&](int group, int i) { return prs_gelu(sums[4 * group + i]); });
    }
}

/* Sums of the second product become results, where target.row(task, row) says for a row of the
 * task's block. */
template <int N, class Target>
PRS_MEMBER void prs_moe_store_second(const prs_gpu_moe_products &products, const Target &target,
                                     prs_moe_task task, uint32_t half, float (&sums)[N / 2])
{
    const uint32_t row = prs_moe_thread_row(half);
    __nv_bfloat16 *upper = row < task.rows() ? target.row(task, row) : nullptr;
    __nv_bfloat16 *lower = row + 8 < task.rows() ? target.row(task, row + 8) : nullptr;
    prs_store_rows<N / 32>(upper, lower, task.tile() * N, products.shape.hidden,
                           [&](int group, int i) { return sums[4 * group + i]; });
}

/* Tasks that nobody records. */
struct prs_moe_no_record {
    __device__ void begin() const
    {
    }
    __device__ void end(prs_moe_task) const
    {
    }
};

template <int N, class Target, class Record>
PRS_MEMBER void prs_moe_multiply(const prs_gpu_moe_products &products, const Target &target,
                                 prs_moe_stages<N> &stages, const Record &record)
{
    const uint32_t half = (threadIdx.x - PRS_GPU_MOE_MATH_FIRST) / 128;
    const prs_gpu_moe_shape &shape = products.shape;
    prs_stage stage, slot;
    for (;;) {
        prs_mbarrier_wait(&stages.task_filled[slot.index], slot.parity);
        const prs_moe_task task = {stages.task[slot.index]};
        uint64_t *stored = &stages.task_stored[slot.index];
        slot.advance(PRS_GPU_MOE_TASKS);
        if (task.word == 0) {
            prs_moe_warp_arrive(stored);
            return;
        }
        record.begin();
        const uint32_t columns = task.is_second() ? shape.intermediate : shape.hidden;
        const uint32_t steps = (columns + PRS_GPU_MOE_DEPTH - 1) / PRS_GPU_MOE_DEPTH;
        if (task.rows() <= half * PRS_GPU_MOE_HALF) {
            prs_moe_skip_tile<N>(stages, stage, steps);
            prs_moe_warp_arrive(stored);
            continue;
        }
        float sums[N / 2];
        prs_moe_multiply_tile<N>(stages, stage, steps, half, sums);
        if (task.is_second()) {
            prs_moe_store_second<N>(products, target, task, half, sums);
        } else {
            prs_moe_store_first<N>(products, task, half, sums);
        }
        record.end(task);
        prs_moe_warp_arrive(stored);
    }
}

/* ---- telling: one warp ---- */

/* A tile more of the block is there. Whether it was the last; release and acquire: the last one has
 * what all of them stored, at peers too. */
PRS_MEMBER bool prs_moe_count_tile(uint32_t *done, uint32_t tiles)
{
    uint32_t is_last = 0;
    if ((threadIdx.x & 31) == 0) {
        prs_fence_sys();
        is_last = prs_add_acq_rel_gpu(done, 1) + 1 == tiles;
    }
    return __shfl_sync(~0u, is_last, 0) != 0;
}

/* The last tile of a group's first product makes the second product's tasks ready; behind the last
 * one of a block's second, target.answer(task), by the whole warp, tells of its rows. */
template <int N, class Target>
PRS_MEMBER void prs_moe_tell_tiles(const prs_gpu_moe_products &products, const Target &target,
                                   prs_moe_stages<N> &stages)
{
    const prs_gpu_moe_shape &shape = products.shape;
    const uint32_t lane = threadIdx.x & 31;
    prs_stage slot;
    for (;;) {
        prs_mbarrier_wait(&stages.task_stored[slot.index], slot.parity);
        /* By the lane that gives the slot back. */
        const uint64_t word = lane == 0 ? stages.task[slot.index] : 0;
        const prs_moe_task task = {__shfl_sync(~0u, word, 0)};
        if (task.word == 0) {
            return;
        }
        if (!task.is_second()) {
            const uint32_t tiles = shape.first_tiles * task.group_blocks();
            if (prs_moe_count_tile(&products.first_done[task.group()], tiles)) {
                const prs_moe_task next = task.second();
                uint32_t at = 0;
                if (lane == 0) {
                    prs_fence_tensor_copies(); /* activations were stored, and are copied next */
                    at = prs_moe_queue_reserve(products.queue, next, shape.second_tiles);
                }
                at = __shfl_sync(~0u, at, 0);
                prs_moe_queue_put(products.queue, at, next, shape.second_tiles, lane, 32);
            }
        } else if (Target::answers &&
                   prs_moe_count_tile(&products.second_done[task.block()], shape.second_tiles)) {
            __syncwarp(); /* all lanes behind the count's acquire */
            target.answer(task);
        }
        prs_moe_warp_arrive(&stages.task_freed[slot.index]);
        slot.advance(PRS_GPU_MOE_TASKS);
    }
}

#endif
