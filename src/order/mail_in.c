/* SPDX-License-Identifier: Apache-2.0 */
/* mail_in.c: the receiving half of mailboxes: count puts, apply records in order, acknowledge,
 * reply. */
#include "order/engine.h"

#include <stdlib.h>
#include <string.h>

#include "fabric/word.h"

bool prs_mail_epoch_complete(const struct prs_mail_in *in, const struct prs_record *record)
{
    return in->arrived[in->applied % PRS_IMMEDIATE_EPOCHS] == record->puts;
}

/* ---- applying ---- */

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
    if (window == NULL || !prs_word_bytes_valid(word_bytes) || offset % word_bytes != 0 ||
        offset > window->region->bytes || bytes > window->region->bytes - offset) {
        prs_log(orderer->config.log, PERSEUS_LOG_ERROR,
                "PE %u sent a signal or atomic for window %u offset %llu, which is not an aligned "
                "word of this PE; ignored",
                sender, id, (unsigned long long)offset);
        return NULL;
    }
    return window;
}

static void apply_record(struct prs_orderer *orderer, struct prs_mail_in *in,
                         const struct prs_record *record)
{
    bool is_vector = record->kind == PRS_RECORD_VECTOR;
    uint32_t count = is_vector ? record->count : 1;
    uint64_t word_bytes = is_vector ? sizeof(uint64_t) : record->count;
    in->reply_due = record->kind == PRS_RECORD_FETCH;
    in->reply_slot = record->reply % PRS_IMMEDIATE_REPLIES;
    in->reply_value = 0;
    if (record->kind == PRS_RECORD_FLUSH || count > PRS_RECORD_VALUES_MAX) {
        return;
    }
    struct prs_window *window = target_window(orderer, in->sender, record->window, record->offset,
                                              word_bytes, count * word_bytes);
    if (window == NULL) {
        return;
    }
    if (is_vector) {
        for (uint32_t i = 0; i < count; i++) {
            prs_order_apply(orderer, window, record->offset + i * sizeof(uint64_t),
                            PERSEUS_ATOMIC_SET, record->values[i], 0, sizeof(uint64_t));
        }
        return;
    }
    in->reply_value =
        prs_order_apply(orderer, window, record->offset, (enum perseus_atomic)record->atomic,
                        record->value, record->compare, (uint32_t)word_bytes);
}

/* ---- events ---- */

static struct prs_mail_in *mail_in_get(struct prs_orderer *orderer, uint32_t sender)
{
    if (orderer->mail_in[sender] == NULL) {
        struct prs_mail_in *in = calloc(1, sizeof *in);
        if (in == NULL) {
            prs_log(orderer->config.log, PERSEUS_LOG_ERROR,
                    "no memory for the mailbox of PE %u: its signals are lost", sender);
            return NULL;
        }
        in->sender = sender;
        orderer->mail_in[sender] = in;
    }
    struct prs_mail_in *in = orderer->mail_in[sender];
    if (!in->listed) {
        in->listed = true;
        in->next = orderer->mail_in_work;
        orderer->mail_in_work = in;
    }
    return in;
}

static void on_ack(struct prs_orderer *orderer, uint32_t sender)
{
    struct prs_order_peer *peer =
        atomic_load_explicit(&orderer->peers[sender], memory_order_relaxed);
    if (peer != NULL && !peer->lost) {
        /* Atomic: the sender may be writing the next acknowledgement already. Acquire pairs with
         * the fabric's delivery; any newer value is as good. */
        const _Atomic uint64_t *acks =
            (const _Atomic uint64_t *)(void *)(orderer->control + orderer->control_layout.acks);
        uint64_t acked = atomic_load_explicit(&acks[sender], memory_order_acquire);
        prs_mail_acked(orderer, peer, (uint32_t)acked);
    }
}

static void on_reply(struct prs_orderer *orderer, uint32_t reply)
{
    uint32_t index = orderer->reply_pending[reply];
    struct prs_pending *pending = &orderer->pendings[index];
    if (pending->peer != NULL && pending->reply == reply) {
        prs_pending_clear(orderer, index, PRS_WAIT_REPLY, PERSEUS_OK);
    }
}

static void on_arrival(struct prs_orderer *orderer, const struct prs_immediate *what)
{
    struct prs_mail_in *in = mail_in_get(orderer, what->sender);
    if (in == NULL) {
        return;
    }
    if (what->kind == PRS_IMMEDIATE_RECORD) {
        in->present |= UINT64_C(1) << what->epoch % PRS_MAIL_SLOTS;
        return;
    }
    if (what->kind == PRS_IMMEDIATE_SIGNAL) {
        struct prs_window *window =
            target_window(orderer, what->sender, 0, what->slot * sizeof(uint64_t), sizeof(uint64_t),
                          sizeof(uint64_t));
        if (window != NULL) {
            prs_order_apply(orderer, window, what->slot * sizeof(uint64_t),
                            what->op == PERSEUS_SIGNAL_ADD ? PERSEUS_ATOMIC_ADD
                                                           : PERSEUS_ATOMIC_SET,
                            what->value, 0, sizeof(uint64_t));
        }
    }
    in->arrived[what->epoch]++;
}

void prs_mail_immediate(struct prs_orderer *orderer, uint64_t bits)
{
    struct prs_immediate what;
    if (!orderer->has_mailbox || !prs_immediate_decode(&orderer->immediate, bits, &what) ||
        what.sender >= orderer->config.n_peers) {
        prs_log(orderer->config.log, PERSEUS_LOG_ERROR,
                "an immediate (0x%llx) arrived that no PE of this job sends; ignored",
                (unsigned long long)bits);
        return;
    }
    if (what.kind == PRS_IMMEDIATE_ACK) {
        on_ack(orderer, what.sender);
    } else if (what.kind == PRS_IMMEDIATE_REPLY) {
        on_reply(orderer, what.epoch);
    } else {
        on_arrival(orderer, &what);
    }
}

