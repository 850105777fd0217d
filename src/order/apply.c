/* SPDX-License-Identifier: Apache-2.0 */
/* apply.c: what records and riding signals do to this PE's words. */
#include "order/engine.h"

#include <string.h>

#include "fabric/word.h"

uint64_t prs_order_apply(struct prs_orderer *orderer, struct prs_window *window, uint64_t offset,
                         enum perseus_atomic op, uint64_t operand, uint64_t compare, uint32_t bytes)
{
    if (orderer->config.apply != NULL) {
        return orderer->config.apply(orderer->config.context, window, offset, op, operand, compare,
                                     bytes);
    }
    return prs_word_apply_sized(window->region->base + offset, bytes, op, operand, compare);
}

static struct prs_window *target_window(struct prs_orderer *orderer, uint32_t sender, uint32_t id,
                                        uint64_t offset, uint64_t word_bytes, uint64_t bytes)
{
    struct prs_window *window = id < orderer->windows_count ? orderer->windows[id] : NULL;
    if (window == NULL || offset % word_bytes != 0 || offset > window->region->bytes ||
        bytes > window->region->bytes - offset) {
        prs_log(orderer->config.log, PERSEUS_LOG_ERROR,
                "PE %u sent a signal or atomic for window %u offset %llu, which is not an aligned "
                "word of this PE; refused",
                sender, id, (unsigned long long)offset);
        return NULL;
    }
    return window;
}

/* ---- reading ---- */

static bool is_well_formed(const struct prs_orderer *orderer, const struct prs_record *head)
{
    bool is_vector = head->kind == PRS_RECORD_VECTOR;
    return head->kind >= PRS_RECORD_SET && head->kind <= PRS_RECORD_VECTOR &&
           (is_vector ? head->count > 0 && head->count <= PRS_RECORD_VALUES_MAX
                      : prs_word_bytes_valid(head->count)) &&
           prs_word_op_fits(head->atomic, head->count) && head->reply < PRS_REPLIES_MAX &&
           head->next_ring < PRS_MAIL_RINGS && orderer->layout.ring_size[head->next_ring] > 0;
}

bool prs_mail_read(struct prs_orderer *orderer, const struct prs_mail_in *in,
                   struct prs_record *out)
{
    const unsigned char *source =
        orderer->control + prs_mail_place(&orderer->layout, in->ring, in->sender, in->at[in->ring]);
    memcpy(out, source, PRS_RECORD_HEAD_BYTES);
    if (out->number != (uint32_t)in->applied || !is_well_formed(orderer, out)) {
        return false;
    }
    memcpy(out->values, source + PRS_RECORD_HEAD_BYTES,
           prs_record_bytes(out) - PRS_RECORD_HEAD_BYTES);
    return true;
}

/* ---- applying ---- */

bool prs_mail_apply(struct prs_orderer *orderer, uint32_t sender, const struct prs_record *record,
                    uint64_t *out_old)
{
    bool is_vector = record->kind == PRS_RECORD_VECTOR;
    uint32_t word_bytes = is_vector ? sizeof(uint64_t) : record->count;
    uint32_t count = is_vector ? record->count : 1;
    struct prs_window *window = target_window(orderer, sender, record->window, record->offset,
                                              word_bytes, (uint64_t)count * word_bytes);
    *out_old = 0;
    if (window == NULL) {
        return false;
    }
    if (record->kind == PRS_RECORD_ATOMIC || record->kind == PRS_RECORD_FETCH) {
        *out_old =
            prs_order_apply(orderer, window, record->offset, (enum perseus_atomic)record->atomic,
                            record->values[0], record->values[1], word_bytes);
        return true;
    }
    for (uint32_t i = 0; i < count; i++) {
        prs_order_apply(orderer, window, record->offset + i * sizeof(uint64_t), PERSEUS_ATOMIC_SET,
                        record->values[i], 0, word_bytes);
    }
    return true;
}

bool prs_mail_apply_riding(struct prs_orderer *orderer, const struct prs_mail_in *in,
                           const struct prs_immediate *what)
{
    uint64_t value, slot;
    prs_riding_decode(&in->base, what, &value, &slot);
    uint64_t offset = slot * sizeof(uint64_t);
    struct prs_window *window =
        target_window(orderer, in->sender, 0, offset, sizeof(uint64_t), sizeof(uint64_t));
    if (window == NULL) {
        return false;
    }
    prs_order_apply(orderer, window, offset,
                    what->op == PERSEUS_SIGNAL_ADD ? PERSEUS_ATOMIC_ADD : PERSEUS_ATOMIC_SET, value,
                    0, sizeof(uint64_t));
    return true;
}
