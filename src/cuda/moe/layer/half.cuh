/* SPDX-License-Identifier: Apache-2.0 */
/* half.cuh: the half of the heaps that a forward uses, as addresses. */
#ifndef PRS_CUDA_MOE_HALF_CUH
#define PRS_CUDA_MOE_HALF_CUH

#include <cuda_bf16.h>

#include "cuda/moe/layer/forward.h"
#include "cuda/moe/watch.cuh"
#include "cuda/moe/wgmma.cuh"

struct prs_moe_half {
    const prs_gpu_moe_layer &layer;
    uint32_t number; /* of the forward */
    uint64_t begin;  /* within a heap */

    __device__ prs_moe_half(const prs_gpu_moe_layer &of, uint32_t forward)
        : layer(of), number(forward), begin(of.layout.halves[forward % PRS_GPU_MOE_HALVES])
    {
    }
    template <class T> __device__ T *at(uint32_t pe, uint64_t offset) const
    {
        return (T *)(layer.heaps[pe] + begin + offset);
    }
    template <class T> __device__ T *mine(uint64_t offset) const
    {
        return at<T>(layer.me, offset);
    }
    __device__ uint32_t *word(prs_gpu_moe_word which) const
    {
        return mine<uint32_t>(layer.layout.words) + which;
    }
    __device__ __nv_bfloat16 *row(uint32_t pe, uint64_t offset, uint32_t row) const
    {
        return at<__nv_bfloat16>(pe, offset) + (uint64_t)row * layer.products.shape.hidden;
    }
    /* The products' view of this half. */
    __device__ prs_gpu_moe_products products() const
    {
        prs_gpu_moe_products of = layer.products;
        of.queue = {mine<uint64_t>(layer.layout.tasks), word(PRS_GPU_MOE_WORD_HEAD),
                    word(PRS_GPU_MOE_WORD_TAIL), word(PRS_GPU_MOE_WORD_TOTAL)};
        of.first_done = mine<uint32_t>(layer.layout.first_done);
        of.second_done = mine<uint32_t>(layer.layout.second_done);
        return of;
    }
};

/* One more, behind all that this thread wrote, or was synchronized with. */
PRS_MEMBER void prs_add_release_sys_one(uint32_t *at)
{
    asm volatile("red.release.sys.global.add.u32 [%0], 1;" : : "l"(at) : "memory");
}

PRS_MEMBER void prs_add_relaxed_sys_one(uint32_t *at)
{
    asm volatile("red.relaxed.sys.global.add.u32 [%0], 1;" : : "l"(at) : "memory");
}

/* Experts are split as on the CPU (moe/plan.h). */
PRS_MEMBER uint32_t prs_moe_first_of(const prs_gpu_moe_layer &layer, uint32_t pe)
{
    const uint32_t each = layer.experts / layer.n_pes, more = layer.experts % layer.n_pes;
    return pe * each + (pe < more ? pe : more);
}

PRS_MEMBER uint32_t prs_moe_host_of(const prs_gpu_moe_layer &layer, uint32_t expert)
{
    const uint32_t each = layer.experts / layer.n_pes, more = layer.experts % layer.n_pes;
    const uint32_t in_bigger = more * (each + 1);
    return expert < in_bigger ? expert / (each + 1) : more + (expert - in_bigger) / each;
}

/* Routed experts of this PE. */
PRS_MEMBER uint32_t prs_moe_routed(const prs_gpu_moe_layer &layer)
{
    return layer.products.shape.hosted - layer.shared;
}

/* The expert of a choice, or -1. */
PRS_MEMBER int64_t prs_moe_id(const perseus_moe_cuda_input &input, uint32_t choice)
{
    return input.id_bytes == 8 ? ((const int64_t *)input.ids)[choice]
                               : ((const int32_t *)input.ids)[choice];
}

#endif
