/* SPDX-License-Identifier: Apache-2.0 */
/* submit.c: requests become items. Everything a request may need is taken before anything is
 * posted, so AGAIN really means that nothing happened. */
#include "order/engine.h"

#include <string.h>

#include "fabric/word.h"

/* ---- placing an item: post it, or park it behind its peer's others ---- */

enum perseus_status prs_order_place(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                    struct prs_item *item, bool may_overtake)
{
    prs_pending_open(orderer, item->pending);
    const struct prs_item *head = prs_order_parked_head(peer);
    /* A plain put may pass parked operations, but not those it must be after (nor any of its own
     * fence). */
    bool free_way =
        head == NULL || (may_overtake && item->after <= orderer->pendings[head->pending].epoch);
    if (free_way) {
        bool wait;
        enum perseus_status status = prs_order_try(orderer, peer, item, &wait);
        if (status != PERSEUS_AGAIN || (!wait && item->form == PRS_ITEM_DIRECT)) {
            return status;
        }
    }
    if (!prs_order_can_park(orderer, peer)) {
        return PERSEUS_AGAIN;
    }
    prs_order_park(orderer, peer, item);
    return PERSEUS_OK;
}

/* ---- building items ---- */

void prs_op_set_source(struct prs_orderer *orderer, struct prs_op *op, const void *source,
                       uint32_t stage)
{
    if (op->bytes <= orderer->caps.inline_bytes) {
        op->flags |= PRS_OP_INLINE;
        op->inline_source = source;
    } else {
        op->local = orderer->control_region;
        op->local_offset = orderer->control_layout.staging + (uint64_t)stage * PRS_STAGE_BYTES;
    }
}

static enum perseus_status pending_item(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                        uint32_t job, bool staged, struct prs_item *out)
{
    uint32_t pending = prs_pending_take(orderer, peer, job);
    if (pending == PRS_NONE) {
        return PERSEUS_AGAIN;
    }
    if (staged) {
        uint32_t stage = prs_stage_take(orderer);
        if (stage == PRS_NONE) {
            prs_pending_give_back(orderer, pending);
            return PERSEUS_AGAIN;
        }
        orderer->pendings[pending].stage = stage;
    }
    *out = (struct prs_item){.after = peer->fence_after, .pending = pending};
    out->op.peer = peer->fabric_peer;
    return PERSEUS_OK;
}

struct prs_record *prs_item_record(struct prs_orderer *orderer, const struct prs_item *item)
{
    return prs_stage_memory(orderer, orderer->pendings[item->pending].stage);
}

enum perseus_status prs_record_item(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                    uint32_t job, struct prs_item *out)
{
    if (peer->control == NULL) {
        return prs_fail(orderer->config.log, PERSEUS_NOT_SUPPORTED,
                        "PE %u cannot be sent atomics or ADD signals: this fabric (%s) has neither "
                        "atomics coherent with the CPU nor immediate data. Use SET signals, or set "
                        "PERSEUS_NATIVE_ATOMICS=1 if no PE touches those words from its CPU",
                        peer->rank, orderer->caps.provider);
    }
    enum perseus_status status = pending_item(orderer, peer, job, true, out);
    if (status != PERSEUS_OK) {
        return status;
    }
    orderer->pendings[out->pending].waits |= PRS_WAIT_ACK;
    struct prs_record *record = prs_item_record(orderer, out);
    memset(record, 0, PRS_RECORD_HEAD_BYTES);
    out->form = PRS_ITEM_RECORD;
    out->op.kind = PRS_OP_PUT;
    out->op.bytes = PRS_RECORD_HEAD_BYTES;
    prs_op_set_source(orderer, &out->op, record, orderer->pendings[out->pending].stage);
    return PERSEUS_OK;
}

struct word_target { /* one signal or atomic, whatever request it came from */
    struct prs_window_remote *remote;
    uint64_t offset;
    enum perseus_atomic op;
    uint64_t value, compare;
    uint64_t bytes;
    bool fetch;
};

static enum perseus_status record_word(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                       const struct word_target *word, uint32_t job,
                                       struct prs_item *out)
{
    enum perseus_status status = prs_record_item(orderer, peer, job, out);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_record *record = prs_item_record(orderer, out);
    record->kind = word->fetch ? PRS_RECORD_FETCH : PRS_RECORD_ATOMIC;
    record->atomic = (uint8_t)word->op;
    record->count = (uint16_t)word->bytes;
    record->window = word->remote->window;
    record->offset = word->offset;
    record->value = word->value;
    record->compare = word->compare;
    if (word->fetch) {
        uint32_t reply = prs_reply_take(orderer);
        if (reply == PRS_NONE) {
            prs_pending_give_back(orderer, out->pending);
            return PERSEUS_AGAIN;
        }
        record->reply = reply;
        orderer->reply_pending[reply] = out->pending;
        orderer->pendings[out->pending].reply = reply;
        orderer->pendings[out->pending].waits |= PRS_WAIT_REPLY;
    }
    return PERSEUS_OK;
}

