/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.cu: dispatch and combine by put-with-signal, a launch each. */
#include "cuda/moe/far/combine.cuh"
#include "cuda/moe/far/dispatch.cuh"
#include "cuda/moe/far/launch.h"

namespace
{

#define THREADS 256

__device__ prs_moe_crew crew()
{
    return {blockIdx.x, gridDim.x, threadIdx.x, blockDim.x};
}

__global__ void __launch_bounds__(THREADS)
    dispatch(const __grid_constant__ prs_moe_far far,
             const __grid_constant__ perseus_moe_cuda_input input, uint64_t number,
             uint32_t *counts)
{
    __shared__ prs_moe_far_scratch scratch;
    if (far.is_idle != 0) {
        return;
    }
    prs_moe_far_dispatch(far, input, number, counts, scratch, crew());
}

__global__ void __launch_bounds__(THREADS)
    combine(const __grid_constant__ prs_moe_far far,
            const __grid_constant__ perseus_moe_cuda_input input, uint64_t number, uint64_t results)
{
    if (far.is_idle == 0) {
        prs_moe_far_combine(far, input, number, results, crew());
    }
}

} // namespace

int prs_moe_far_launch_dispatch(const prs_moe_far &far, const perseus_moe_cuda_input &input,
                                uint64_t number, uint32_t *counts, uint32_t ctas, void *stream)
{
    dispatch<<<ctas, THREADS, 0, (cudaStream_t)stream>>>(far, input, number, counts);
    return cudaGetLastError();
}

int prs_moe_far_launch_combine(const prs_moe_far &far, const perseus_moe_cuda_input &input,
                               uint64_t number, uint64_t results, uint32_t ctas, void *stream)
{
    combine<<<ctas, THREADS, 0, (cudaStream_t)stream>>>(far, input, number, results);
    return cudaGetLastError();
}
