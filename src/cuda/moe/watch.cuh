/* SPDX-License-Identifier: Apache-2.0 */
/* watch.cuh: waiting with a deadline. The first wait that passes it reports, and all others end. */
#ifndef PRS_CUDA_MOE_WATCH_CUH
#define PRS_CUDA_MOE_WATCH_CUH

#include <perseus/device/memory.cuh>

#include "cuda/moe/round.h"

/* One report a launch: whoever sets `stop` first. */
__device__ static __noinline__ void prs_moe_report(const prs_gpu_moe_watch &watch,
                                                   prs_gpu_moe_wait kind, int32_t peer,
                                                   uint64_t slot, uint64_t found, uint64_t expected)
{
    if (atomicExch(watch.stop, 1u) != 0) {
        return;
    }
    watch.fault->peer = peer;
    watch.fault->slot = slot;
    watch.fault->found = found;
    watch.fault->expected = expected;
    /* Release, with the host's look behind the kernel's end. */
    prs_store_release_sys(&watch.fault->kind, (uint32_t)kind);
}

/* One wait of one thread. */
struct prs_moe_patience {
    const prs_gpu_moe_watch &watch;
    uint64_t deadline;
    uint32_t looks = 0;

    __device__ explicit prs_moe_patience(const prs_gpu_moe_watch &of)
        : watch(of), deadline(prs_now_ns() + of.timeout_ns)
    {
    }

    /* Something came: the deadline is moved. */
    __device__ void begin_anew()
    {
        deadline = prs_now_ns() + watch.timeout_ns;
    }
    /* After a look that found nothing: whether to go on. */
    __device__ bool lasts(prs_gpu_moe_wait kind, int32_t peer, uint64_t slot, uint64_t found,
                          uint64_t expected)
    {
        looks++;
        if (looks % 64 != 0) {
            return true;
        }
        if (prs_load_relaxed_gpu(watch.stop) != 0) {
            return false;
        }
        if (prs_now_ns() >= deadline) {
            prs_moe_report(watch, kind, peer, slot, found, expected);
            return false;
        }
        return true;
    }
};

#endif
