/* SPDX-License-Identifier: Apache-2.0 */
/* experts.cu: both products of rows that lie sorted by expert, in one launch. */
#include "cuda/moe/kernels.h"
#include "cuda/moe/launch.cuh"
#include "cuda/moe/product.cuh"

namespace
{

/* Results by rows. */
struct row_target {
    static constexpr bool answers = false;
    __nv_bfloat16 *results;
    uint32_t hidden;

    __device__ __nv_bfloat16 *row(uint32_t row) const
    {
        return results + (uint64_t)row * hidden;
    }
    __device__ void answer(uint32_t) const
    {
    }
};

/* Every block of the first product is ready; in order of experts. One CTA, a thread an expert. */
__global__ void fill_queue(prs_gpu_moe_products products, const uint32_t *rows)
{
    extern __shared__ uint32_t first_block[]; /* [hosted + 1] */
    const prs_gpu_moe_shape &shape = products.shape;
    if (threadIdx.x == 0) {
        uint32_t blocks = 0;
        for (uint32_t expert = 0; expert < shape.hosted; expert++) {
            first_block[expert] = blocks;
            blocks += (rows[expert] + PRS_GPU_MOE_BLOCK - 1) / PRS_GPU_MOE_BLOCK;
        }
        first_block[shape.hosted] = blocks;
        *products.queue.tail = blocks * shape.first_tiles;
        *products.queue.total = blocks * (shape.first_tiles + shape.second_tiles) + 1;
    }
    __syncthreads();
    for (uint32_t expert = threadIdx.x; expert < shape.hosted; expert += blockDim.x) {
        const uint32_t blocks = first_block[expert + 1] - first_block[expert];
        uint64_t *tasks = products.queue.tasks + first_block[expert] * shape.first_tiles;
        for (uint32_t i = 0; i < blocks * shape.first_tiles; i++) {
            /* Blocks first: those that run together share their weights. */
            const uint32_t block = i % blocks, tile = i / blocks;
            const uint32_t left = rows[expert] - block * PRS_GPU_MOE_BLOCK;
            tasks[i] = prs_moe_block_task(first_block[expert] + block, expert,
                                          left < PRS_GPU_MOE_BLOCK ? left : PRS_GPU_MOE_BLOCK)
                           .word |
                       (uint64_t)tile << PRS_GPU_MOE_TASK_TILE;
        }
    }
}

template <int N>
__global__ void __launch_bounds__(PRS_GPU_MOE_THREADS, 1)
    run(const __grid_constant__ prs_gpu_moe_products products,
        const __grid_constant__ prs_moe_maps maps, __nv_bfloat16 *results)
{
    prs_moe_stages<N> &stages = prs_moe_shared_stages<N>();
    prs_moe_stages_init<N>(stages);
    if (threadIdx.x < PRS_GPU_MOE_MATH_FIRST) {
        prs_registers_fewer<40>();
        if (threadIdx.x == 0) {
            prs_moe_load<N>(products, maps, stages);
        }
    } else {
        prs_registers_more<232>();
        prs_moe_multiply<N>(products, row_target{results, products.shape.hidden}, stages);
    }
}

template <int N>
cudaError_t launch(uint32_t ctas, const prs_gpu_moe_products &products, const prs_moe_maps &maps,
                   void *results, cudaStream_t stream)
{
    const uint32_t bytes = prs_moe_shared_bytes<N>();
    cudaError_t error =
        cudaFuncSetAttribute(run<N>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error != cudaSuccess) {
        return error;
    }
    run<N><<<ctas, PRS_GPU_MOE_THREADS, bytes, stream>>>(products, maps, (__nv_bfloat16 *)results);
    return cudaGetLastError();
}

} // namespace

int prs_gpu_moe_launch_experts(uint32_t columns, uint32_t ctas,
                               const struct prs_gpu_moe_products *products,
                               const struct prs_moe_maps *maps, void *results,
                               const uint32_t *counts, void *stream)
{
    const uint32_t hosted = products->shape.hosted;
    fill_queue<<<1, 1024, (hosted + 1) * sizeof(uint32_t), (cudaStream_t)stream>>>(*products,
                                                                                   counts);
    cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) {
        return error;
    }
    return columns == 256 ? launch<256>(ctas, *products, *maps, results, (cudaStream_t)stream)
                          : launch<192>(ctas, *products, *maps, results, (cudaStream_t)stream);
}
