/* SPDX-License-Identifier: Apache-2.0 */
/* operation.c: how each operation of a request is made. It takes all that it will ever need. */
#include "order/engine.h"

#include <string.h>

/* From `memory`, the operation's own: inline if it fits, else from its staging slot. */
static void set_source(struct prs_orderer *orderer, struct prs_pending *pending, void *memory)
{
    struct prs_op *op = &pending->op;
    bool fits = op->bytes <= orderer->caps.inline_bytes;
    op->flags = fits ? PRS_OP_INLINE : 0;
    op->inline_source = fits ? memory : NULL;
    if (!fits) {
        op->local = orderer->control_region;
        op->local_offset = orderer->layout.staging + (uint64_t)pending->stage * PRS_STAGE_BYTES;
    }
}

/* A put of `bytes` that the operation itself keeps, in it or in a staging slot: it may be parked,
 * and the caller's source may be a stack. *out_memory: to be filled. NULL: a pool is empty. */
static struct prs_pending *take_sending(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                        uint32_t token, uint64_t bytes, void **out_memory)
{
    bool is_small = bytes <= PRS_SMALL_BYTES && bytes <= orderer->caps.inline_bytes;
    struct prs_pending *pending = is_small ? prs_pending_take(orderer, peer, token)
                                           : prs_pending_take_staged(orderer, peer, token);
    if (pending == NULL) {
        return NULL;
    }
    void *memory = is_small ? pending->small : prs_stage_memory(orderer, pending->stage);
    pending->op.kind = PRS_OP_PUT;
    pending->op.bytes = bytes;
    set_source(orderer, pending, memory);
    *out_memory = memory;
    return pending;
}

/* The words must lie in the window, aligned: what the target would refuse is refused here. */
static enum perseus_status check_words(const struct prs_orderer *orderer,
                                       const struct prs_order_peer *peer,
                                       const struct prs_window_remote *remote, uint64_t offset,
                                       uint64_t word_bytes, uint64_t bytes)
{
    uint64_t room = remote->remote->bytes;
    if (offset % word_bytes == 0 && offset <= room && bytes <= room - offset) {
        return PERSEUS_OK;
    }
    return prs_fail(orderer->config.log, PERSEUS_INVALID_ARGUMENT,
                    "a signal or atomic of %llu bytes to PE %u at offset %llu: it must be a "
                    "multiple of %llu and lie within the %llu bytes there",
                    (unsigned long long)bytes, peer->rank, (unsigned long long)offset,
                    (unsigned long long)word_bytes, (unsigned long long)room);
}

/* ---- records ---- */

static enum perseus_status take_record(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                       const struct prs_record *head, uint32_t token,
                                       struct prs_pending **out)
{
    if (peer->control == NULL) {
        return prs_fail(orderer->config.log, PERSEUS_NOT_SUPPORTED,
                        "PE %u cannot be sent atomics or ADD signals: this fabric (%s) has neither "
                        "atomics coherent with the CPU nor immediate data. Use SET signals, or set "
                        "PERSEUS_NATIVE_ATOMICS=1 if no PE touches those words from its CPU",
                        peer->rank, orderer->caps.provider);
    }
    void *memory;
    *out = take_sending(orderer, peer, token, prs_record_bytes(head), &memory);
    if (*out == NULL) {
        return PERSEUS_AGAIN;
    }
    (*out)->form = PRS_FORM_RECORD;
    memcpy(memory, head, PRS_RECORD_HEAD_BYTES);
    return PERSEUS_OK;
}

static enum perseus_status record_word(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                       const struct prs_word *word, uint32_t token,
                                       struct prs_pending **out)
{
    bool sets = word->op == PERSEUS_ATOMIC_SET && word->bytes == sizeof(uint64_t) && !word->fetch;
    struct prs_record head = {.window = (uint16_t)word->remote->window,
                              .kind = word->fetch ? PRS_RECORD_FETCH
                                      : sets      ? PRS_RECORD_SET
                                                  : PRS_RECORD_ATOMIC,
                              .atomic = (uint8_t)word->op,
                              .count = (uint8_t)word->bytes,
                              .offset = word->offset};
    enum perseus_status status = take_record(orderer, peer, &head, token, out);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_record *record = prs_mail_record(orderer, *out);
    record->values[0] = word->value;
    if (!sets) {
        record->values[1] = word->compare;
    }
    if (word->fetch) {
        if (!prs_reply_take(orderer, *out)) {
            prs_pending_give_back(orderer, *out);
            return PERSEUS_AGAIN;
        }
        record->reply = (uint8_t)(*out)->reply;
    }
    return PERSEUS_OK;
}

