/* SPDX-License-Identifier: Apache-2.0 */
/* subscribe.cuh: the subscriber, one warp of a PE, which turns groups of blocks whose rows are all
 * there into tasks. */
#ifndef PRS_CUDA_MOE_SUBSCRIBE_CUH
#define PRS_CUDA_MOE_SUBSCRIBE_CUH

#include "cuda/moe/queue.cuh"

#define PRS_GPU_MOE_WINDOW 8 /* times 32 blocks that it looks at */

/* What a group still waits for, as a fault says it. */
struct prs_moe_missing {
    int32_t peer; /* -1: nobody in particular */
    uint32_t slot;
    uint64_t found, expected;
};

/* Looks at a window of blocks, 32 at a time, and puts the tasks of groups that are complete into
 * the queue. `groups`: [blocks], at the first block of a group its task's word, else 0.
 * rows.are_here(group, &missing), by one lane, acquires what it finds. */
template <class Rows>
PRS_DEVICE void prs_moe_subscribe(const prs_gpu_moe_products &products, const uint64_t *groups,
                                  uint32_t blocks, const Rows &rows)
{
    const uint32_t lane = threadIdx.x & 31;
    uint32_t base = 0, seen = 0; /* bit i: block base + 32 * i + lane is done with */
    prs_moe_patience patience(products.watch);
    while (base < blocks) {
        bool lasts = true, found = false;
        for (uint32_t i = 0; i < PRS_GPU_MOE_WINDOW; i++) {
            const uint32_t block = base + 32 * i + lane;
            if (block >= blocks || (seen >> i & 1) != 0) {
                continue;
            }
            const prs_moe_task group = {groups[block]};
            prs_moe_missing missing;
            if (group.word == 0 || rows.are_here(group, &missing)) {
                if (group.word != 0) {
                    const uint32_t at =
                        prs_moe_queue_reserve(products.queue, group, products.shape.first_tiles);
                    prs_moe_queue_put(products.queue, at, group, products.shape.first_tiles, 0, 1);
                }
                seen |= 1u << i;
                found = true;
            } else if (i == 0) {
                lasts = patience.lasts(PRS_GPU_MOE_WAIT_ROWS, missing.peer, missing.slot,
                                       missing.found, missing.expected);
            }
        }
        if (__any_sync(~0u, found)) {
            patience.begin_anew();
        }
        if (__any_sync(~0u, !lasts)) {
            return;
        }
        if (__all_sync(~0u, (seen & 1) != 0 || base + lane >= blocks)) {
            base += 32;
            seen >>= 1;
        }
    }
}

#endif
