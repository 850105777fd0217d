/* SPDX-License-Identifier: Apache-2.0 */
/* launch.cuh: what every kernel of processors needs at its start. */
#ifndef PRS_CUDA_MOE_LAUNCH_CUH
#define PRS_CUDA_MOE_LAUNCH_CUH

#include "cuda/moe/product.cuh"

/* The swizzle of tensor copies repeats every 1024 bytes. */
#define PRS_GPU_MOE_SHARED_ALIGNMENT 1024

template <int N> constexpr uint32_t prs_moe_shared_bytes()
{
    return (uint32_t)sizeof(prs_moe_stages<N>) + PRS_GPU_MOE_SHARED_ALIGNMENT;
}

template <int N> PRS_MEMBER prs_moe_stages<N> &prs_moe_shared_stages()
{
    extern __shared__ unsigned char shared[];
    const uint32_t over = prs_shared_address(shared) % PRS_GPU_MOE_SHARED_ALIGNMENT;
    return *(prs_moe_stages<N> *)(shared + (over == 0 ? 0 : PRS_GPU_MOE_SHARED_ALIGNMENT - over));
}

/* Registers move from the warpgroup that loads to those that multiply. */
template <int count> PRS_MEMBER void prs_registers_fewer()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(count));
}

template <int count> PRS_MEMBER void prs_registers_more()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(count));
}

#endif
