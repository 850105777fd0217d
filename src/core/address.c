/* SPDX-License-Identifier: Apache-2.0 */
#include "core/address.h"

enum perseus_status prs_check_target(const struct perseus_pe *pe, int target, uint32_t *out_peer)
{
    if (target < 0 || target >= pe->size) {
        return prs_fail(prs_pe_log(pe), PERSEUS_INVALID_ARGUMENT,
                        "there is no PE %d: this job has PEs 0 to %d", target, pe->size - 1);
    }
    if (out_peer != NULL) {
        *out_peer = (uint32_t)target;
    }
    return PERSEUS_OK;
}

enum perseus_status prs_find_symmetric(const struct perseus_pe *pe, const char *argument,
                                       const void *address, size_t bytes, uint64_t *out_offset)
{
    if (prs_heap_find(pe->heap, address, bytes, out_offset)) {
        return PERSEUS_OK;
    }
    const unsigned char *base = pe->heap->base;
    return prs_fail(prs_pe_log(pe), PERSEUS_OUT_OF_RANGE,
                    "%s %p of %zu bytes is outside the symmetric heap (%p to %p); use memory from "
                    "perseus_malloc",
                    argument, address, bytes, (const void *)(base + PRS_HEAP_RESERVED),
                    (const void *)(base + pe->heap->bytes));
}

enum perseus_status prs_find_word(const struct perseus_pe *pe, const char *argument,
                                  const uint64_t *address, uint64_t *out_offset)
{
    if ((uintptr_t)address % sizeof *address != 0) {
        return prs_fail(prs_pe_log(pe), PERSEUS_INVALID_ARGUMENT,
                        "%s %p is not aligned to 8 bytes, which signals and atomics need", argument,
                        (const void *)address);
    }
    return prs_find_symmetric(pe, argument, address, sizeof *address, out_offset);
}

enum perseus_status prs_find_local(const struct perseus_pe *pe, const char *argument,
                                   const void *address, size_t bytes, struct prs_desc *out)
{
    if (prs_heap_find(pe->heap, address, bytes, &out->local)) {
        out->local_window = PRS_WINDOW_HEAP;
        return PERSEUS_OK;
    }
    if (prs_buffers_find(pe->buffers, address, bytes, &out->local_window, &out->local)) {
        return PERSEUS_OK;
    }
    return prs_fail(prs_pe_log(pe), PERSEUS_OUT_OF_RANGE,
                    "%s %p of %zu bytes is outside the symmetric heap and every registered buffer; "
                    "call perseus_buffer_register for it first",
                    argument, address, bytes);
}
