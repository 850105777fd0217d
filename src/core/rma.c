/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rma.c: puts, gets and puts with signal. Arguments are checked here, once, and become a
 * descriptor; a local peer's heap is then reached by the caller itself, every other one through the
 * channel.
 */
#include <string.h>

#include "base/export.h"
#include "core/address.h"
#include "core/signal.h"
#include "core/submit.h"

/* Copies to or from a local peer's heap. An aligned 8-byte word goes in one piece, with acquire and
 * release, so that an 8-byte put behind a fence can serve as a flag. */
static void copy(void *to, const void *from, size_t bytes)
{
    if (bytes == sizeof(uint64_t) && ((uintptr_t)to | (uintptr_t)from) % sizeof(uint64_t) == 0) {
        /* Acquire: with the release of whoever wrote the word. Release: with perseus_signal_fetch
         * and perseus_signal_wait_until at the other side. */
        uint64_t word = __atomic_load_n((const uint64_t *)from, __ATOMIC_ACQUIRE);
        __atomic_store_n((uint64_t *)to, word, __ATOMIC_RELEASE);
    } else {
        memmove(to, from, bytes);
    }
}

/* Checks the sides of a transfer of desc->bytes, and fills in where they are. `symmetric` is at the
 * target, `local` here. */
static enum perseus_status find_sides(const struct perseus_pe *pe, const void *symmetric,
                                      const void *local, int target, struct prs_desc *desc)
{
    bool is_get = desc->kind == PRS_DESC_GET;
    enum perseus_status status = prs_check_target(pe, target, &desc->peer);
    if (status != PERSEUS_OK || desc->bytes == 0) {
        return status;
    }
    status = prs_find_symmetric(pe, is_get ? "src" : "dst", symmetric, desc->bytes, &desc->remote);
    return status == PERSEUS_OK
               ? prs_find_local(pe, is_get ? "dst" : "src", local, desc->bytes, desc)
               : status;
}

/* Only a get writes to `local`, only a put to `symmetric`. */
static enum perseus_status transfer(struct perseus_pe *pe, enum prs_desc_kind kind,
                                    const void *symmetric, const void *local, size_t bytes,
                                    int target, bool is_blocking)
{
    struct prs_desc desc = {.kind = (uint8_t)kind, .bytes = bytes, .ticket = PRS_DESC_NO_TICKET};
    enum perseus_status status = find_sides(pe, symmetric, local, target, &desc);
    if (status != PERSEUS_OK || bytes == 0) {
        return status;
    }
    unsigned char *heap = prs_local_heap(pe, target);
    if (heap == NULL) {
        return prs_submit_transfer(pe, desc, kind == PRS_DESC_PUT ? "put" : "get", is_blocking);
    }
    if (kind == PRS_DESC_PUT) {
        copy(heap + desc.remote, local, bytes);
    } else {
        copy((void *)(uintptr_t)local, heap + desc.remote, bytes);
    }
    prs_count_local(pe, target);
    return PERSEUS_OK;
}

static enum perseus_status put_signal(struct perseus_pe *pe, void *dst, const void *src,
                                      size_t bytes, uint64_t *signal, uint64_t value,
                                      enum perseus_signal_op op, int target, bool is_blocking)
{
    struct prs_desc desc = {.kind = PRS_DESC_PUT_SIGNAL,
                            .sub = (uint8_t)op,
                            .bytes = bytes,
                            .value = value,
                            .ticket = PRS_DESC_NO_TICKET};
    enum perseus_status status = find_sides(pe, dst, src, target, &desc);
    if (status == PERSEUS_OK) {
        status = prs_signal_check_op(pe, op);
    }
    if (status == PERSEUS_OK) {
        status = prs_find_word(pe, "signal", signal, &desc.signal);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    unsigned char *heap = prs_local_heap(pe, target);
    if (heap == NULL) {
        return prs_submit_transfer(pe, desc, "put with signal", is_blocking);
    }
    if (bytes > 0) {
        copy(heap + desc.remote, src, bytes);
    }
    return prs_signal_post(pe, desc.signal, value, op, target);
}

PRS_PUBLIC enum perseus_status perseus_put_nbi(struct perseus_pe *pe, void *dst, const void *src,
                                               size_t bytes, int target)
{
    return transfer(pe, PRS_DESC_PUT, dst, src, bytes, target, false);
}

PRS_PUBLIC enum perseus_status perseus_put(struct perseus_pe *pe, void *dst, const void *src,
                                           size_t bytes, int target)
{
    return transfer(pe, PRS_DESC_PUT, dst, src, bytes, target, true);
}

PRS_PUBLIC enum perseus_status perseus_get_nbi(struct perseus_pe *pe, void *dst, const void *src,
                                               size_t bytes, int target)
{
    return transfer(pe, PRS_DESC_GET, src, dst, bytes, target, false);
}

PRS_PUBLIC enum perseus_status perseus_get(struct perseus_pe *pe, void *dst, const void *src,
                                           size_t bytes, int target)
{
    return transfer(pe, PRS_DESC_GET, src, dst, bytes, target, true);
}

PRS_PUBLIC enum perseus_status perseus_put_signal_nbi(struct perseus_pe *pe, void *dst,
                                                      const void *src, size_t bytes,
                                                      uint64_t *signal, uint64_t value,
                                                      enum perseus_signal_op op, int target)
{
    return put_signal(pe, dst, src, bytes, signal, value, op, target, false);
}

PRS_PUBLIC enum perseus_status perseus_put_signal(struct perseus_pe *pe, void *dst, const void *src,
                                                  size_t bytes, uint64_t *signal, uint64_t value,
                                                  enum perseus_signal_op op, int target)
{
    return put_signal(pe, dst, src, bytes, signal, value, op, target, true);
}
