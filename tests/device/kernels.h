/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.h: device code compiled for the CPU, for tests in C: a thread in place of each CTA. */
#ifndef TESTS_DEVICE_KERNELS_H
#define TESTS_DEVICE_KERNELS_H

#include <stdbool.h>

#include <perseus/gpu.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KERNEL_WORDS 64

/* Symmetric memory of an exchange. */
struct kernel_memory {
    uint64_t *signals;  /* by sender */
    uint64_t *payloads; /* by sender, KERNEL_WORDS each */
    uint64_t *source;   /* KERNEL_WORDS; the heap's or a registered buffer's */
};

/* Sends `rounds` payloads to every PE, the own one too, each with a signal, and checks what comes
 * the moment its signal is seen. */
bool kernel_exchange(const struct perseus_device_pe *pe, const struct kernel_memory *memory,
                     uint64_t rounds);
/* The member's round of the group: a payload of `value`. */
enum perseus_status kernel_group_put(const struct perseus_device_pe *pe,
                                     struct perseus_device_group *group, uint32_t member,
                                     uint64_t *payload, uint64_t *source, uint64_t value);
/* Waits 5 ms for a word that nobody writes. */
enum perseus_status kernel_wait_in_vain(const struct perseus_device_pe *pe, const uint64_t *word);

#ifdef __cplusplus
}
#endif
#endif
