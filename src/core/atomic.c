/* SPDX-License-Identifier: Apache-2.0 */
#include "base/export.h"
#include "core/address.h"
#include "core/submit.h"
#include "fabric/word.h"

static enum perseus_status find_word(const struct perseus_pe *pe, const uint64_t *symmetric,
                                     enum perseus_atomic op, enum perseus_atomic last, int target,
                                     uint64_t *out_offset)
{
    if ((unsigned)op > (unsigned)last) {
        return prs_fail(prs_pe_log(pe), PERSEUS_INVALID_ARGUMENT, "%d is no atomic operation %s",
                        (int)op,
                        op == PERSEUS_ATOMIC_COMPARE_SWAP
                            ? "without a result; use perseus_atomic_fetch for compare-and-swap"
                            : "of this library");
    }
    enum perseus_status status = prs_check_target(pe, target, NULL);
    return status == PERSEUS_OK ? prs_find_word(pe, "symmetric", symmetric, out_offset) : status;
}

static uint64_t apply_here(const struct perseus_pe *pe, uint64_t offset, enum perseus_atomic op,
                           uint64_t operand, uint64_t compare, int target)
{
    prs_count_local(pe, target);
    return prs_word_apply((uint64_t *)(void *)(prs_local_heap(pe, target) + offset), op, operand,
                          compare);
}

PRS_PUBLIC enum perseus_status perseus_atomic_nbi(struct perseus_pe *pe, uint64_t *symmetric,
                                                  enum perseus_atomic op, uint64_t operand,
                                                  int target)
{
    uint64_t offset = 0;
    enum perseus_status status = find_word(pe, symmetric, op, PERSEUS_ATOMIC_XOR, target, &offset);
    if (status != PERSEUS_OK) {
        return status;
    }
    if (prs_local_heap(pe, target) != NULL) {
        apply_here(pe, offset, op, operand, 0, target);
        return PERSEUS_OK;
    }
    const struct prs_desc desc = {
        .kind = PRS_DESC_ATOMIC,
        .sub = (uint8_t)op,
        .peer = (uint32_t)target,
        .ticket = PRS_DESC_NO_TICKET,
        .remote = offset,
        .value = operand,
    };
    return prs_submit(pe, &desc, 1);
}

PRS_PUBLIC enum perseus_status perseus_atomic_fetch(struct perseus_pe *pe, uint64_t *symmetric,
                                                    enum perseus_atomic op, uint64_t operand,
                                                    uint64_t compare, int target, uint64_t *out)
{
    uint64_t offset = 0;
    enum perseus_status status =
        find_word(pe, symmetric, op, PERSEUS_ATOMIC_COMPARE_SWAP, target, &offset);
    if (status != PERSEUS_OK) {
        return status;
    }
    if (prs_local_heap(pe, target) != NULL) {
        *out = apply_here(pe, offset, op, operand, compare, target);
        return PERSEUS_OK;
    }
    const struct prs_desc desc = {
        .kind = PRS_DESC_ATOMIC,
        .sub = (uint8_t)op,
        .peer = (uint32_t)target,
        .remote = offset,
        .value = operand,
        .compare = compare,
    };
    return prs_submit_and_wait(pe, desc, "atomic", out);
}
