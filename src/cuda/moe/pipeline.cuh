/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipeline.cuh: how shared memory changes hands inside a CTA: mbarriers, the tensor copies (TMA)
 * that complete on them, and barriers of one warpgroup.
 */
#ifndef PRS_CUDA_MOE_PIPELINE_CUH
#define PRS_CUDA_MOE_PIPELINE_CUH

#include <cuda.h>

#include "cuda/moe/wgmma.cuh"

PRS_MEMBER uint32_t prs_shared_address(const void *shared)
{
    return (uint32_t)__cvta_generic_to_shared(shared);
}

PRS_MEMBER void prs_mbarrier_init(uint64_t *barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 :
                 : "r"(prs_shared_address(barrier)), "r"(arrivals)
                 : "memory");
}

/* Makes initialized barriers known to the tensor copies, before the CTA's own barrier. */
PRS_MEMBER void prs_mbarrier_publish()
{
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
}

PRS_MEMBER void prs_mbarrier_arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
                 :
                 : "r"(prs_shared_address(barrier))
                 : "memory");
}

/* Arrives, and `bytes` of copies are to come before the phase ends. */
PRS_MEMBER void prs_mbarrier_expect(uint64_t *barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"(prs_shared_address(barrier)), "r"(bytes)
                 : "memory");
}

/* Until the phase of this parity is over. No deadline: it only depends on copies and on threads of
 * this CTA, whose own waits have one. */
PRS_MEMBER void prs_mbarrier_wait(uint64_t *barrier, uint32_t parity)
{
    uint32_t done = 0;
    while (done == 0) {
        asm volatile("{\n\t.reg .pred p;\n\t"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                     "selp.u32 %0, 1, 0, p;\n\t}"
                     : "=r"(done)
                     : "r"(prs_shared_address(barrier)), "r"(parity)
                     : "memory");
    }
}

/* A position in a ring of stages, with the parity of its round. */
struct prs_stage {
    uint32_t index = 0, parity = 0;
    __device__ __forceinline__ void advance(uint32_t stages)
    {
        index++;
        if (index == stages) {
            index = 0;
            parity ^= 1;
        }
    }
};

/* The box of `map` at (column, row) to shared memory; its bytes count on the barrier. */
PRS_MEMBER void prs_tensor_load(void *shared, const CUtensorMap *map, uint64_t *barrier,
                                uint32_t column, uint32_t row)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];"
                 :
                 : "r"(prs_shared_address(shared)), "l"(map), "r"(prs_shared_address(barrier)),
                   "r"(column), "r"(row)
                 : "memory");
}

PRS_MEMBER void prs_tensor_prefetch_map(const CUtensorMap *map)
{
    asm volatile("prefetch.tensormap [%0];" : : "l"(map) : "memory");
}

/* Between ordinary accesses to global memory and those of tensor copies, in both directions: by the
 * writer before its release, by the reader behind its acquire. */
PRS_MEMBER void prs_fence_tensor_copies()
{
    asm volatile("fence.proxy.async.global;" : : : "memory");
}

/* Between a thread's ordinary accesses to shared memory and tensor copies into it; the CTA's
 * barrier follows. */
PRS_MEMBER void prs_fence_shared_copies()
{
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
}

/* All 128 threads of a warpgroup. 0 is the whole CTA's own barrier. */
PRS_MEMBER void prs_warpgroup_barrier(uint32_t warpgroup)
{
    asm volatile("bar.sync %0, 128;" : : "r"(warpgroup + 1) : "memory");
}

#endif
