/* SPDX-License-Identifier: Apache-2.0 */
/* launch.cuh: what every kernel of processors needs at its start. */
#ifndef PRS_CUDA_MOE_LAUNCH_CUH
#define PRS_CUDA_MOE_LAUNCH_CUH

#include "cuda/moe/product.cuh"

/* The swizzle of tensor copies repeats every 1024 bytes. */
#define PRS_GPU_MOE_SHARED_ALIGNMENT 1024

/* `State`: all that a kernel has in dynamic shared memory; the stages come first. */
template <class State> constexpr uint32_t prs_moe_shared_bytes()
{
    return (uint32_t)sizeof(State) + PRS_GPU_MOE_SHARED_ALIGNMENT;
}

template <class State> PRS_MEMBER State &prs_moe_shared()
{
    extern __shared__ unsigned char shared[];
    const uint32_t over = prs_shared_address(shared) % PRS_GPU_MOE_SHARED_ALIGNMENT;
    return *(State *)(shared + (over == 0 ? 0 : PRS_GPU_MOE_SHARED_ALIGNMENT - over));
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
