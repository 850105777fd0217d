/* SPDX-License-Identifier: Apache-2.0 */
/* wire_nvshmem.cuh: NVSHMEM's device API, over whatever transport it has, Perseus' too. Compiled
 * with -rdc=true and linked with NVSHMEM's device library. */
#ifndef PRS_CUDA_MOE_FAR_WIRE_NVSHMEM_CUH
#define PRS_CUDA_MOE_FAR_WIRE_NVSHMEM_CUH

#include <perseus/nvshmem_group.cuh>

struct prs_moe_wire_nvshmem {
    unsigned char *heap; /* symmetric, of the layout's heap_bytes, zeroed */
    /* decoupled; [PEs], those of this PE unused. GPU memory. Made with the words of prs_moe_far_
     * word_arrived (this PE, 0 ...) for the experts of a target, and _answered of this PE's. */
    const perseus::nvshmem_group *there, *back;

    PRS_MOE_MEMBER unsigned char *at(uint64_t offset) const
    {
        return heap + offset;
    }
    PRS_MOE_MEMBER perseus_status send(uint32_t protocol, const prs_moe_letter &letter) const
    {
        uint64_t *signal = (uint64_t *)at(letter.signal);
        const int target = (int)letter.target;
        __threadfence_system(); /* the payload, which other threads of the CTA wrote too */
        if (protocol == PRS_MOE_FAR_DECOUPLED) {
            const perseus::nvshmem_group &group = (letter.is_answer ? back : there)[target];
            perseus::put_signal_nbi(group, (unsigned)(signal - group.signals), at(letter.to),
                                    at(letter.from), letter.bytes, letter.value);
        } else if (protocol == PRS_MOE_FAR_COUPLED) {
            nvshmem_putmem_signal_nbi(at(letter.to), at(letter.from), letter.bytes, signal,
                                      letter.value, NVSHMEM_SIGNAL_SET, target);
        } else {
            nvshmem_putmem_nbi(at(letter.to), at(letter.from), letter.bytes, target);
        }
        return PERSEUS_OK;
    }
    PRS_MOE_MEMBER perseus_status signal(const prs_moe_letter &letter) const
    {
        nvshmemx_signal_op((uint64_t *)at(letter.signal), letter.value, NVSHMEM_SIGNAL_SET,
                           (int)letter.target);
        return PERSEUS_OK;
    }
    PRS_MOE_MEMBER perseus_status quiet() const
    {
        nvshmem_quiet();
        return PERSEUS_OK;
    }
    /* Looks one by one: NVSHMEM's own wait has no deadline. */
    PRS_MOE_MEMBER perseus_status await(uint64_t word, uint64_t value, uint32_t timeout_ms,
                                        int) const
    {
        const uint64_t deadline = prs_now_ns() + timeout_ms * PRS_NS_PER_MS;
        while (nvshmem_signal_fetch((uint64_t *)at(word)) < value) {
            if (prs_now_ns() >= deadline) {
                return PERSEUS_TIMEOUT;
            }
        }
        __threadfence_system(); /* acquire, with the sender's order of payload and signal */
        return PERSEUS_OK;
    }
};

#endif
