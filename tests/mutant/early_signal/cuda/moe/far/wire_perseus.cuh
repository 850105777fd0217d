/* SPDX-License-Identifier: Apache-2.0 */
/* The provider with its put-with-signal broken: the signal does not wait for the rows. */
#ifndef PRS_TESTS_MUTANT_EARLY_SIGNAL
#define PRS_TESTS_MUTANT_EARLY_SIGNAL

#include <perseus/device.cuh>

/* Counts stay whole, as what lies where depends on them. */
PRS_DEVICE perseus_status put_signal_early(const perseus_device_pe &pe, void *dst, const void *src,
                                           uint64_t bytes, uint64_t *signal, uint64_t value,
                                           enum perseus_signal_op op, int target)
{
    if (bytes % 128 != 0) {
        return perseus_put_signal_nbi(pe, dst, src, bytes, signal, value, op, target);
    }
    const perseus_status status = perseus_signal_op_nbi(pe, signal, value, op, target);
    prs_pause(2000000);
    return status == PERSEUS_OK ? perseus_put_nbi(pe, dst, src, bytes, target) : status;
}

#define perseus_put_signal_nbi put_signal_early
#include_next <cuda/moe/far/wire_perseus.cuh>
#undef perseus_put_signal_nbi

#endif