static enum perseus_status word_item(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                     const struct word_target *word, uint32_t job,
                                     struct prs_item *out)
{
    bool set = word->op == PERSEUS_ATOMIC_SET && !word->fetch;
    uint32_t native = word->fetch ? orderer->atomics_fetch_native : orderer->atomics_native;
    bool narrow = word->bytes != sizeof(uint64_t); /* fabrics have 8-byte words only */
    if (orderer->signals_are_records || narrow || (!set && (native >> word->op & 1) == 0)) {
        return record_word(orderer, peer, word, job, out);
    }
    enum perseus_status status = pending_item(orderer, peer, job, word->fetch, out);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_pending *pending = &orderer->pendings[out->pending];
    out->op.kind = set ? PRS_OP_SIGNAL_SET : word->fetch ? PRS_OP_ATOMIC_FETCH : PRS_OP_ATOMIC;
    out->op.atomic = (uint8_t)word->op;
    out->op.remote = word->remote->remote;
    out->op.remote_offset = word->offset;
    out->op.bytes = sizeof(uint64_t);
    out->op.value = word->value;
    out->op.compare = word->compare;
    if (word->fetch) {
        pending->result_in_stage = true;
        out->op.local = orderer->control_region;
        out->op.local_offset =
            orderer->control_layout.staging + (uint64_t)pending->stage * PRS_STAGE_BYTES;
    }
    return PERSEUS_OK;
}

static enum perseus_status vector_item(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                       const struct prs_request *request, uint32_t job,
                                       struct prs_item *out)
{
    enum perseus_status status;
    if (orderer->signals_are_records) {
        status = prs_record_item(orderer, peer, job, out);
        if (status != PERSEUS_OK) {
            return status;
        }
        struct prs_record *record = prs_item_record(orderer, out);
        record->kind = PRS_RECORD_VECTOR;
        record->count = (uint16_t)(request->bytes / sizeof(uint64_t));
        record->window = request->remote->window;
        record->offset = request->remote_offset;
        memcpy(record->values, request->values, request->bytes);
        out->op.bytes = PRS_RECORD_HEAD_BYTES + request->bytes;
        out->op.flags = 0;
        prs_op_set_source(orderer, &out->op, record, orderer->pendings[out->pending].stage);
        return PERSEUS_OK;
    }
    status = pending_item(orderer, peer, job, true, out);
    if (status != PERSEUS_OK) {
        return status;
    }
    uint32_t stage = orderer->pendings[out->pending].stage;
    void *values = prs_stage_memory(orderer, stage);
    memcpy(values, request->values, request->bytes);
    out->op.kind = PRS_OP_PUT;
    out->op.remote = request->remote->remote;
    out->op.remote_offset = request->remote_offset;
    out->op.bytes = request->bytes;
    prs_op_set_source(orderer, &out->op, values, stage);
    return PERSEUS_OK;
}

static enum perseus_status transfer_item(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                         const struct prs_request *request, uint32_t job,
                                         struct prs_item *out)
{
    const void *source = request->kind == PRS_REQUEST_PUT ? request->inline_source : NULL;
    if (source != NULL && request->bytes > PRS_REQUEST_INLINE_MAX) {
        return prs_fail(orderer->config.log, PERSEUS_INVALID_ARGUMENT,
                        "an inline put of %llu bytes to PE %u: at most %u",
                        (unsigned long long)request->bytes, peer->rank, PRS_REQUEST_INLINE_MAX);
    }
    enum perseus_status status = pending_item(orderer, peer, job, source != NULL, out);
    if (status != PERSEUS_OK) {
        return status;
    }
    out->op.kind = request->kind == PRS_REQUEST_GET ? PRS_OP_GET : PRS_OP_PUT;
    out->op.local = request->local;
    out->op.local_offset = request->local_offset;
    out->op.remote = request->remote->remote;
    out->op.remote_offset = request->remote_offset;
    out->op.bytes = request->bytes;
    if (request->kind == PRS_REQUEST_GET) {
        out->after = 0; /* fences do not order gets */
    } else if (source != NULL) {
        /* Copied now: the operation may be parked, and the source is the caller's stack. */
        uint32_t stage = orderer->pendings[out->pending].stage;
        void *copy = prs_stage_memory(orderer, stage);
        memcpy(copy, source, request->bytes);
        prs_op_set_source(orderer, &out->op, copy, stage);
    }
    return PERSEUS_OK;
}

/* ---- requests ---- */

