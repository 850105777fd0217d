/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer.cu: the megakernel, one launch of one PE from routed tokens to their outputs. All threads
 * count, sort and send the first rows together; then each has a role:
 *
 *     warp 0       loads operands (one thread)
 *     warp 1       tells of tiles that are done
 *     warp 2       sends the other rows, then adds answers up
 *     warp 3       is the subscriber in CTA 0, then adds answers up
 *     the others   multiply, then add answers up
 */
#include "cuda/moe/layer/begin.cuh"
#include "cuda/moe/layer/combine.cuh"
#include "cuda/moe/layer/copies.cuh"
#include "cuda/moe/layer/kernels.h"
#include "cuda/moe/layer/lane.cuh"
#include "cuda/moe/launch.cuh"

namespace
{

#define WARPS (PRS_GPU_MOE_THREADS / 32)
/* Rows that all warps send, while there is nothing to multiply. */
#define FIRST_BYTES (4u << 20)

template <int N> struct shared_state {
    prs_moe_stages<N> stages;
    alignas(128) prs_moe_copies copies;
};

/* Rows that all warps send, those left to warp 2 begin behind them. */
__device__ uint32_t first_items(const prs_moe_half &half, const prs_moe_segments &segments)
{
    const uint32_t all = segments.longest * half.layer.n_pes;
    const uint32_t some = FIRST_BYTES / (2 * half.layer.products.shape.hidden);
    return all < some ? all : some;
}

/* Warps 2 and 3. */
__device__ void help(const prs_moe_half &half, const perseus_moe_cuda_input &input,
                     prs_moe_cta &cta, prs_moe_copies &copies)
{
    if (threadIdx.x / 32 == 2) {
        prs_moe_send_rest(half, input, cta.segments, copies, first_items(half, cta.segments),
                          cta.segments.longest * half.layer.n_pes);
    } else if (blockIdx.x == 0) {
        prs_moe_subscribe(cta.products, half.layer.groups, cta.blocks,
                          prs_moe_near_rows{half.mine<uint32_t>(half.layer.layout.arrived)});
    }
    prs_moe_combine(half, input);
}

template <int N>
__global__ void __launch_bounds__(PRS_GPU_MOE_THREADS, 1)
    run(const __grid_constant__ prs_gpu_moe_layer layer, const __grid_constant__ prs_moe_maps even,
        const __grid_constant__ prs_moe_maps odd,
        const __grid_constant__ perseus_moe_cuda_input input)
{
    __shared__ prs_moe_cta cta;
    __shared__ prs_moe_lane lane;
    shared_state<N> &shared = prs_moe_shared<shared_state<N>>();
    prs_moe_stages<N> &stages = shared.stages;
    const uint32_t forward = *(volatile uint32_t *)layer.forward;
    const prs_moe_half half(layer, forward);
    const prs_moe_sender_target target = {half};
    if (threadIdx.x == 0) {
        cta.products = half.products();
    }
    lane.open(layer.lanes);
    prs_moe_zero_other_half(layer, forward);
    prs_moe_route(half, input, *(prs_moe_routing *)stages.rows, cta);
    prs_fence_shared_copies(); /* the stages were scratch until here */
    prs_moe_copies_init(shared.copies);
    prs_moe_stages_init<N>(stages);
    lane.end(PRS_GPU_MOE_SPAN_ROUTE, 0);
    if (cta.goes_on != 0) {
        prs_moe_send_first(half, input, cta.segments, first_items(half, cta.segments),
                           blockIdx.x * WARPS + threadIdx.x / 32, layer.ctas * WARPS);
    }
    if (threadIdx.x < PRS_GPU_MOE_MATH_FIRST) {
        prs_registers_fewer<56>();
        if (threadIdx.x == 0) {
            prs_moe_load<N>(cta.products, forward % 2 == 0 ? even : odd, stages);
        } else if (threadIdx.x / 32 == 1) {
            prs_moe_tell_tiles<N>(cta.products, target, stages);
        } else if (threadIdx.x >= 64 && cta.goes_on != 0) {
            help(half, input, cta, shared.copies);
        }
    } else {
        prs_registers_more<224>();
        lane.end(PRS_GPU_MOE_SPAN_SEND, 0);
        prs_moe_multiply<N>(cta.products, target, stages, prs_moe_lane_tasks{lane});
        lane.begin();
        prs_moe_combine(half, input);
        lane.end(PRS_GPU_MOE_SPAN_COMBINE, 0);
    }
    prs_moe_leave(layer, forward);
}

template <int N>
cudaError_t launch(const prs_gpu_moe_layer &layer, const prs_moe_maps *maps,
                   const perseus_moe_cuda_input &input, cudaStream_t stream)
{
    static_assert(sizeof(prs_moe_routing) <= sizeof(prs_moe_stages<N>::rows), "scratch in stages");
    const uint32_t bytes = prs_moe_shared_bytes<shared_state<N>>();
    cudaError_t error =
        cudaFuncSetAttribute(run<N>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error != cudaSuccess) {
        return error;
    }
    run<N><<<layer.ctas, PRS_GPU_MOE_THREADS, bytes, stream>>>(layer, maps[0], maps[1], input);
    return cudaGetLastError();
}

} // namespace

int prs_gpu_moe_launch_layer(uint32_t columns, const struct prs_gpu_moe_layer *layer,
                             const struct prs_moe_maps *maps,
                             const struct perseus_moe_cuda_input *input, void *stream)
{
    return columns == 256 ? launch<256>(*layer, maps, *input, (cudaStream_t)stream)
                          : launch<192>(*layer, maps, *input, (cudaStream_t)stream);
}
