/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/side.h"

enum perseus_status prs_gpu_side_check(struct prs_gpu_side *side)
{
    static const char *const what[] = {
        [PERSEUS_DEVICE_FAULT_SIGNAL] = "a signal at heap offset",
        [PERSEUS_DEVICE_FAULT_ANSWER] = "the proxy's answer in slot",
        [PERSEUS_DEVICE_FAULT_RING] = "room in the ring up to position",
        [PERSEUS_DEVICE_FAULT_GROUP] = "the round before, of the signal group's member"};
    struct perseus_device_fault *fault = side->fault;
    /* Acquire: with the release of the kernel's report. */
    uint32_t kind = __atomic_load_n(&fault->kind, __ATOMIC_ACQUIRE);
    if (kind == PERSEUS_DEVICE_FAULT_NONE) {
        return PERSEUS_OK;
    }
    bool is_known = kind < sizeof what / sizeof what[0];
    enum perseus_status status =
        prs_fail(side->config.log, PERSEUS_TIMEOUT,
                 "a kernel (block %u, thread %u) waited in vain for %s %llu, from PE %d: it is "
                 "%llu, awaited "
                 "%llu; look for a PE that is stuck, or allow more time",
                 fault->block, fault->thread, is_known ? what[kind] : "something",
                 (unsigned long long)fault->slot, fault->peer, (unsigned long long)fault->found,
                 (unsigned long long)fault->expected);
    const uint32_t free_again = 0;
    fault->kind = PERSEUS_DEVICE_FAULT_NONE;
    (void)prs_gpu_side_copy(side, side->fault_taken, &free_again, sizeof free_again);
    return status;
}
