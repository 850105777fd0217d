/* SPDX-License-Identifier: Apache-2.0 */
/* submit.c: a request becomes operations. Everything it may need is taken before anything is
 * posted, so AGAIN really means that nothing happened. */
#include "order/engine.h"

#include "fabric/word.h"

#define GATHER_BYTES_MAX 8192u /* larger puts are worth a message each, with their signal on it */

/* Posts the operation or parks it behind its peer's others. AGAIN: neither. */
static enum perseus_status place(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                 struct prs_pending *pending, bool may_overtake)
{
    prs_pending_open(orderer, pending);
    const struct prs_pending *head = prs_order_parked_head(orderer, peer);
    /* A plain put may pass parked operations, but not those it must be after (nor any of its own
     * fence). */
    bool free_way =
        head == NULL || (may_overtake && !peer->refused && pending->after <= head->of_peer.epoch);
    if (free_way) {
        bool wait;
        enum perseus_status status = prs_order_try(orderer, peer, pending, &wait);
        if (status != PERSEUS_AGAIN) {
            peer->refused = false;
            return status;
        }
        peer->refused |= !wait;
    }
    if (!prs_order_can_park(orderer, peer)) {
        return PERSEUS_AGAIN;
    }
    prs_order_park(orderer, peer, pending);
    prs_count(&peer->counters.deferred, 1);
    if (peer->refused || orderer->stall.active) {
        prs_order_wake(orderer, peer); /* nothing of this peer's own will */
    }
    return PERSEUS_OK;
}

static enum perseus_status place_or_give_back(struct prs_orderer *orderer,
                                              struct prs_order_peer *peer,
                                              struct prs_pending *pending, bool may_overtake)
{
    enum perseus_status status = place(orderer, peer, pending, may_overtake);
    if (status != PERSEUS_OK) {
        prs_pending_give_back(orderer, pending);
    }
    return status;
}

/* What is behind something that has left already: it never fails for lack of room, and where its
 * peer has failed it ends, and tells. */
static void place_or_give_up(struct prs_orderer *orderer, struct prs_order_peer *peer,
                             struct prs_pending *pending, bool may_overtake)
{
    enum perseus_status status = prs_order_peer_check(peer);
    if (status == PERSEUS_OK) {
        status = place(orderer, peer, pending, may_overtake);
    } else {
        prs_pending_open(orderer, pending);
    }
    if (status != PERSEUS_OK) {
        prs_pending_give_up(orderer, pending, status);
    }
}

/* A transfer whose pieces have room to park. */
static enum perseus_status place_pieces(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                        struct prs_pending *first)
{
    uint32_t next = first->next; /* until it is parked */
    enum perseus_status status = place(orderer, peer, first, true);
    if (status != PERSEUS_OK) {
        prs_pieces_give_back(orderer, first);
        return status;
    }
    while (next != PRS_NONE) {
        struct prs_pending *piece = &orderer->pools.pendings[next];
        next = piece->next;
        place_or_give_up(orderer, peer, piece, true);
    }
    return PERSEUS_OK;
}

/* Riding signals count from the last record's word; none of them overtakes another, so both sides
 * agree which record was the last. */
static void note_word(struct prs_order_peer *peer, const struct prs_word *word, uint8_t form)
{
    bool adds = word->op == PERSEUS_ATOMIC_ADD, sets = word->op == PERSEUS_ATOMIC_SET;
    if (form == PRS_FORM_RECORD && (adds || sets) && !word->fetch && word->remote->window == 0 &&
        word->bytes == sizeof(uint64_t)) {
        peer->mail_out.base =
            (struct prs_riding_base){.value = word->value, .slot = word->offset / sizeof(uint64_t)};
    }
}

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

/* Where the next signal would be this one's neighbour. */
static void note_signal(struct prs_order_peer *peer, const struct prs_word *word)
{
    peer->mail_out.next_word = word->offset + sizeof(uint64_t);
    peer->mail_out.next_window = word->remote->window;
}

static struct prs_word signal_of(const struct prs_request *request)
{
    bool alone = request->kind == PRS_REQUEST_SIGNAL;
    return (struct prs_word){.remote = alone ? request->remote : request->signal_remote,
                             .offset = alone ? request->remote_offset : request->signal_offset,
                             .op = request->op == PERSEUS_SIGNAL_ADD ? PERSEUS_ATOMIC_ADD
                                                                     : PERSEUS_ATOMIC_SET,
                             .value = request->value,
                             .bytes = sizeof(uint64_t)};
}

static struct prs_word atomic_of(const struct prs_request *request)
{
    return (struct prs_word){.remote = request->remote,
                             .offset = request->remote_offset,
                             .op = (enum perseus_atomic)request->op,
                             .value = request->value,
                             .compare = request->compare,
                             .bytes =
                                 request->word_bytes == 0 ? sizeof(uint64_t) : request->word_bytes,
                             .fetch = request->kind == PRS_REQUEST_ATOMIC_FETCH};
}

/* ---- requests ---- */