static void count_transfer(struct prs_order_peer *peer, const struct prs_request *request)
{
    struct prs_counters *counters = &peer->counters;
    if (request->kind == PRS_REQUEST_GET) {
        prs_count(&counters->gets, 1);
        prs_count(&counters->get_bytes, request->bytes);
    } else {
        prs_count(&counters->puts, 1);
        prs_count(&counters->put_bytes, request->bytes);
    }
}

static enum perseus_status place_one(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                     struct prs_item *item, bool may_overtake)
{
    enum perseus_status status = prs_order_place(orderer, peer, item, may_overtake);
    if (status != PERSEUS_OK) {
        prs_pending_give_back(orderer, item->pending);
    }
    return status;
}

static struct word_target signal_of(const struct prs_request *request)
{
    bool alone = request->kind == PRS_REQUEST_SIGNAL;
    return (struct word_target){.remote = alone ? request->remote : request->signal_remote,
                                .offset = alone ? request->remote_offset : request->signal_offset,
                                .op = request->op == PERSEUS_SIGNAL_ADD ? PERSEUS_ATOMIC_ADD
                                                                        : PERSEUS_ATOMIC_SET,
                                .value = request->value,
                                .bytes = sizeof(uint64_t)};
}

/* counted: the put's own immediate carries the signal, if it fits; then there is no second message.
 */
static bool signal_rides(const struct prs_orderer *orderer, const struct prs_request *request)
{
    return orderer->has_immediate_signals && request->signal_remote->window == 0 &&
           prs_immediate_fits(&orderer->immediate, request->value,
                              request->signal_offset / sizeof(uint64_t));
}

static enum perseus_status submit_riding(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                         const struct prs_request *request, uint32_t job)
{
    struct prs_item item;
    enum perseus_status status = transfer_item(orderer, peer, request, job, &item);
    if (status != PERSEUS_OK) {
        return status;
    }
    item.immediate_signal = true;
    item.op.immediate = prs_immediate_encode(
        &orderer->immediate,
        &(struct prs_immediate){.kind = PRS_IMMEDIATE_SIGNAL,
                                .sender = orderer->config.self,
                                .op = (enum perseus_signal_op)request->op,
                                .value = request->value,
                                .slot = request->signal_offset / sizeof(uint64_t)});
    peer->mail_out.signals_parked++; /* until posted */
    status = place_one(orderer, peer, &item, true);
    if (status != PERSEUS_OK) {
        peer->mail_out.signals_parked -= !peer->lost; /* a lost peer's are written off already */
        return status;
    }
    if (!peer->unacked_listed) {
        peer->unacked_listed = true;
        peer->unacked_next = orderer->unacked_list;
        orderer->unacked_list = peer;
    }
    count_transfer(peer, request);
    prs_count(&peer->counters.signals, 1);
    return PERSEUS_OK;
}

/* Put, fence of this peer, signal. After the put was posted nothing may fail for lack of room. */
static enum perseus_status submit_put_signal(struct prs_orderer *orderer,
                                             struct prs_order_peer *peer,
                                             const struct prs_request *request, uint32_t job)
{
    if (signal_rides(orderer, request)) {
        return submit_riding(orderer, peer, request, job);
    }
    if (peer->parked_count + 2 > orderer->config.parked_max || !prs_epochs_can_end(&peer->epochs)) {
        return PERSEUS_AGAIN;
    }
    struct word_target word = signal_of(request);
    struct prs_item put, signal;
    enum perseus_status status = word_item(orderer, peer, &word, job, &signal);
    if (status != PERSEUS_OK) {
        return status;
    }
    status = transfer_item(orderer, peer, request, job, &put);
    if (status == PERSEUS_OK) {
        status = place_one(orderer, peer, &put, true);
    }
    if (status != PERSEUS_OK) {
        prs_pending_give_back(orderer, signal.pending);
        return status;
    }
    count_transfer(peer, request);
    signal.after = prs_epochs_end(&peer->epochs);
    prs_count(&peer->counters.fences, 1);
    if (orderer->mode->stalls) {
        prs_order_stall_begin(orderer, peer);
    }
    status = prs_order_place(orderer, peer, &signal, false);
    if (status == PERSEUS_AGAIN) {
        prs_order_park(orderer, peer, &signal); /* room was checked above */
        status = PERSEUS_OK;
    }
    if (status != PERSEUS_OK) {
        prs_pending_clear(orderer, signal.pending, PRS_WAIT_LOCAL | PRS_WAIT_ACK, status);
        return PERSEUS_OK; /* the put is out: the error reaches the token and the next quiet */
    }
    prs_count(&peer->counters.signals, 1);
    prs_count(&peer->counters.signal_messages, 1);
    return PERSEUS_OK;
}

