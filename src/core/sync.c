/* SPDX-License-Identifier: Apache-2.0 */
#include "base/export.h"
#include "core/address.h"
#include "core/signal.h"
#include "core/submit.h"
#include "core/wait.h"

PRS_PUBLIC enum perseus_status perseus_fence(struct perseus_pe *pe)
{
    return pe->channel != NULL ? prs_submit_fence(pe, PRS_DESC_ALL_PEERS) : PERSEUS_OK;
}

PRS_PUBLIC enum perseus_status perseus_fence_pe(struct perseus_pe *pe, int target)
{
    enum perseus_status status = prs_check_target(pe, target, NULL);
    if (status != PERSEUS_OK || prs_local_heap(pe, target) != NULL) {
        return status;
    }
    return prs_submit_fence(pe, (uint32_t)target);
}

PRS_PUBLIC enum perseus_status perseus_quiet(struct perseus_pe *pe)
{
    if (pe->channel == NULL) {
        return PERSEUS_OK;
    }
    return prs_submit_quiet(pe, PRS_DESC_ALL_PEERS, "quiet");
}

PRS_PUBLIC enum perseus_status perseus_quiet_pe(struct perseus_pe *pe, int target)
{
    enum perseus_status status = prs_check_target(pe, target, NULL);
    if (status != PERSEUS_OK || prs_local_heap(pe, target) != NULL) {
        return status;
    }
    return prs_submit_quiet(pe, (uint32_t)target, "quiet");
}

/* Waits for `epoch` in this round's word, which `source` alone writes. */
static enum perseus_status await_round(struct perseus_pe *pe, struct prs_wait *wait, uint32_t round,
                                       uint64_t epoch, int source)
{
    uint64_t seen = 0;
    enum perseus_status status = PERSEUS_OK;
    while (prs_heap_load(pe->heap, prs_heap_word(round), &seen) != PERSEUS_OK || seen < epoch) {
        if (status != PERSEUS_OK) {
            return prs_wait_fail(wait, status,
                                 "barrier %llu, round %u: no word from PE %d (or from one that it "
                                 "waits for itself)",
                                 (unsigned long long)epoch, round, source);
        }
        status = prs_wait_step(wait);
    }
    return PERSEUS_OK;
}

/*
 * Dissemination: in round r every PE tells the one 2^r further, so after log2(PEs) rounds each has
 * heard of all. A word has one writer, which SETs the number of the barrier: growing values, no
 * atomics. They cannot overtake each other, as every barrier begins with a quiet that completes
 * those of the barrier before. A barrier that failed may be called again: the number is the same.
 */
PRS_PUBLIC enum perseus_status perseus_barrier_all(struct perseus_pe *pe)
{
    enum perseus_status status = perseus_quiet(pe);
    uint64_t epoch = pe->barrier_epoch + 1;
    struct prs_wait wait = prs_wait_begin(pe, pe->timeout_ms);
    uint32_t round = 0;
    for (uint32_t step = 1; status == PERSEUS_OK && step < (uint32_t)pe->size; step *= 2) {
        int target = (int)(((uint32_t)pe->rank + step) % (uint32_t)pe->size);
        int source = (int)(((uint32_t)pe->rank + (uint32_t)pe->size - step) % (uint32_t)pe->size);
        status = prs_signal_post(pe, prs_heap_word(round), epoch, PERSEUS_SIGNAL_SET, target);
        if (status == PERSEUS_OK) {
            status = await_round(pe, &wait, round, epoch, source);
        }
        round++;
    }
    if (status == PERSEUS_OK) {
        pe->barrier_epoch = epoch;
    }
    return status;
}
