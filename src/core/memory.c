/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/export.h"
#include "core/address.h"

/* What every PE says when it changes the heap. All must say the same: that is what keeps the heap
 * symmetric. It is also the barrier that these calls end with. Cost: one bootstrap allgather, so
 * O(PEs) messages at rank 0; allocation is not for the inner loop. */
struct prs_heap_change {
    uint64_t bytes;  /* asked for; 0: this is a free */
    uint64_t offset; /* given or freed */
};
#define CHANGE_FAILED UINT64_MAX /* offset: there was no room */

static enum perseus_status check_same(const struct perseus_pe *pe,
                                      const struct prs_heap_change *mine,
                                      const struct prs_heap_change *all)
{
    for (int other = 0; other < pe->size; other++) {
        if (all[other].bytes != mine->bytes) {
            return prs_fail(prs_pe_log(pe), PERSEUS_INVALID_ARGUMENT,
                            "PE %d asked for %llu bytes of symmetric heap but this PE for %llu (0 "
                            "is a free); every PE must make the same calls in the same order",
                            other, (unsigned long long)all[other].bytes,
                            (unsigned long long)mine->bytes);
        }
        if (all[other].offset != mine->offset) {
            return prs_fail(prs_pe_log(pe), PERSEUS_INVALID_ARGUMENT,
                            "PE %d means heap offset %llu but this PE %llu; every PE must allocate "
                            "and free the same objects in the same order",
                            other, (unsigned long long)all[other].offset,
                            (unsigned long long)mine->offset);
        }
    }
    return PERSEUS_OK;
}

static enum perseus_status agree_on(struct perseus_pe *pe, const struct prs_heap_change *mine)
{
    struct prs_heap_change *all = calloc((size_t)pe->size, sizeof *all);
    if (all == NULL) {
        return prs_fail(prs_pe_log(pe), PERSEUS_OUT_OF_MEMORY, "no memory for %d PEs", pe->size);
    }
    enum perseus_status status = perseus_quiet(pe);
    if (status == PERSEUS_OK) {
        status = prs_job_gather(&pe->job, mine, all, sizeof *mine);
    }
    if (status == PERSEUS_OK) {
        status = check_same(pe, mine, all);
    }
    free(all);
    return status;
}

PRS_PUBLIC enum perseus_status perseus_malloc(struct perseus_pe *pe, size_t bytes, void **out)
{
    if (bytes == 0) {
        return prs_fail(prs_pe_log(pe), PERSEUS_INVALID_ARGUMENT,
                        "an allocation of 0 bytes; ask for at least one");
    }
    struct prs_heap_change change = {.bytes = bytes, .offset = CHANGE_FAILED};
    enum perseus_status taken = prs_heap_take(pe->heap, bytes, &change.offset);
    enum perseus_status status = agree_on(pe, &change);
    if (taken != PERSEUS_OK) {
        return status != PERSEUS_OK
                   ? status
                   : prs_fail(prs_pe_log(pe), taken,
                              "the symmetric heap has no room for %zu bytes (largest free block: "
                              "%zu of %zu); ask for a larger heap (heap_bytes, PERSEUS_HEAP_BYTES)",
                              bytes, prs_allocator_largest_free(pe->heap->allocator),
                              pe->heap->bytes - PRS_HEAP_RESERVED);
    }
    if (status != PERSEUS_OK) {
        prs_heap_give(pe->heap, change.offset);
        return status;
    }
    *out = pe->heap->base + change.offset;
    return PERSEUS_OK;
}

PRS_PUBLIC enum perseus_status perseus_free(struct perseus_pe *pe, void *symmetric)
{
    if (symmetric == NULL) {
        return PERSEUS_OK;
    }
    struct prs_heap_change change = {0};
    enum perseus_status status = prs_find_symmetric(pe, "symmetric", symmetric, 1, &change.offset);
    if (status != PERSEUS_OK) {
        return status;
    }
    if (!prs_heap_holds(pe->heap, change.offset)) {
        return prs_fail(prs_pe_log(pe), PERSEUS_INVALID_ARGUMENT,
                        "%p is not the beginning of an allocated object; free what perseus_malloc "
                        "gave, once",
                        symmetric);
    }
    status = agree_on(pe, &change);
    return status == PERSEUS_OK ? prs_heap_give(pe->heap, change.offset) : status;
}

PRS_PUBLIC void *perseus_ptr(struct perseus_pe *pe, const void *symmetric, int target)
{
    uint64_t offset = 0;
    if (target < 0 || target >= pe->size || !prs_heap_find(pe->heap, symmetric, 0, &offset)) {
        return NULL;
    }
    unsigned char *heap = prs_local_heap(pe, target);
    return heap != NULL ? heap + offset : NULL;
}

PRS_PUBLIC enum perseus_status perseus_buffer_register(struct perseus_pe *pe, void *base,
                                                       size_t bytes)
{
    if (base == NULL || bytes == 0 || bytes > SIZE_MAX - (uintptr_t)base) {
        return prs_fail(prs_pe_log(pe), PERSEUS_INVALID_ARGUMENT,
                        "%p of %zu bytes is no buffer to register", base, bytes);
    }
    uintptr_t heap = (uintptr_t)pe->heap->base;
    if ((uintptr_t)base < heap + pe->heap->bytes && heap < (uintptr_t)base + bytes) {
        return prs_fail(prs_pe_log(pe), PERSEUS_INVALID_ARGUMENT,
                        "%p of %zu bytes overlaps the symmetric heap, which needs no registration",
                        base, bytes);
    }
    return prs_buffers_add(pe->buffers, base, bytes);
}

PRS_PUBLIC enum perseus_status perseus_buffer_unregister(struct perseus_pe *pe, void *base)
{
    if (!prs_buffers_has(pe->buffers, base)) {
        return prs_fail(prs_pe_log(pe), PERSEUS_INVALID_ARGUMENT,
                        "no registered buffer begins at %p", base);
    }
    enum perseus_status status = perseus_quiet(pe); /* nothing in flight uses it behind this */
    return status == PERSEUS_OK ? prs_buffers_remove(pe->buffers, base) : status;
}
