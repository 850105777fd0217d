/* SPDX-License-Identifier: Apache-2.0 */
#include "core/rma.h"

#include <string.h>

#include "base/export.h"
#include "core/address.h"
#include "core/submit.h"

void prs_copy(void *to, const void *from, size_t bytes)
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

/* One transfer between `symmetric` at the target and `local` here, whichever way `kind` says. */
struct transfer_args {
    enum prs_desc_kind kind; /* PUT or GET */
    const void *symmetric;
    void *local; /* only read by a put */
    size_t bytes;
    int target;
};

static enum perseus_status find_both(const struct perseus_pe *pe,
                                     const struct transfer_args *transfer,
                                     struct prs_local *out_local, uint64_t *out_remote)
{
    bool is_put = transfer->kind == PRS_DESC_PUT;
    enum perseus_status status = prs_find_symmetric(pe, is_put ? "dst" : "src", transfer->symmetric,
                                                    transfer->bytes, out_remote);
    if (status == PERSEUS_OK) {
        status =
            prs_find_local(pe, is_put ? "src" : "dst", transfer->local, transfer->bytes, out_local);
    }
    return status;
}

static enum perseus_status run(struct perseus_pe *pe, const struct transfer_args *transfer,
                               bool is_blocking)
{
    enum perseus_status status = prs_check_target(pe, transfer->target);
    if (status != PERSEUS_OK || transfer->bytes == 0) {
        return status;
    }
    struct prs_local local = {0};
    uint64_t remote = 0;
    status = find_both(pe, transfer, &local, &remote);
    if (status != PERSEUS_OK) {
        return status;
    }
    bool is_put = transfer->kind == PRS_DESC_PUT;
    unsigned char *heap = prs_local_heap(pe, transfer->target);
    if (heap != NULL) {
        prs_copy(is_put ? heap + remote : transfer->local, is_put ? transfer->local : heap + remote,
                 transfer->bytes);
        prs_count_local(pe, transfer->target);
        return PERSEUS_OK;
    }
    const struct prs_desc desc = {
        .kind = (uint8_t)transfer->kind,
        .local_window = local.window,
        .peer = (uint32_t)transfer->target,
        .ticket = PRS_DESC_NO_TICKET,
        .local = local.offset,
        .remote = remote,
        .bytes = transfer->bytes,
    };
    const char *what = is_put ? "put" : "get";
    if (is_blocking && desc.bytes <= pe->message_bytes_max) {
        return prs_submit_and_wait(pe, desc, what, NULL);
    }
    status = prs_submit_pieces(pe, desc);
    return is_blocking && status == PERSEUS_OK ? prs_submit_quiet(pe, desc.peer, what) : status;
}

static struct transfer_args put_transfer(void *dst, const void *src, size_t bytes, int target)
{
    return (struct transfer_args){PRS_DESC_PUT, dst, (void *)(uintptr_t)src, bytes, target};
}

static struct transfer_args get_transfer(void *dst, const void *src, size_t bytes, int target)
{
    return (struct transfer_args){PRS_DESC_GET, src, dst, bytes, target};
}

PRS_PUBLIC enum perseus_status perseus_put_nbi(struct perseus_pe *pe, void *dst, const void *src,
                                               size_t bytes, int target)
{
    const struct transfer_args transfer = put_transfer(dst, src, bytes, target);
    return run(pe, &transfer, false);
}

PRS_PUBLIC enum perseus_status perseus_put(struct perseus_pe *pe, void *dst, const void *src,
                                           size_t bytes, int target)
{
    const struct transfer_args transfer = put_transfer(dst, src, bytes, target);
    return run(pe, &transfer, true);
}

PRS_PUBLIC enum perseus_status perseus_get_nbi(struct perseus_pe *pe, void *dst, const void *src,
                                               size_t bytes, int target)
{
    const struct transfer_args transfer = get_transfer(dst, src, bytes, target);
    return run(pe, &transfer, false);
}

PRS_PUBLIC enum perseus_status perseus_get(struct perseus_pe *pe, void *dst, const void *src,
                                           size_t bytes, int target)
{
    const struct transfer_args transfer = get_transfer(dst, src, bytes, target);
    return run(pe, &transfer, true);
}
