/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perseus/nvshmem_group.cuh: decoupled signaling for NVSHMEM kernels.
 *
 * A kernel that sends many tiles to one PE, each with nvshmem_putmem_signal_nbi, has a fence before
 * every signal, and pays for each where a fence is a drain. A signal group sends the same tiles
 * with one fence: the puts go as they come, and whoever puts the last tile of the round sends the
 * fence and all signals (arXiv 2605.00686, section 4.1). To use it, replace
 *
 *     nvshmem_putmem_signal_nbi(dest, source, bytes, signals + i, value, NVSHMEM_SIGNAL_SET, pe);
 * by
 *     perseus::put_signal_nbi(group, i, dest, source, bytes, value);
 *
 * Header only, CUDA C++, on NVSHMEM's public API alone: any NVSHMEM, any transport.
 *
 * Rounds. In a round every member 0..n-1 of a group puts once, from any thread of any block; a put
 * may have no bytes. The signals of a round are sent when its last member has put, so a tile's
 * signal comes later than coupled, and all tiles of a group must be sent by somebody who does not
 * wait for one of its own signals. The group is ready for the next round when the signals have been
 * sent: a member may put again once it knows that its signal arrived (an answer, a barrier), or
 * after nvshmem_quiet behind the round.
 *
 * Sources must stay untouched until then, as with every put that does not block. Signals are SET to
 * the members' values, which may differ.
 */
#ifndef PERSEUS_NVSHMEM_GROUP_CUH
#define PERSEUS_NVSHMEM_GROUP_CUH

#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>
#include <stdint.h>

namespace perseus
{

/* A handle for kernels, passed by value. Made by group_create. */
struct nvshmem_group {
    uint64_t *signals; /* symmetric; the target's words that members set, n of them in a row */
    uint64_t *values;  /* symmetric; this round's, by member */
    unsigned *arrived; /* device memory of this GPU */
    unsigned n;
    int pe;
    bool one_put;
};

/*
 * On every PE alike, since it allocates symmetric memory; for `n` members whose signals are
 * signals[0..n-1] at PE `pe`. `one_put`: sends the signals as one put of words instead of n signal
 * operations; only right where the transport keeps the order of puts and writes each word whole, as
 * Perseus' does with staging (docs/nvshmem.md), and only faster where it does not merge signals by
 * itself. False if there is no memory, or n is 0; then nothing is left allocated on this PE.
 */
inline bool group_create(nvshmem_group *out, unsigned n, uint64_t *signals, int pe,
                         bool one_put = false)
{
    *out = nvshmem_group{signals, nullptr, nullptr, n, pe, one_put};
    out->values = n > 0 ? (uint64_t *)nvshmem_calloc(n, sizeof(uint64_t)) : nullptr;
    if (out->values == nullptr) {
        return false;
    }
    if (cudaMalloc(&out->arrived, sizeof *out->arrived) != cudaSuccess ||
        cudaMemset(out->arrived, 0, sizeof *out->arrived) != cudaSuccess) {
        cudaFree(out->arrived);
        nvshmem_free(out->values);
        *out = nvshmem_group{};
        return false;
    }
    return true;
}

/* On every PE alike, when no kernel uses it any more. */
inline void group_destroy(nvshmem_group *group)
{
    if (group->values != nullptr) {
        nvshmem_free(group->values);
        cudaFree(group->arrived);
    }
    *group = nvshmem_group{};
}

namespace detail
{

/* One thread per put, which is issued already. The counter is released by every arrival and
 * acquired by the last one, so its fence stands behind the puts of all; and it is reset before a
 * signal can let anybody begin the next round. */
__device__ inline void arrive(const nvshmem_group &group, unsigned member, uint64_t value)
{
    group.values[member] = value;
    __threadfence();
    if (atomicAdd(group.arrived, 1u) != group.n - 1) {
        return;
    }
    __threadfence();
    atomicExch(group.arrived, 0u);
    __threadfence();
    nvshmem_fence();
    if (group.one_put) {
        __threadfence_system(); /* the transport reads the values */
        nvshmem_putmem_nbi(group.signals, group.values, group.n * sizeof(uint64_t), group.pe);
        return;
    }
    for (unsigned i = 0; i < group.n; i++) {
        const volatile uint64_t *values = group.values;
        nvshmemx_signal_op(group.signals + i, values[i], NVSHMEM_SIGNAL_SET, group.pe);
    }
}

} /* namespace detail */

/* Called by one thread. */
__device__ inline void put_signal_nbi(const nvshmem_group &group, unsigned member, void *dest,
                                      const void *source, size_t bytes, uint64_t value)
{
    if (bytes > 0) {
        nvshmem_putmem_nbi(dest, source, bytes, group.pe);
    }
    detail::arrive(group, member, value);
}

/* Called by all threads of a block, with the same arguments. */
__device__ inline void put_signal_nbi_block(const nvshmem_group &group, unsigned member, void *dest,
                                            const void *source, size_t bytes, uint64_t value)
{
    if (bytes > 0) {
        nvshmemx_putmem_nbi_block(dest, source, bytes, group.pe);
    }
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
        detail::arrive(group, member, value);
    }
}

} /* namespace perseus */

#endif
