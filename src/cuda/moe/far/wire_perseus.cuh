/* SPDX-License-Identifier: Apache-2.0 */
/* wire_perseus.cuh: perseus/device.cuh, over the GPU's ring, the proxy and its fabric. */
#ifndef PRS_CUDA_MOE_FAR_WIRE_PERSEUS_CUH
#define PRS_CUDA_MOE_FAR_WIRE_PERSEUS_CUH

#include <perseus/device.cuh>

struct prs_moe_wire_perseus {
    perseus_device_pe pe;
    /* decoupled; [PEs], NULL where there is nobody to send to, and members as they are sorted:
     * [experts] there, [PEs, hosted max] back. GPU memory. */
    perseus_device_group **there, **back;
    uint32_t *there_numbers, *back_numbers;

    PRS_MOE_MEMBER unsigned char *at(uint64_t offset) const
    {
        return pe.heap + offset;
    }
    PRS_MOE_MEMBER perseus_status send(uint32_t protocol, const prs_moe_letter &letter) const
    {
        uint64_t *signal = (uint64_t *)at(letter.signal);
        const int target = (int)letter.target;
        if (protocol == PRS_MOE_FAR_DECOUPLED) {
            return send_in_group(letter);
        }
        if (protocol == PRS_MOE_FAR_COUPLED) {
            return perseus_put_signal_nbi(pe, at(letter.to), at(letter.from), letter.bytes, signal,
                                          letter.value, PERSEUS_SIGNAL_SET, target);
        }
        return perseus_put_nbi(pe, at(letter.to), at(letter.from), letter.bytes, target);
    }
    PRS_MOE_MEMBER perseus_status signal(const prs_moe_letter &letter) const
    {
        return perseus_signal_op_nbi(pe, (uint64_t *)at(letter.signal), letter.value,
                                     PERSEUS_SIGNAL_SET, (int)letter.target);
    }
    PRS_MOE_MEMBER perseus_status quiet() const
    {
        return perseus_quiet(pe);
    }
    PRS_MOE_MEMBER perseus_status await(uint64_t word, uint64_t value, uint32_t timeout_ms,
                                        int peer) const
    {
        return perseus_signal_wait_until(pe, (const uint64_t *)at(word), PERSEUS_CMP_GE, value,
                                         timeout_ms, peer);
    }
    /* A member is two rounds ahead of its group's signals at the most: those of the forward before
     * are under way by now, so AGAIN does not last. */
    PRS_MOE_MEMBER perseus_status send_in_group(const prs_moe_letter &letter) const
    {
        const uint64_t deadline = prs_now_ns() + pe.timeout_ms * PRS_NS_PER_MS;
        perseus_status status = PERSEUS_AGAIN;
        while (status == PERSEUS_AGAIN) {
            status = perseus_signal_group_put(
                pe, (letter.is_answer ? back : there)[letter.target],
                (letter.is_answer ? back_numbers : there_numbers)[letter.member], at(letter.to),
                at(letter.from), letter.bytes, letter.value);
            if (status == PERSEUS_AGAIN && prs_now_ns() >= deadline) {
                status = PERSEUS_TIMEOUT;
            }
        }
        return status;
    }
};

#endif
