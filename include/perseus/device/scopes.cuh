/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perseus/device/scopes.cuh: the calls of perseus/device.cuh by a whole warp or block. All its threads
 * call with the same arguments, and get the same answer.
 */
#ifndef PERSEUS_DEVICE_SCOPES_CUH
#define PERSEUS_DEVICE_SCOPES_CUH

#define PRS_WARP 32u

/* ---- warp ---- */

PRS_DEVICE perseus_status perseus_put_signal_nbi_warp(const perseus_device_pe &pe, void *dst,
                                                      const void *src, uint64_t bytes,
                                                      uint64_t *signal, uint64_t value,
                                                      enum perseus_signal_op op, int target)
{
    prs_desc_slot filled = {};
    perseus_status status = PERSEUS_OK;
    if (bytes > 0) {
        status = prs_device_fill_put(pe, dst, src, bytes, target, &filled.desc);
    }
    if (status == PERSEUS_OK && signal != nullptr) {
        status = prs_device_fill_signal(pe, signal, value, op, target, &filled.desc);
    }
    if (status != PERSEUS_OK || (bytes == 0 && signal == nullptr)) {
        return status;
    }
    unsigned char *heap = prs_device_direct(pe, target);
    if (heap == nullptr) {
        return prs_device_push_warp(pe, filled, bytes > 0);
    }
    prs_device_copy(heap + ((unsigned char *)dst - pe.heap), (const unsigned char *)src, bytes,
                    prs_device_lane(), PRS_WARP);
    __syncwarp();
    if (signal != nullptr && prs_device_lane() == 0) {
        prs_device_signal_direct(pe, heap, signal, value, op);
    }
    return PERSEUS_OK;
}

PRS_DEVICE perseus_status perseus_put_nbi_warp(const perseus_device_pe &pe, void *dst,
                                               const void *src, uint64_t bytes, int target)
{
    return perseus_put_signal_nbi_warp(pe, dst, src, bytes, nullptr, 0, PERSEUS_SIGNAL_SET, target);
}

PRS_DEVICE perseus_status perseus_signal_op_nbi_warp(const perseus_device_pe &pe, uint64_t *signal,
                                                     uint64_t value, enum perseus_signal_op op,
                                                     int target)
{
    return perseus_put_signal_nbi_warp(pe, nullptr, nullptr, 0, signal, value, op, target);
}

PRS_DEVICE perseus_status perseus_fence_warp(const perseus_device_pe &pe)
{
    prs_fence_sys();
    return prs_device_push_warp(pe, prs_device_order_desc(PRS_DESC_FENCE, PRS_DESC_NO_TICKET),
                                false);
}

PRS_DEVICE perseus_status perseus_quiet_warp(const perseus_device_pe &pe)
{
    int status = PERSEUS_OK;
    __syncwarp();
    if (prs_device_lane() == 0) {
        status = perseus_quiet(pe);
    }
    return (perseus_status)__shfl_sync(0xffffffffu, status, 0);
}

/* Acquire for all: lane 0 reads, the barrier hands on what it has acquired. */
PRS_DEVICE perseus_status perseus_signal_wait_until_warp(const perseus_device_pe &pe,
                                                         const uint64_t *signal, perseus_cmp cmp,
                                                         uint64_t value, uint32_t timeout_ms,
                                                         int peer)
{
    int status = PERSEUS_OK;
    if (prs_device_lane() == 0) {
        status = perseus_signal_wait_until(pe, signal, cmp, value, timeout_ms, peer);
    }
    status = __shfl_sync(0xffffffffu, status, 0);
    __syncwarp();
    return (perseus_status)status;
}

/* ---- block ---- */

