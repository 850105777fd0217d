/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.cuh: the provider of put-with-signal, chosen when the kernels are built: Perseus' own device
 * API, or NVSHMEM's where PRS_MOE_WIRE_NVSHMEM is defined. Each is a struct prs_moe_wire, which
 * kernels take by value, with
 *
 *     at(offset)                           this PE's heap
 *     send(protocol, letter)               one put and its signal (put-only: none), by one thread
 *     signal(letter)                       the signal alone
 *     quiet()                              all that was sent is there
 *     await(word, value, timeout_ms, peer) until a signal word of this heap is there
 *
 * and all of them return an enum perseus_status but for `at`.
 */
#ifndef PRS_CUDA_MOE_FAR_WIRE_CUH
#define PRS_CUDA_MOE_FAR_WIRE_CUH

#include <perseus/device/memory.cuh>

#include "cuda/moe/far/far.h"

#ifdef __CUDACC__
#define PRS_MOE_MEMBER __device__ inline
#else
#define PRS_MOE_MEMBER inline
#endif

/* One transfer. Offsets are the same at its target. */
struct prs_moe_letter {
    uint64_t to, from, bytes; /* offsets; bytes may be 0 */
    uint64_t signal, value;   /* offset of the word, and what it becomes */
    uint32_t target;
    /* decoupled: the group, one for each target and direction, and the member of it */
    bool is_answer;
    uint32_t member;
};

#ifdef PRS_MOE_WIRE_NVSHMEM
#include "cuda/moe/far/wire_nvshmem.cuh"
typedef prs_moe_wire_nvshmem prs_moe_wire;
#else
#include "cuda/moe/far/wire_perseus.cuh"
typedef prs_moe_wire_perseus prs_moe_wire;
#endif

#endif