/*
 * Whether a put_signal's signal goes with its neighbours, at the end of the batch. An immediate
 * tells of one message, so puts with riding signals are a message each; where the fabric makes
 * several puts one message (caps.batching) and keeps them in order, small ones are better off with
 * one record for the signals of all of them.
 */
static bool may_gather(const struct prs_orderer *orderer, const struct prs_order_peer *peer,
                       const struct prs_request *request, const struct prs_word *word,
                       uint32_t token)
{
    return orderer->mode->ordered && orderer->signals_are_records && orderer->caps.batching &&
           request->bytes <= GATHER_BYTES_MAX && word->op == PERSEUS_ATOMIC_SET &&
           token == PRS_NONE && word->offset == peer->mail_out.next_word &&
           word->remote->window == peer->mail_out.next_window;
}

static enum perseus_status submit_riding(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                         const struct prs_request *request, uint32_t token)
{
    struct prs_pending *put;
    enum perseus_status status = prs_operation_riding(orderer, peer, request, token, &put);
    if (status == PERSEUS_OK) {
        status = place_or_give_back(orderer, peer, put, false);
    }
    if (status == PERSEUS_OK) {
        count_transfer(peer, request);
        prs_count(&peer->counters.signals, 1);
        struct prs_word word = signal_of(request);
        note_signal(peer, &word);
    }
    return status;
}

static enum perseus_status
take_put_and_signal(struct prs_orderer *orderer, struct prs_order_peer *peer,
                    const struct prs_request *request, const struct prs_word *word, uint32_t token,
                    struct prs_pending **out_put, struct prs_pending **out_signal)
{
    enum perseus_status status = prs_operation_word(orderer, peer, word, token, out_signal);
    if (status != PERSEUS_OK) {
        return status;
    }
    status = prs_pieces_take(orderer, peer, request, token, out_put);
    if (status != PERSEUS_OK) {
        prs_pending_give_back(orderer, *out_signal);
    }
    return status;
}

/* A signal in a record leaves with the end of its batch, so that those of the next words may join
 * it: a group's signals to one peer become one message. */
static void park_gathering(struct prs_orderer *orderer, struct prs_order_peer *peer,
                           struct prs_pending *pending)
{
    pending->gathers = true;
    prs_pending_open(orderer, pending);
    prs_order_park(orderer, peer, pending);
    prs_order_wake(orderer, peer);
}

/* The signal of a put_signal whose put is on its way: never fails for lack of room. */
static void place_behind_put(struct prs_orderer *orderer, struct prs_order_peer *peer,
                             struct prs_pending *signal, const struct prs_word *word, bool gathers)
{
    uint8_t form = signal->form;
    gathers &= prs_order_peer_check(peer) == PERSEUS_OK; /* or a piece of the put has lost it */
    prs_count(&peer->counters.signals, 1);
    if (gathers && prs_operation_join(orderer, peer, word, signal->after)) {
        prs_pending_give_back(orderer, signal);
        note_word(peer, word, form);
        return;
    }
    prs_count(&peer->counters.signal_messages, 1);
    if (gathers) {
        park_gathering(orderer, peer, signal);
    } else {
        place_or_give_up(orderer, peer, signal, false);
    }
    note_word(peer, word, form);
}

/* Put, fence of this peer, signal. After the put was posted nothing may fail for lack of room. */
static enum perseus_status submit_put_signal(struct prs_orderer *orderer,
                                             struct prs_order_peer *peer,
                                             const struct prs_request *request, uint32_t token)
{
    struct prs_word word = signal_of(request);
    bool waits = may_gather(orderer, peer, request, &word, token);
    uint32_t pieces = prs_pieces_of(orderer, request);
    if (!waits && pieces == 1 && prs_operation_rides(orderer, peer, request)) {
        return submit_riding(orderer, peer, request, token);
    }
    if (peer->parked_count + pieces + 1 > orderer->config.parked_max) {
        return PERSEUS_AGAIN;
    }
    struct prs_pending *put, *signal;
    enum perseus_status status =
        take_put_and_signal(orderer, peer, request, &word, token, &put, &signal);
    if (status != PERSEUS_OK) {
        return status;
    }
    status = place_pieces(orderer, peer, put);
    if (status != PERSEUS_OK) {
        prs_pending_give_back(orderer, signal);
        return status;
    }
    count_transfer(peer, request);
    signal->after = prs_epochs_end(&peer->epochs);
    prs_count(&peer->counters.fences, 1);
    if (orderer->mode->stalls) {
        prs_order_stall_begin(orderer, peer);
    }
    place_behind_put(orderer, peer, signal, &word, waits);
    note_signal(peer, &word);
    return PERSEUS_OK;
}

static enum perseus_status submit_transfer(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                           const struct prs_request *request, uint32_t token)
{
    struct prs_pending *first;
    enum perseus_status status;
    if (prs_pieces_is_one(orderer, request)) {
        status = prs_operation_transfer(orderer, peer, request, token, &first);
        status = status == PERSEUS_OK ? place_or_give_back(orderer, peer, first, true) : status;
    } else if (peer->parked_count + prs_pieces_of(orderer, request) > orderer->config.parked_max) {
        status = PERSEUS_AGAIN;
    } else {
        status = prs_pieces_take(orderer, peer, request, token, &first);
        status = status == PERSEUS_OK ? place_pieces(orderer, peer, first) : status;
    }
    if (status == PERSEUS_OK) {
        count_transfer(peer, request);
    }
    return status;
}

