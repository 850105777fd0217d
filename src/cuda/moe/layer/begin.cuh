/* SPDX-License-Identifier: Apache-2.0 */
/* begin.cuh: how a forward begins on all threads of a PE, and how it ends. */
#ifndef PRS_CUDA_MOE_BEGIN_CUH
#define PRS_CUDA_MOE_BEGIN_CUH

#include "cuda/moe/layer/dispatch.cuh"

/* Of one CTA, in shared memory. */
struct prs_moe_cta {
    prs_gpu_moe_products products; /* of this half */
    prs_moe_segments segments;
    uint32_t blocks; /* of this PE; known in CTA 0 */
    uint32_t goes_on;
};

/* Counters of the half that the next forward uses. */
PRS_MEMBER void prs_moe_zero_other_half(const prs_gpu_moe_layer &layer, uint32_t forward)
{
    const prs_moe_half other(layer, forward + 1);
    uint4 *begin = other.mine<uint4>(layer.layout.counters);
    const uint64_t n = (layer.layout.half_bytes - layer.layout.counters) / sizeof(uint4);
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        begin[i] = make_uint4(0, 0, 0, 0);
    }
}

/* All threads of the PE: on return this CTA knows where every row goes. */
PRS_MEMBER void prs_moe_route(const prs_moe_half &half, const perseus_moe_cuda_input &input,
                              prs_moe_routing &routing, prs_moe_cta &cta)
{
    const prs_gpu_moe_layer &layer = half.layer;
    const prs_moe_share share(input.tokens * layer.top_k, layer.ctas, blockIdx.x);
    prs_moe_count(half, input, share, routing);
    if (prs_moe_arrive(half.word(PRS_GPU_MOE_WORD_COUNTED), layer.ctas, &routing.is_last)) {
        prs_moe_tell(half);
    }
    prs_moe_await_counts(half);
    prs_moe_locate(half, routing);
    prs_moe_sort(half, input, share, routing);
    prs_moe_find_segments(half, routing, input.tokens, cta.segments);
    prs_moe_arrive(half.word(PRS_GPU_MOE_WORD_SORTED), layer.ctas, &routing.is_last);
    if (blockIdx.x == 0) {
        const uint32_t blocks = prs_moe_lay_blocks(half, routing, input.tokens);
        if (threadIdx.x == 0) {
            cta.blocks = blocks;
        }
    }
    if (threadIdx.x == 0) {
        cta.goes_on = prs_moe_await_ctas(half, PRS_GPU_MOE_WORD_SORTED);
    }
    __syncthreads();
}

/* The last CTA to leave makes the next launch the next forward. */
PRS_MEMBER void prs_moe_leave(const prs_gpu_moe_layer &layer, uint32_t forward)
{
    __syncthreads();
    if (threadIdx.x == 0 && prs_add_acq_rel_gpu(&layer.forward[1], 1) + 1 == layer.ctas) {
        layer.forward[1] = 0;
        layer.forward[0] = forward + 1;
    }
}

#endif