static enum perseus_status record_vector(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                         const struct prs_request *request, uint32_t token,
                                         struct prs_pending **out)
{
    struct prs_record head = {.window = (uint16_t)request->remote->window,
                              .kind = PRS_RECORD_VECTOR,
                              .count = (uint8_t)(request->bytes / sizeof(uint64_t)),
                              .offset = request->remote_offset};
    enum perseus_status status = take_record(orderer, peer, &head, token, out);
    if (status == PERSEUS_OK) {
        memcpy(prs_mail_record(orderer, *out)->values, request->values, request->bytes);
    }
    return status;
}

/* ---- words ---- */

static bool is_record(const struct prs_orderer *orderer, const struct prs_word *word)
{
    bool sets = word->op == PERSEUS_ATOMIC_SET && !word->fetch;
    uint32_t native = word->fetch ? orderer->atomics_fetch_native : orderer->atomics_native;
    bool narrow = word->bytes != sizeof(uint64_t); /* fabrics have 8-byte words only */
    return orderer->signals_are_records || narrow || (!sets && (native >> word->op & 1) == 0);
}

enum perseus_status prs_operation_word(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                       const struct prs_word *word, uint32_t token,
                                       struct prs_pending **out)
{
    enum perseus_status status =
        check_words(orderer, peer, word->remote, word->offset, word->bytes, word->bytes);
    if (status != PERSEUS_OK) {
        return status;
    }
    if (is_record(orderer, word)) {
        return record_word(orderer, peer, word, token, out);
    }
    struct prs_pending *pending = word->fetch ? prs_pending_take_staged(orderer, peer, token)
                                              : prs_pending_take(orderer, peer, token);
    if (pending == NULL) {
        return PERSEUS_AGAIN;
    }
    bool sets = word->op == PERSEUS_ATOMIC_SET && !word->fetch;
    struct prs_op *op = &pending->op;
    op->kind = sets ? PRS_OP_SIGNAL_SET : word->fetch ? PRS_OP_ATOMIC_FETCH : PRS_OP_ATOMIC;
    op->atomic = (uint8_t)word->op;
    op->remote = word->remote->remote;
    op->remote_offset = word->offset;
    op->bytes = sizeof(uint64_t);
    op->value = word->value;
    op->compare = word->compare;
    if (word->fetch) {
        pending->result_in_stage = true;
        op->local = orderer->control_region;
        op->local_offset = orderer->layout.staging + (uint64_t)pending->stage * PRS_STAGE_BYTES;
    }
    *out = pending;
    return PERSEUS_OK;
}

enum perseus_status prs_operation_vector(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                         const struct prs_request *request, uint32_t token,
                                         struct prs_pending **out)
{
    uint32_t max = prs_orderer_vector_max(orderer);
    uint64_t count = request->bytes / sizeof(uint64_t);
    if (count == 0 || request->bytes % sizeof(uint64_t) != 0 || count > max) {
        return prs_fail(orderer->config.log, PERSEUS_INVALID_ARGUMENT,
                        "a signal vector of %llu bytes to PE %u: 1 to %u values of 8 bytes go in "
                        "one",
                        (unsigned long long)request->bytes, peer->rank, max);
    }
    enum perseus_status status = check_words(orderer, peer, request->remote, request->remote_offset,
                                             sizeof(uint64_t), request->bytes);
    if (status != PERSEUS_OK) {
        return status;
    }
    if (orderer->signals_are_records) {
        return record_vector(orderer, peer, request, token, out);
    }
    void *memory;
    *out = take_sending(orderer, peer, token, request->bytes, &memory);
    if (*out == NULL) {
        return PERSEUS_AGAIN;
    }
    memcpy(memory, request->values, request->bytes);
    (*out)->op.remote = request->remote->remote;
    (*out)->op.remote_offset = request->remote_offset;
    return PERSEUS_OK;
}

/* ---- joining ---- */