static enum perseus_status place_signal(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                        struct prs_pending *pending)
{
    bool gathers = pending->form == PRS_FORM_RECORD && pending->token == PRS_NONE &&
                   prs_mail_record(orderer, pending)->kind == PRS_RECORD_SET;
    if (!gathers || !prs_order_can_park(orderer, peer)) {
        return place_or_give_back(orderer, peer, pending, false);
    }
    park_gathering(orderer, peer, pending);
    return PERSEUS_OK;
}

static enum perseus_status submit_word(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                       const struct prs_word *word, bool is_signal, uint32_t token)
{
    if (!prs_word_bytes_valid(word->bytes)) {
        return prs_fail(orderer->config.log, PERSEUS_INVALID_ARGUMENT,
                        "an atomic on %llu bytes to PE %u: words have 2, 4 or 8",
                        (unsigned long long)word->bytes, peer->rank);
    }
    bool sets = is_signal && word->op == PERSEUS_ATOMIC_SET && token == PRS_NONE;
    if (sets && prs_operation_join(orderer, peer, word, peer->fence_after)) {
        note_word(peer, word, PRS_FORM_RECORD);
        prs_count(&peer->counters.signals, 1);
        return PERSEUS_OK;
    }
    struct prs_pending *pending;
    enum perseus_status status = prs_operation_word(orderer, peer, word, token, &pending);
    if (status != PERSEUS_OK) {
        return status;
    }
    uint8_t form = pending->form;
    status = sets ? place_signal(orderer, peer, pending)
                  : place_or_give_back(orderer, peer, pending, false);
    if (status != PERSEUS_OK) {
        return status;
    }
    note_word(peer, word, form);
    prs_count(is_signal ? &peer->counters.signals : &peer->counters.atomics, 1);
    prs_count(&peer->counters.signal_messages, is_signal);
    return PERSEUS_OK;
}

static enum perseus_status submit_vector(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                         const struct prs_request *request, uint32_t token)
{
    uint8_t form = PRS_FORM_DIRECT;
    struct prs_pending *pending;
    enum perseus_status status = prs_operation_vector(orderer, peer, request, token, &pending);
    if (status == PERSEUS_OK) {
        form = pending->form;
        status = place_or_give_back(orderer, peer, pending, false);
    }
    if (status == PERSEUS_OK) {
        uint64_t last = request->bytes / sizeof(uint64_t) - 1;
        note_word(peer,
                  &(struct prs_word){.remote = request->remote,
                                     .offset = request->remote_offset + last * sizeof(uint64_t),
                                     .op = PERSEUS_ATOMIC_SET,
                                     .value = request->values[last],
                                     .bytes = sizeof(uint64_t)},
                  form);
        prs_count(&peer->counters.signals, request->bytes / sizeof(uint64_t));
        prs_count(&peer->counters.signal_messages, 1);
    }
    return status;
}

static enum perseus_status dispatch(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                    const struct prs_request *request, uint32_t token)
{
    struct prs_word word;
    switch ((enum prs_request_kind)request->kind) {
    case PRS_REQUEST_PUT:
    case PRS_REQUEST_GET:
        return submit_transfer(orderer, peer, request, token);
    case PRS_REQUEST_PUT_SIGNAL:
        if (request->bytes > 0) {
            return submit_put_signal(orderer, peer, request, token);
        }
        word = signal_of(request);
        return submit_word(orderer, peer, &word, true, token);
    case PRS_REQUEST_SIGNAL:
        word = signal_of(request);
        return submit_word(orderer, peer, &word, true, token);
    case PRS_REQUEST_SIGNAL_VECTOR:
        return submit_vector(orderer, peer, request, token);
    case PRS_REQUEST_ATOMIC:
    case PRS_REQUEST_ATOMIC_FETCH:
        word = atomic_of(request);
        return submit_word(orderer, peer, &word, false, token);
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
        prs_orderer_refuse(orderer, request->peer, status);
        return status;
    }
    status = prs_order_peer_check(peer);
    if (status != PERSEUS_OK) {
        return status;
    }
    prs_order_catch_up(orderer, peer);
    uint32_t token = PRS_NONE;
    if (request->token != PRS_ORDER_NO_TOKEN) {
        token = prs_token_take(orderer, request->token);
        if (token == PRS_NONE) {
            return PERSEUS_AGAIN;
        }
    }
    status = dispatch(orderer, peer, request, token);
    orderer->submitted |= status == PERSEUS_OK;
    if (status != PERSEUS_OK) {
        prs_token_give_back(orderer, token);
        if (status != PERSEUS_AGAIN) {
            prs_order_peer_fail(orderer, peer, status);
        }
    }
    return status;
}