/* ---- acknowledgements and replies: 8-byte puts into the sender's control window ---- */

static enum perseus_status post_word(struct prs_orderer *orderer, struct prs_mail_in *in,
                                     uint64_t value, uint64_t remote_offset, uint64_t immediate,
                                     bool is_ack)
{
    struct prs_order_peer *peer;
    enum perseus_status status = prs_order_peer_get(orderer, in->sender, &peer);
    if (status != PERSEUS_OK) {
        return status;
    }
    if (peer->lost) {
        return PERSEUS_PEER_LOST;
    }
    uint32_t pending = prs_pending_take(orderer, peer, PRS_NONE);
    uint32_t stage = prs_stage_take(orderer);
    if (pending == PRS_NONE || stage == PRS_NONE) {
        prs_stage_give_back(orderer, stage);
        prs_pending_give_back(orderer, pending);
        return PERSEUS_AGAIN;
    }
    orderer->pendings[pending].stage = stage;
    orderer->pendings[pending].system = true;
    orderer->pendings[pending].is_ack = is_ack;
    void *source = prs_stage_memory(orderer, stage);
    memcpy(source, &value, sizeof value);
    struct prs_op op = {.kind = PRS_OP_PUT,
                        .flags = PRS_OP_IMMEDIATE,
                        .peer = peer->fabric_peer,
                        .remote = peer->control,
                        .remote_offset = remote_offset,
                        .bytes = sizeof value,
                        .immediate = immediate,
                        .cookie = pending};
    prs_op_set_source(orderer, &op, source, stage);
    status = prs_order_post(orderer, peer, &op);
    if (status != PERSEUS_OK) {
        prs_pending_give_back(orderer, pending);
    }
    return status;
}

static enum perseus_status send_reply(struct prs_orderer *orderer, struct prs_mail_in *in)
{
    uint64_t immediate = prs_immediate_encode(
        &orderer->immediate, &(struct prs_immediate){.kind = PRS_IMMEDIATE_REPLY,
                                                     .sender = orderer->config.self,
                                                     .epoch = in->reply_slot});
    return post_word(orderer, in, in->reply_value,
                     orderer->control_layout.replies + in->reply_slot * sizeof(uint64_t), immediate,
                     false);
}

static enum perseus_status send_ack(struct prs_orderer *orderer, struct prs_mail_in *in)
{
    uint64_t immediate = prs_immediate_encode(
        &orderer->immediate,
        &(struct prs_immediate){.kind = PRS_IMMEDIATE_ACK, .sender = orderer->config.self});
    return post_word(orderer, in, in->applied,
                     orderer->control_layout.acks + orderer->config.self * sizeof(uint64_t),
                     immediate, true);
}

void prs_mail_ack_sent(struct prs_orderer *orderer, uint32_t sender)
{
    struct prs_mail_in *in = mail_in_get(orderer, sender);
    if (in != NULL) {
        in->ack_in_flight = false;
    }
}

/* ---- pumping ---- */

static bool apply_ready(struct prs_orderer *orderer, struct prs_mail_in *in)
{
    const struct prs_record *mail =
        (const struct prs_record *)(void *)(orderer->control + orderer->control_layout.mail) +
        (size_t)in->sender * PRS_MAIL_SLOTS;
    bool did = false;
    while (!in->reply_due && (in->present >> in->applied % PRS_MAIL_SLOTS & 1) != 0) {
        const struct prs_record *record = &mail[in->applied % PRS_MAIL_SLOTS];
        if (!orderer->mode->may_apply(in, record)) {
            break;
        }
        apply_record(orderer, in, record);
        in->present &= ~(UINT64_C(1) << in->applied % PRS_MAIL_SLOTS);
        in->arrived[in->applied % PRS_IMMEDIATE_EPOCHS] = 0;
        in->applied++;
        did = true;
    }
    return did;
}

/* Moves one sender's mailbox on; *out_rest tells whether it must be looked at again without a new
 * event. */
static enum perseus_status pump_one(struct prs_orderer *orderer, struct prs_mail_in *in, bool *did,
                                    bool *out_rest)
{
    enum perseus_status status = PERSEUS_OK;
    do {
        *did |= apply_ready(orderer, in);
        if (in->reply_due) {
            status = send_reply(orderer, in);
            if (status != PERSEUS_AGAIN) {
                in->reply_due = false; /* sent, or nobody is left to hear it */
            }
        }
    } while (!in->reply_due && apply_ready(orderer, in));
    if (status == PERSEUS_OK && in->applied != in->acked && !in->ack_in_flight) {
        status = send_ack(orderer, in);
        if (status == PERSEUS_OK) {
            in->ack_in_flight = true;
            in->acked = in->applied;
            *did = true;
        }
    }
    if (status == PERSEUS_PEER_LOST) {
        in->acked = in->applied;
        status = PERSEUS_OK;
    }
    *out_rest = in->reply_due || in->applied != in->acked;
    return status == PERSEUS_AGAIN ? PERSEUS_OK : status;
}

enum perseus_status prs_mail_in_pump(struct prs_orderer *orderer, bool *did)
{
    struct prs_mail_in **link = &orderer->mail_in_work;
    while (*link != NULL) {
        struct prs_mail_in *in = *link;
        bool rest;
        enum perseus_status status = pump_one(orderer, in, did, &rest);
        if (status != PERSEUS_OK) {
            return status;
        }
        if (rest) {
            link = &in->next;
        } else {
            in->listed = false;
            *link = in->next;
        }
    }
    return PERSEUS_OK;
}
