/* SPDX-License-Identifier: Apache-2.0 */
#include "core/signal.h"

#include "base/export.h"
#include "core/address.h"
#include "core/submit.h"
#include "core/wait.h"
#include "fabric/word.h"

#define VECTOR_DESCS_MAX 57 /* of one vector signal: 1 and its values, on the caller's stack */
#define VECTOR_COUNT_MAX ((VECTOR_DESCS_MAX - 1) * PRS_DESC_VALUES_MAX)

enum perseus_status prs_signal_check_op(const struct perseus_pe *pe, enum perseus_signal_op op)
{
    if (op != PERSEUS_SIGNAL_SET && op != PERSEUS_SIGNAL_ADD) {
        return prs_fail(prs_pe_log(pe), PERSEUS_INVALID_ARGUMENT,
                        "%d is no signal operation; use PERSEUS_SIGNAL_SET or PERSEUS_SIGNAL_ADD",
                        (int)op);
    }
    return PERSEUS_OK;
}

/* A word of a local heap. */
static void apply_here(uint64_t *word, uint64_t value, enum perseus_signal_op op)
{
    if (op == PERSEUS_SIGNAL_SET) {
        /* Release: with perseus_signal_fetch and perseus_signal_wait_until of the target. */
        __atomic_store_n(word, value, __ATOMIC_RELEASE);
    } else {
        prs_word_apply(word, PERSEUS_ATOMIC_ADD, value, 0);
    }
}

enum perseus_status prs_signal_post(struct perseus_pe *pe, uint64_t offset, uint64_t value,
                                    enum perseus_signal_op op, int target)
{
    unsigned char *heap = prs_local_heap(pe, target);
    if (heap != NULL) {
        apply_here((uint64_t *)(void *)(heap + offset), value, op);
        prs_count_local(pe, target);
        return PERSEUS_OK;
    }
    const struct prs_desc desc = {
        .kind = PRS_DESC_SIGNAL,
        .sub = (uint8_t)op,
        .peer = (uint32_t)target,
        .ticket = PRS_DESC_NO_TICKET,
        .remote = offset,
        .value = value,
    };
    return prs_submit(pe, &desc, 1);
}

/* At most VECTOR_COUNT_MAX values, as one descriptor and its values. */
static enum perseus_status push_vector(struct perseus_pe *pe, uint64_t offset,
                                       const uint64_t *values, size_t count, int target)
{
    union prs_desc_slot parts[VECTOR_DESCS_MAX]; /* back to back, as descriptors are */
    uint32_t n = 0;
    parts[n++].desc = (struct prs_desc){
        .kind = PRS_DESC_SIGNAL_VECTOR,
        .sub = PERSEUS_SIGNAL_SET,
        .peer = (uint32_t)target,
        .ticket = PRS_DESC_NO_TICKET,
        .remote = offset,
        .bytes = count * sizeof(uint64_t),
    };
    while (count > 0) {
        uint32_t some = prs_desc_take_values(&parts[n], values, count);
        values += some;
        count -= some;
        n++;
    }
    return prs_submit(pe, &parts[0].desc, n);
}

enum perseus_status prs_signal_post_vector(struct perseus_pe *pe, uint64_t offset,
                                           const uint64_t *values, size_t count, int target)
{
    unsigned char *heap = prs_local_heap(pe, target);
    if (heap != NULL) {
        uint64_t *words = (uint64_t *)(void *)(heap + offset);
        for (size_t i = 0; i < count; i++) {
            apply_here(&words[i], values[i], PERSEUS_SIGNAL_SET);
        }
        prs_count_local(pe, target);
        return PERSEUS_OK;
    }
    size_t channel_max = prs_channel_vector_max(pe->channel);
    size_t some_max = channel_max < VECTOR_COUNT_MAX ? channel_max : VECTOR_COUNT_MAX;
    enum perseus_status status = PERSEUS_OK;
    while (count > 0 && status == PERSEUS_OK) {
        size_t some = count < some_max ? count : some_max;
        status = push_vector(pe, offset, values, some, target);
        offset += some * sizeof(uint64_t);
        values += some;
        count -= some;
    }
    return status;
}

