/* SPDX-License-Identifier: Apache-2.0 */
/*
 * split.cu: the two halves of a forward around experts that are somebody else's: dispatch ends when
 * all rows of this PE's experts lie in the caller's memory, combine takes what became of them.
 */
#include "cuda/moe/layer/begin.cuh"
#include "cuda/moe/layer/combine.cuh"
#include "cuda/moe/layer/kernels.h"

namespace
{

#define WARPS      (PRS_GPU_MOE_THREADS / 32)
#define SLICE_ROWS 16 /* of a block, by one warp */
#define SLICES     (PRS_GPU_MOE_BLOCK / SLICE_ROWS)

/* One thread: the blocks of this PE's experts, once they are laid. */
__device__ uint32_t await_blocks(const prs_moe_half &half)
{
    const prs_gpu_moe_shape &shape = half.layer.products.shape;
    const uint32_t *total = half.word(PRS_GPU_MOE_WORD_TOTAL);
    prs_moe_patience patience(half.layer.products.watch);
    uint32_t seen = prs_load_acquire_sys(total);
    while (seen == 0 && patience.lasts(PRS_GPU_MOE_WAIT_TASK, -1, 0, 0, 1)) {
        seen = prs_load_acquire_sys(total);
    }
    return seen == 0 ? 0 : (seen - 1) / (shape.first_tiles + shape.second_tiles);
}

__device__ uint32_t rows_of_block(const prs_gpu_moe_layer &layer, uint32_t block)
{
    uint32_t index = 0;
    while (layer.groups[block - index] == 0) {
        index++;
    }
    return prs_moe_task{layer.groups[block - index]}.rows_of(index);
}

/* One lane, until all rows of a block are there. */
__device__ bool await_block(const prs_moe_half &half, uint32_t block, uint32_t rows)
{
    const uint32_t *arrived = half.mine<uint32_t>(half.layer.layout.arrived) + block;
    prs_moe_patience patience(half.layer.products.watch);
    uint32_t seen = prs_load_acquire_sys(arrived);
    while (seen != rows) {
        if (!patience.lasts(PRS_GPU_MOE_WAIT_ROWS, -1, block, seen, rows)) {
            return false;
        }
        seen = prs_load_acquire_sys(arrived);
    }
    return true;
}

__device__ void copy_row(__nv_bfloat16 *to, const __nv_bfloat16 *from, uint32_t hidden)
{
#pragma unroll 4
    for (uint32_t i = threadIdx.x & 31; i < hidden / 8; i += 32) {
        ((uint4 *)to)[i] = __ldcg((const uint4 *)from + i);
    }
}

/* handle(block, first, end): rows [first, end) of each block, by a warp. */
template <class Handle>
__device__ void for_slices(const prs_gpu_moe_layer &layer, uint32_t blocks, Handle handle)
{
    const uint32_t worker = blockIdx.x * WARPS + threadIdx.x / 32;
    for (uint32_t slice = worker; slice < blocks * SLICES; slice += layer.ctas * WARPS) {
        const uint32_t block = slice / SLICES, first = slice % SLICES * SLICE_ROWS;
        const uint32_t rows = rows_of_block(layer, block);
        if (first < rows &&
            !handle(block, rows, first, first + SLICE_ROWS < rows ? first + SLICE_ROWS : rows)) {
            return;
        }
    }
}

__global__ void __launch_bounds__(PRS_GPU_MOE_THREADS, 1)
    dispatch(const __grid_constant__ prs_gpu_moe_layer layer,
             const __grid_constant__ perseus_moe_cuda_input input, __nv_bfloat16 *rows,
             uint32_t *counts)
{
    __shared__ prs_moe_cta cta;
    __shared__ prs_moe_routing routing;
    const prs_moe_half half(layer, *(volatile uint32_t *)layer.forward);
    const uint32_t hidden = layer.products.shape.hidden;
    prs_moe_zero_other_half(layer, half.number);
    prs_moe_route(half, input, routing, cta);
    if (cta.goes_on == 0) {
        return;
    }
    if (blockIdx.x == 0) {
        const uint32_t first = prs_moe_first_of(layer, layer.me);
        for (uint32_t i = threadIdx.x; i < layer.products.shape.hosted; i += blockDim.x) {
            counts[i] = i < prs_moe_routed(layer) ? routing.count[first + i] : input.tokens;
        }
    }
    prs_moe_send_first(half, input, cta.segments, cta.segments.longest * layer.n_pes,
                       blockIdx.x * WARPS + threadIdx.x / 32, layer.ctas * WARPS);
    __syncthreads();
    if (threadIdx.x == 0) {
        cta.blocks = await_blocks(half);
    }
    __syncthreads();
    for_slices(layer, cta.blocks, [&](uint32_t block, uint32_t all, uint32_t first, uint32_t end) {
        bool is_there = true;
        if ((threadIdx.x & 31) == 0) {
            is_there = await_block(half, block, all);
        }
        is_there = __shfl_sync(~0u, is_there, 0);
        for (uint32_t i = first; i < end && is_there; i++) {
            const uint32_t row = block * PRS_GPU_MOE_BLOCK + i;
            copy_row(rows + (uint64_t)row * hidden, half.row(layer.me, layer.layout.rows, row),
                     hidden);
        }
        return is_there;
    });
}

__global__ void __launch_bounds__(PRS_GPU_MOE_THREADS, 1)
    combine(const __grid_constant__ prs_gpu_moe_layer layer,
            const __grid_constant__ perseus_moe_cuda_input input, const __nv_bfloat16 *rows)
{
    __shared__ uint32_t blocks;
    const prs_moe_half half(layer, *(volatile uint32_t *)layer.forward);
    const prs_moe_sender_target target = {half};
    const uint32_t hidden = layer.products.shape.hidden;
    if (threadIdx.x == 0) {
        blocks = await_blocks(half);
    }
    __syncthreads();
    for_slices(layer, blocks, [&](uint32_t block, uint32_t, uint32_t first, uint32_t end) {
        for (uint32_t i = first; i < end; i++) {
            const uint32_t row = block * PRS_GPU_MOE_BLOCK + i;
            copy_row(target.row(row), rows + (uint64_t)row * hidden, hidden);
        }
        __syncwarp();
        if (first + (threadIdx.x & 31) < end) {
            target.answer(block * PRS_GPU_MOE_BLOCK + first + (threadIdx.x & 31));
        }
        return true;
    });
    prs_moe_combine(half, input);
    prs_moe_leave(layer, half.number);
}

} // namespace

int prs_gpu_moe_launch_dispatch(const struct prs_gpu_moe_layer *layer,
                                const struct perseus_moe_cuda_input *input, void *rows,
                                uint32_t *counts, void *stream)
{
    dispatch<<<layer->ctas, PRS_GPU_MOE_THREADS, 0, (cudaStream_t)stream>>>(
        *layer, *input, (__nv_bfloat16 *)rows, counts);
    return cudaGetLastError();
}

int prs_gpu_moe_launch_combine(const struct prs_gpu_moe_layer *layer,
                               const struct perseus_moe_cuda_input *input, const void *rows,
                               void *stream)
{
    combine<<<layer->ctas, PRS_GPU_MOE_THREADS, 0, (cudaStream_t)stream>>>(
        *layer, *input, (const __nv_bfloat16 *)rows);
    return cudaGetLastError();
}