PRS_DEVICE uint32_t prs_device_rank()
{
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

PRS_DEVICE uint32_t prs_device_threads()
{
    return blockDim.x * blockDim.y * blockDim.z;
}

/* The answer of the block's first thread, to all. */
PRS_DEVICE perseus_status prs_device_agree(perseus_status mine)
{
    __shared__ int status;
    if (prs_device_rank() == 0) {
        status = mine;
    }
    __syncthreads();
    const int agreed = status;
    __syncthreads(); /* before the next call writes it */
    return (perseus_status)agreed;
}

/* The first warp sends, behind a barrier: what the block wrote is before its fence. A block is at
 * least a warp; with `waits` unset only the sending warp has the answer, and nobody waits for it. */
PRS_DEVICE perseus_status perseus_put_signal_nbi_block(const perseus_device_pe &pe, void *dst,
                                                       const void *src, uint64_t bytes,
                                                       uint64_t *signal, uint64_t value,
                                                       enum perseus_signal_op op, int target)
{
    unsigned char *heap = prs_device_direct(pe, target);
    if (heap != nullptr) {
        uint64_t offset = 0;
        perseus_status status = prs_device_symmetric(pe, dst, bytes, &offset);
        if (bytes > 0 && status != PERSEUS_OK) {
            return status;
        }
        prs_device_copy(heap + ((unsigned char *)dst - pe.heap), (const unsigned char *)src, bytes,
                        prs_device_rank(), prs_device_threads());
        __syncthreads();
        if (signal != nullptr && prs_device_rank() == 0) {
            prs_device_signal_direct(pe, heap, signal, value, op);
        }
        return PERSEUS_OK;
    }
    perseus_status status = PERSEUS_OK;
    __syncthreads();
    if (prs_device_rank() < PRS_WARP) {
        status = perseus_put_signal_nbi_warp(pe, dst, src, bytes, signal, value, op, target);
    }
    return prs_device_agree(status);
}

PRS_DEVICE perseus_status perseus_put_nbi_block(const perseus_device_pe &pe, void *dst,
                                                const void *src, uint64_t bytes, int target)
{
    return perseus_put_signal_nbi_block(pe, dst, src, bytes, nullptr, 0, PERSEUS_SIGNAL_SET,
                                        target);
}

PRS_DEVICE perseus_status perseus_signal_op_nbi_block(const perseus_device_pe &pe, uint64_t *signal,
                                                      uint64_t value, enum perseus_signal_op op,
                                                      int target)
{
    return perseus_put_signal_nbi_block(pe, pe.heap, nullptr, 0, signal, value, op, target);
}

PRS_DEVICE perseus_status perseus_fence_block(const perseus_device_pe &pe)
{
    perseus_status status = PERSEUS_OK;
    __syncthreads();
    if (prs_device_rank() < PRS_WARP) {
        status = perseus_fence_warp(pe);
    }
    return prs_device_agree(status);
}

PRS_DEVICE perseus_status perseus_quiet_block(const perseus_device_pe &pe)
{
    perseus_status status = PERSEUS_OK;
    __syncthreads();
    if (prs_device_rank() == 0) {
        status = perseus_quiet(pe);
    }
    return prs_device_agree(status);
}

PRS_DEVICE perseus_status perseus_signal_wait_until_block(const perseus_device_pe &pe,
                                                          const uint64_t *signal, perseus_cmp cmp,
                                                          uint64_t value, uint32_t timeout_ms,
                                                          int peer)
{
    perseus_status status = PERSEUS_OK;
    if (prs_device_rank() == 0) {
        status = perseus_signal_wait_until(pe, signal, cmp, value, timeout_ms, peer);
    }
    return prs_device_agree(status);
}

/* One put of `member` by the block, then its arrival. Only the last block to arrive sends signals, all
 * others return to their work at once. */
PRS_DEVICE perseus_status perseus_signal_group_put_block(const perseus_device_pe &pe,
                                                         perseus_device_group *group,
                                                         uint32_t member, void *dst,
                                                         const void *src, uint64_t bytes,
                                                         uint64_t value)
{
    perseus_status status = PERSEUS_OK;
    __syncthreads();
    if (prs_device_rank() == 0 && prs_device_group_is_ahead(group, member)) {
        status = PERSEUS_AGAIN;
    }
    status = prs_device_agree(status);
    if (status == PERSEUS_OK && bytes > 0) {
        status = perseus_put_nbi_block(pe, dst, src, bytes, (int)group->members[member].target);
    }
    if (status == PERSEUS_OK && prs_device_rank() == 0) {
        status = prs_device_group_arrive(pe, group, member, value);
    }
    return prs_device_agree(status);
}

#endif