/* The record moves to a staging slot, where a vector has room. */
static bool make_room(struct prs_orderer *orderer, struct prs_pending *pending)
{
    if (pending->stage != PRS_NONE) {
        return true;
    }
    if (!prs_stage_take(orderer, pending)) {
        return false;
    }
    memcpy(prs_stage_memory(orderer, pending->stage), pending->small, sizeof pending->small);
    return true;
}

/* What is behind a fence behind the record is behind all its signals: none joins it then. */
bool prs_operation_join(struct prs_orderer *orderer, struct prs_order_peer *peer,
                        const struct prs_word *word, uint64_t after)
{
    struct prs_pending *pending = prs_order_parked_tail(orderer, peer);
    if (pending == NULL || !pending->gathers || pending->of_peer.epoch < peer->fence_after) {
        return false;
    }
    struct prs_record *record = prs_mail_record(orderer, pending);
    uint32_t count = record->kind == PRS_RECORD_VECTOR ? record->count : 1;
    uint64_t next = record->offset + count * sizeof(uint64_t);
    uint64_t room = word->remote->remote->bytes;
    if (record->window != word->remote->window || word->offset != next ||
        count == PRS_RECORD_VALUES_MAX || next > room || sizeof(uint64_t) > room - next ||
        !make_room(orderer, pending)) {
        return false;
    }
    record = prs_mail_record(orderer, pending);
    record->kind = PRS_RECORD_VECTOR;
    record->values[count] = word->value;
    record->count = (uint8_t)(count + 1);
    pending->op.bytes = prs_record_bytes(record);
    set_source(orderer, pending, record);
    /* As if all of it came now. */
    pending->after = after > pending->after ? after : pending->after;
    prs_epochs_remove(&peer->epochs, &pending->of_peer);
    prs_epochs_add(&peer->epochs, &pending->of_peer);
    return true;
}

/* ---- transfers ---- */

enum perseus_status prs_operation_transfer(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                           const struct prs_request *request, uint32_t token,
                                           struct prs_pending **out)
{
    const void *source = request->kind == PRS_REQUEST_PUT ? request->inline_source : NULL;
    if (source != NULL && request->bytes > PRS_REQUEST_INLINE_MAX) {
        return prs_fail(orderer->config.log, PERSEUS_INVALID_ARGUMENT,
                        "an inline put of %llu bytes to PE %u: at most %u",
                        (unsigned long long)request->bytes, peer->rank, PRS_REQUEST_INLINE_MAX);
    }
    void *memory;
    struct prs_pending *pending = source != NULL
                                      ? take_sending(orderer, peer, token, request->bytes, &memory)
                                      : prs_pending_take(orderer, peer, token);
    if (pending == NULL) {
        return PERSEUS_AGAIN;
    }
    struct prs_op *op = &pending->op;
    op->kind = request->kind == PRS_REQUEST_GET ? PRS_OP_GET : PRS_OP_PUT;
    op->remote = request->remote->remote;
    op->remote_offset = request->remote_offset;
    op->bytes = request->bytes;
    if (source != NULL) {
        memcpy(memory, source, request->bytes);
    } else {
        op->local = request->local;
        op->local_offset = request->local_offset;
    }
    if (request->kind == PRS_REQUEST_GET) {
        pending->after = 0; /* fences do not order gets */
    }
    *out = pending;
    return PERSEUS_OK;
}

bool prs_operation_rides(const struct prs_orderer *orderer, const struct prs_order_peer *peer,
                         const struct prs_request *request)
{
    const struct prs_window_remote *remote = request->signal_remote;
    return orderer->signals_ride && peer->control != NULL && remote->window == 0 &&
           request->signal_offset % sizeof(uint64_t) == 0 &&
           request->signal_offset < remote->remote->bytes &&
           prs_riding_fits(&peer->mail_out.base, request->value,
                           request->signal_offset / sizeof(uint64_t));
}

enum perseus_status prs_operation_riding(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                         const struct prs_request *request, uint32_t token,
                                         struct prs_pending **out)
{
    enum perseus_status status = prs_operation_transfer(orderer, peer, request, token, out);
    if (status == PERSEUS_OK) {
        struct prs_immediate what;
        prs_riding_encode(&peer->mail_out.base, request->value,
                          request->signal_offset / sizeof(uint64_t), &what);
        (*out)->form = PRS_FORM_RIDING;
        (*out)->riding_op = (enum perseus_signal_op)request->op;
        (*out)->riding_value = what.value;
        (*out)->riding_slot = what.slot;
    }
    return status;
}