/* ---- public calls ---- */

PRS_PUBLIC enum perseus_status perseus_signal_op(struct perseus_pe *pe, uint64_t *signal,
                                                 uint64_t value, enum perseus_signal_op op,
                                                 int target)
{
    uint64_t offset = 0;
    enum perseus_status status = prs_check_target(pe, target, NULL);
    if (status == PERSEUS_OK) {
        status = prs_signal_check_op(pe, op);
    }
    if (status == PERSEUS_OK) {
        status = prs_find_word(pe, "signal", signal, &offset);
    }
    return status == PERSEUS_OK ? prs_signal_post(pe, offset, value, op, target) : status;
}

PRS_PUBLIC enum perseus_status perseus_signal_set_vector(struct perseus_pe *pe, uint64_t *signals,
                                                         const uint64_t *values, size_t count,
                                                         int target)
{
    uint64_t offset = 0;
    enum perseus_status status = prs_check_target(pe, target, NULL);
    if (status != PERSEUS_OK || count == 0) {
        return status;
    }
    status = prs_find_word(pe, "signals", signals, &offset);
    if (status == PERSEUS_OK) {
        size_t bytes = count <= SIZE_MAX / sizeof *values ? count * sizeof *values : SIZE_MAX;
        status = prs_find_symmetric(pe, "signals", signals, bytes, &offset);
    }
    return status == PERSEUS_OK ? prs_signal_post_vector(pe, offset, values, count, target)
                                : status;
}

static bool compare(uint64_t seen, enum perseus_cmp cmp, uint64_t value)
{
    switch (cmp) {
    case PERSEUS_CMP_EQ:
        return seen == value;
    case PERSEUS_CMP_NE:
        return seen != value;
    case PERSEUS_CMP_GT:
        return seen > value;
    case PERSEUS_CMP_GE:
        return seen >= value;
    case PERSEUS_CMP_LT:
        return seen < value;
    case PERSEUS_CMP_LE:
        return seen <= value;
    }
    return false;
}

PRS_PUBLIC enum perseus_status perseus_signal_wait_until(struct perseus_pe *pe,
                                                         const uint64_t *signal,
                                                         enum perseus_cmp cmp, uint64_t value,
                                                         uint32_t timeout_ms, uint64_t *out)
{
    if ((unsigned)cmp > PERSEUS_CMP_LE) {
        return prs_fail(prs_pe_log(pe), PERSEUS_INVALID_ARGUMENT, "%d is no comparison", (int)cmp);
    }
    uint64_t offset = 0;
    enum perseus_status status = prs_find_word(pe, "signal", signal, &offset);
    if (status != PERSEUS_OK) {
        return status;
    }
    uint64_t seen = 0;
    status = prs_heap_load(pe->heap, offset, &seen);
    if (status == PERSEUS_OK && !compare(seen, cmp, value)) {
        struct prs_wait wait = prs_wait_begin(pe, timeout_ms);
        do {
            if (status != PERSEUS_OK) {
                return prs_wait_fail(&wait, status,
                                     "waiting for the signal at heap offset %llu (it is %llu, "
                                     "awaited %llu)",
                                     (unsigned long long)(offset - PRS_HEAP_RESERVED),
                                     (unsigned long long)seen, (unsigned long long)value);
            }
            status = prs_wait_step(&wait);
            enum perseus_status loaded = prs_heap_load(pe->heap, offset, &seen);
            status = loaded != PERSEUS_OK ? loaded : status;
        } while (!compare(seen, cmp, value));
        status = PERSEUS_OK;
    }
    if (out != NULL && status == PERSEUS_OK) {
        *out = seen;
    }
    return status;
}

PRS_PUBLIC uint64_t perseus_signal_fetch(const uint64_t *signal)
{
    /* Acquire: with the releases of apply_here and of the fabrics' signal writes. */
    return __atomic_load_n(signal, __ATOMIC_ACQUIRE);
}