static enum perseus_status submit_transfer(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                           const struct prs_request *request, uint32_t job)
{
    struct prs_item item;
    enum perseus_status status = transfer_item(orderer, peer, request, job, &item);
    if (status == PERSEUS_OK) {
        status = place_one(orderer, peer, &item, true);
    }
    if (status == PERSEUS_OK) {
        count_transfer(peer, request);
    }
    return status;
}

static enum perseus_status submit_word(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                       const struct word_target *word, bool is_signal, uint32_t job)
{
    struct prs_item item;
    enum perseus_status status = word_item(orderer, peer, word, job, &item);
    if (status == PERSEUS_OK) {
        status = place_one(orderer, peer, &item, false);
    }
    if (status == PERSEUS_OK && is_signal) {
        prs_count(&peer->counters.signals, 1);
        prs_count(&peer->counters.signal_messages, 1);
    } else if (status == PERSEUS_OK) {
        prs_count(&peer->counters.atomics, 1);
    }
    return status;
}

static enum perseus_status submit_vector(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                         const struct prs_request *request, uint32_t job)
{
    uint64_t count = request->bytes / sizeof(uint64_t);
    if (count == 0 || request->bytes % sizeof(uint64_t) != 0 ||
        count > prs_orderer_vector_max(orderer)) {
        return prs_fail(
            orderer->config.log, PERSEUS_INVALID_ARGUMENT,
            "a signal vector of %llu bytes to PE %u: 1 to %u values of 8 bytes go in one",
            (unsigned long long)request->bytes, peer->rank, prs_orderer_vector_max(orderer));
    }
    struct prs_item item;
    enum perseus_status status = vector_item(orderer, peer, request, job, &item);
    if (status == PERSEUS_OK) {
        status = place_one(orderer, peer, &item, false);
    }
    if (status == PERSEUS_OK) {
        prs_count(&peer->counters.signals, count);
        prs_count(&peer->counters.signal_messages, 1);
    }
    return status;
}

static enum perseus_status dispatch(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                    const struct prs_request *request, uint32_t job)
{
    struct word_target word = signal_of(request);
    switch ((enum prs_request_kind)request->kind) {
    case PRS_REQUEST_PUT:
    case PRS_REQUEST_GET:
        return submit_transfer(orderer, peer, request, job);
    case PRS_REQUEST_PUT_SIGNAL:
        return request->bytes == 0 ? submit_word(orderer, peer, &word, true, job)
                                   : submit_put_signal(orderer, peer, request, job);
    case PRS_REQUEST_SIGNAL:
        return submit_word(orderer, peer, &word, true, job);
    case PRS_REQUEST_SIGNAL_VECTOR:
        return submit_vector(orderer, peer, request, job);
    case PRS_REQUEST_ATOMIC:
    case PRS_REQUEST_ATOMIC_FETCH:
        word = (struct word_target){.remote = request->remote,
                                    .offset = request->remote_offset,
                                    .op = (enum perseus_atomic)request->op,
                                    .value = request->value,
                                    .compare = request->compare,
                                    .bytes = request->word_bytes == 0 ? sizeof(uint64_t)
                                                                      : request->word_bytes,
                                    .fetch = request->kind == PRS_REQUEST_ATOMIC_FETCH};
        if (!prs_word_bytes_valid(word.bytes)) {
            return prs_fail(orderer->config.log, PERSEUS_INVALID_ARGUMENT,
                            "an atomic on %llu bytes to PE %u: words have 2, 4 or 8",
                            (unsigned long long)word.bytes, peer->rank);
        }
        return submit_word(orderer, peer, &word, false, job);
    }
    return prs_fail(orderer->config.log, PERSEUS_INVALID_ARGUMENT, "unknown request kind %u",
                    request->kind);
}

enum perseus_status prs_orderer_submit(struct prs_orderer *orderer,
                                       const struct prs_request *request)
{
    if (orderer->stall.active) {
        return PERSEUS_AGAIN;
    }
    struct prs_order_peer *peer;
    enum perseus_status status = prs_order_peer_get(orderer, request->peer, &peer);
    if (status != PERSEUS_OK) {
        return status;
    }
    if (peer->lost) {
        return PERSEUS_PEER_LOST;
    }
    status = prs_order_catch_up(orderer, peer);
    if (status != PERSEUS_OK) {
        return status;
    }
    uint32_t job = PRS_NONE;
    if (request->token != PRS_ORDER_NO_TOKEN) {
        job = prs_job_take(orderer, request->token);
        if (job == PRS_NONE) {
            return PERSEUS_AGAIN;
        }
    }
    status = dispatch(orderer, peer, request, job);
    if (status != PERSEUS_OK) {
        prs_job_give_back(orderer, job);
    }
    return status;
}
