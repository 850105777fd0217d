/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels.h"

#include <perseus/device.cuh>

static const uint32_t timeout_ms = 20000;

bool kernel_exchange(const perseus_device_pe *pe, const kernel_memory *memory, uint64_t rounds)
{
    for (uint64_t round = 1; round <= rounds; round++) {
        for (uint32_t i = 0; i < KERNEL_WORDS; i++) {
            memory->source[i] = round * 1000 + pe->my_pe;
        }
        for (int to = 0; to < pe->n_pes; to++) {
            if (perseus_put_signal_nbi(*pe, memory->payloads + pe->my_pe * KERNEL_WORDS,
                                       memory->source, KERNEL_WORDS * sizeof(uint64_t),
                                       memory->signals + pe->my_pe, round, PERSEUS_SIGNAL_SET,
                                       to) != PERSEUS_OK) {
                return false;
            }
        }
        for (int from = 0; from < pe->n_pes; from++) {
            if (perseus_signal_wait_until(*pe, memory->signals + from, PERSEUS_CMP_GE, round,
                                          timeout_ms, from) != PERSEUS_OK) {
                return false;
            }
            for (uint32_t i = 0; i < KERNEL_WORDS; i++) {
                if (memory->payloads[from * KERNEL_WORDS + i] < round * 1000 + from) {
                    return false;
                }
            }
        }
        if (perseus_quiet(*pe) != PERSEUS_OK) {
            return false;
        }
    }
    return true;
}

perseus_status kernel_group_put(const perseus_device_pe *pe, perseus_device_group *group,
                                uint32_t member, uint64_t *payload, uint64_t *source,
                                uint64_t value)
{
    for (uint32_t i = 0; i < KERNEL_WORDS; i++) {
        source[i] = value;
    }
    return perseus_signal_group_put(*pe, group, member, payload, source,
                                    KERNEL_WORDS * sizeof(uint64_t), value);
}

perseus_status kernel_wait_in_vain(const perseus_device_pe *pe, const uint64_t *word)
{
    return perseus_signal_wait_until(*pe, word, PERSEUS_CMP_EQ, 7, 5, 1);
}
