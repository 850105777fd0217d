/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perseus/device/scopes.cuh: the calls of perseus/device.cuh by a whole warp or block. All its
 * threads call with the same arguments, and get the same answer.
 */
#ifndef PERSEUS_DEVICE_SCOPES_CUH
#define PERSEUS_DEVICE_SCOPES_CUH

#define PRS_WARP 32u

/* A put, a put with signal, or a signal alone. */
PRS_DEVICE perseus_status prs_device_fill(const perseus_device_pe &pe, void *dst, const void *src,
                                          uint64_t bytes, uint64_t *signal, uint64_t value,
                                          enum perseus_signal_op op, int target, prs_desc *desc)
{
    perseus_status status = PERSEUS_OK;
    if (bytes > 0) {
        status = prs_device_fill_put(pe, dst, src, bytes, target, desc);
    }
    return status == PERSEUS_OK && signal != nullptr
               ? prs_device_fill_signal(pe, signal, value, op, target, desc)
               : status;
}

/* ---- warp ---- */

PRS_DEVICE perseus_status perseus_put_signal_nbi_warp(const perseus_device_pe &pe, void *dst,
                                                      const void *src, uint64_t bytes,
                                                      uint64_t *signal, uint64_t value,
                                                      enum perseus_signal_op op, int target)
{
    if (bytes == 0 && signal == nullptr) {
        return PERSEUS_OK;
    }
    const auto make = [&](prs_desc *desc) {
        return prs_device_fill(pe, dst, src, bytes, signal, value, op, target, desc);
    };
    unsigned char *heap = prs_device_direct(pe, target);
    if (heap == nullptr) {
        return prs_device_send_warp(pe, bytes > 0, make);
    }
    prs_desc unused = {};
    const perseus_status status = make(&unused);
    if (status != PERSEUS_OK) {
        return status;
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
    return prs_device_send_warp(pe, false, [](prs_desc *desc) {
        *desc = prs_device_order_desc(PRS_DESC_FENCE, PRS_DESC_NO_TICKET).desc;
        return PERSEUS_OK;
    });
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

/* One descriptor of the whole block, of two warps or more. The claim, with the request that it is
 * for, and the fence take a round trip each, and a warp's fence waits for its own claim: so the
 * first thread of the second warp claims while the first warp fences. That one stores as well, as
 * fence and store make the release only in one thread; the barriers in front of both hand it the
 * block's payload and what the claim's look at the head has acquired. */
template <class Make>
PRS_DEVICE perseus_status prs_device_send_block(const perseus_device_pe &pe, bool has_payload,
                                                Make make)
{
    __shared__ prs_desc_slot slot;
    __shared__ uint64_t position;
    __shared__ int answer;
    const uint32_t rank = prs_device_rank();
    __syncthreads();
    if (rank == PRS_WARP) {
        prs_desc_slot filled = {};
        prs_device_claim claim = {};
        claim.first = prs_add_relaxed_gpu(&pe.ring.producers->tail, 1);
        const perseus_status made = make(&filled.desc);
        claim.known_head = prs_load_acquire_gpu(&pe.ring.producers->known_head);
        slot = made == PERSEUS_OK ? filled : prs_device_nothing(pe);
        position = claim.first;
        answer = prs_device_claim_room(pe, claim, 1) ? made : PERSEUS_TIMEOUT;
    } else if (rank < PRS_DESC_QUARTERS && has_payload) {
        prs_fence_sys();
    }
    __syncthreads();
    const int agreed = answer;
    if (rank < PRS_DESC_QUARTERS && agreed != PERSEUS_TIMEOUT) {
        prs_desc_quarter quarter = slot.quarters[rank];
        quarter.turn = prs_ring_turn(&pe.ring, position);
        prs_store_quarter(&prs_ring_slot(&pe.ring, position)->quarters[rank], quarter);
    }
    __syncthreads(); /* before the next call writes them */
    return (perseus_status)agreed;
}

/* A block of one warp sends as that warp. A block is at least a warp. */
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
    if (prs_device_threads() <= PRS_WARP) {
        return perseus_put_signal_nbi_warp(pe, dst, src, bytes, signal, value, op, target);
    }
    if (bytes == 0 && signal == nullptr) {
        return PERSEUS_OK;
    }
    return prs_device_send_block(pe, bytes > 0, [&](prs_desc *desc) {
        return prs_device_fill(pe, dst, src, bytes, signal, value, op, target, desc);
    });
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

/* One put of `member` by the block, then its arrival. Only the last block to arrive sends signals,
 * all others return to their work at once. */
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
    if (status == PERSEUS_OK && prs_device_rank() < PRS_WARP) {
        status = prs_device_group_arrive(pe, group, member, value, prs_device_lane(), PRS_WARP);
    }
    return prs_device_agree(status);
}

#endif
