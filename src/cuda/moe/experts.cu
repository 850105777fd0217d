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

    __device__ __nv_bfloat16 *row(prs_moe_task task, uint32_t row) const
    {
        return results + (uint64_t)(task.block() * PRS_GPU_MOE_BLOCK + row) * hidden;
    }
    __device__ void answer(prs_moe_task) const
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
        const uint32_t begin = first_block[expert], blocks = first_block[expert + 1] - begin;
        for (uint32_t i = 0; i < blocks; i += PRS_GPU_MOE_GROUP) {
            prs_moe_queue_put(products.queue, (begin + i) * shape.first_tiles,
                              prs_moe_expert_group(begin, expert, rows[expert], i),
                              shape.first_tiles, 0, 1);
        }
    }
}

template <int N>
__global__ void __launch_bounds__(PRS_GPU_MOE_THREADS, 1)
    run(const __grid_constant__ prs_gpu_moe_products products,
        const __grid_constant__ prs_moe_maps maps, __nv_bfloat16 *results)
{
    prs_moe_stages<N> &stages = prs_moe_shared<prs_moe_stages<N>>();
    const row_target target = {results, products.shape.hidden};
    prs_moe_stages_init<N>(stages);
    if (threadIdx.x < PRS_GPU_MOE_MATH_FIRST) {
        prs_registers_fewer<40>();
        if (threadIdx.x == 0) {
            prs_moe_load<N>(products, maps, stages);
        } else if (threadIdx.x / 32 == 1) {
            prs_moe_tell_tiles<N>(products, target, stages);
        }
    } else {
        prs_registers_more<232>();
        prs_moe_multiply<N>(products, target, stages, prs_moe_no_record());
    }
}

template <int N>
cudaError_t launch(uint32_t ctas, const prs_gpu_moe_products &products, const prs_moe_maps &maps,
                   void *results, cudaStream_t stream)
{
    const uint32_t bytes = prs_moe_shared_bytes<prs_moe_stages<N>>();
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
