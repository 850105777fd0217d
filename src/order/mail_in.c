/* SPDX-License-Identifier: Apache-2.0 */
/* mail_in.c: the receiving half of mailboxes: whose immediate is it, what may be applied,
 * answers. */
#include "order/engine.h"

#include <stdlib.h>

#define ANSWER_BATCH 16u /* records applied before an answer that nothing else asks for */
#define TRIES_A_STEP 16u /* answers refused by the fabric, in one step */

bool prs_mail_epoch_complete(const struct prs_mail_in *in, const struct prs_record *record)
{
    return in->arrived[in->epoch % PRS_NUMBERS] == (uint16_t)record->puts;
}

/* ---- arrivals ---- */

static void append_work(struct prs_orderer *orderer, struct prs_mail_in *in)
{
    struct prs_mail_list *work = &orderer->mail_work;
    if (in->listed) {
        return;
    }
    in->listed = true;
    in->next = NULL;
    if (work->first == NULL) {
        work->first = in;
    } else {
        work->last->next = in;
    }
    work->last = in;
}

/* Counts one. A log line for 1, 2, 4, 8 of them: a stranger cannot fill a disk. */
static bool is_worth_a_line(struct prs_orderer *orderer)
{
    orderer->strangers++;
    return (orderer->strangers & (orderer->strangers - 1)) == 0;
}

static void refuse_stranger(struct prs_orderer *orderer, uint64_t bits)
{
    if (is_worth_a_line(orderer)) {
        prs_log(orderer->config.log, PERSEUS_LOG_ERROR,
                "an immediate (0x%llx) arrived that no PE of this job can have sent, number %llu "
                "of its kind; ignored. Somebody else reaches this PE's port",
                (unsigned long long)bits, (unsigned long long)orderer->strangers);
    }
}

static bool is_genuine(const struct prs_orderer *orderer, uint64_t number, uint64_t bits)
{
    return prs_immediate_is_genuine(&orderer->immediate, orderer->secret, orderer->config.self,
                                    number, bits);
}

static bool on_answer(struct prs_orderer *orderer, const struct prs_immediate *what, uint64_t bits)
{
    struct prs_order_peer *peer =
        atomic_load_explicit(&orderer->peers[what->sender], memory_order_relaxed);
    if (peer == NULL) {
        return false;
    }
    const struct prs_mail_out *mail = &peer->mail_out;
    uint64_t acked = prs_number_from(mail->acked, what->number);
    if (acked > mail->next || !is_genuine(orderer, acked, bits)) {
        return false;
    }
    if (acked == mail->acked) {
        return true; /* said before: it moves nothing, and shows no life */
    }
    peer->moved_ns = orderer->now_ns;
    if (peer->status == PERSEUS_OK) {
        prs_mail_answered(orderer, peer, acked, what->code);
    }
    return true;
}

/* Only a genuine immediate makes state for its sender. */
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
    append_work(orderer, orderer->mail_in[sender]);
    return orderer->mail_in[sender];
}

static bool on_put(struct prs_orderer *orderer, const struct prs_immediate *what, uint64_t bits)
{
    struct prs_mail_in *in = orderer->mail_in[what->sender];
    uint64_t base = in != NULL ? in->epoch : 0, epoch = prs_number_from(base, what->number);
    bool known = in != NULL && in->put_epoch == epoch + 1 && in->put_bits == bits;
    if (!orderer->mode->counted || epoch - base > PRS_RECORDS_OPEN_MAX ||
        (!known && !is_genuine(orderer, epoch, bits))) {
        return false;
    }
    in = mail_in_get(orderer, what->sender);
    if (in != NULL) {
        in->put_epoch = epoch + 1;
        in->put_bits = bits;
        in->arrived[epoch % PRS_NUMBERS]++;
    }
    return true;
}

static bool keep_riding(struct prs_orderer *orderer, struct prs_mail_in *in, uint32_t at,
                        uint64_t bits)
{
    if (in->riding_bits == NULL) {
        in->riding_bits = calloc(PRS_RECORDS_OPEN_MAX, sizeof *in->riding_bits);
    }
    if (in->riding_bits == NULL) {
        prs_log(orderer->config.log, PERSEUS_LOG_ERROR,
                "no memory for the mailbox of PE %u: its signals are lost", in->sender);
        return false;
    }
    in->riding_bits[at] = bits;
    in->riding |= UINT64_C(1) << at;
    return true;
}

static bool on_record(struct prs_orderer *orderer, const struct prs_immediate *what, uint64_t bits)
{
    struct prs_mail_in *in = orderer->mail_in[what->sender];
    uint64_t base = in != NULL ? in->applied : 0, number = prs_number_from(base, what->number);
    bool rides = what->kind == PRS_IMMEDIATE_RIDING;
    if ((rides && !orderer->signals_ride) || number - base >= PRS_RECORDS_OPEN_MAX ||
        !is_genuine(orderer, number, bits)) {
        return false;
    }
    uint32_t at = (uint32_t)(number % PRS_RECORDS_OPEN_MAX);
    in = mail_in_get(orderer, what->sender);
    if (in != NULL && (!rides || keep_riding(orderer, in, at, bits))) {
        in->present |= UINT64_C(1) << at;
    }
    return true;
}

void prs_mail_immediate(struct prs_orderer *orderer, uint64_t bits)
{
    bool genuine = false;
    struct prs_immediate what;
    if (orderer->has_mailbox) {
        prs_immediate_decode(&orderer->immediate, bits, &what);
        if (what.sender >= orderer->config.n_peers) {
            genuine = false;
        } else if (what.kind == PRS_IMMEDIATE_ANSWER) {
            genuine = on_answer(orderer, &what, bits);
        } else if (what.kind == PRS_IMMEDIATE_PUT) {
            genuine = on_put(orderer, &what, bits);
        } else {
            genuine = on_record(orderer, &what, bits);
        }
    }
    if (!genuine) {
        refuse_stranger(orderer, bits);
    }
}

/* ---- applying ---- */

static bool apply_riding(struct prs_orderer *orderer, struct prs_mail_in *in, uint32_t at)
{
    struct prs_immediate what;
    prs_immediate_decode(&orderer->immediate, in->riding_bits[at], &what);
    in->riding &= ~(UINT64_C(1) << at);
    bool applied = prs_mail_apply_riding(orderer, in, &what);
    if (in->riding == 0) {
        free(in->riding_bits);
        in->riding_bits = NULL;
    }
    return applied;
}

/* After a record: where the next lies, which epoch it ends, what riding signals count from. */
static void step_past(struct prs_orderer *orderer, struct prs_mail_in *in,
                      const struct prs_record *record)
{
    uint32_t size = orderer->layout.ring_size[in->ring];
    in->at[in->ring] = prs_mail_after(size, in->at[in->ring], prs_record_bytes(record));
    in->ring = record->next_ring;
    in->arrived[in->epoch % PRS_NUMBERS] = 0;
    in->epoch++;
    prs_riding_rebase(&in->base, record);
}

/* The record is here, and more puts of its epoch than it says: somebody has sent a put's immediate
 * again. At most 32767 of an epoch are still missing, so the difference tells which it is. */
static bool has_surplus(const struct prs_orderer *orderer, const struct prs_mail_in *in,
                        const struct prs_record *record)
{
    uint16_t missing = (uint16_t)(record->puts - in->arrived[in->epoch % PRS_NUMBERS]);
    if (missing <= INT16_MAX) {
        return false;
    }
    prs_log(orderer->config.log, PERSEUS_LOG_ERROR,
            "%u more puts of PE %u have arrived than it sent before its record %llu: somebody who "
            "reads the wire sends immediates again. The record is refused",
            (uint32_t)UINT16_MAX + 1 - missing, in->sender, (unsigned long long)in->applied);
    return true;
}

/* False: the record at `bit` is not here, or must wait. */
static bool apply_record(struct prs_orderer *orderer, struct prs_mail_in *in, uint64_t bit,
                         bool *out_applied)
{
    struct prs_record record;
    if (!prs_mail_read(orderer, in, &record)) {
        in->present &= ~bit;
        if (is_worth_a_line(orderer)) {
            prs_log(orderer->config.log, PERSEUS_LOG_ERROR,
                    "record %llu of PE %u is not in its mailbox: its immediate was guessed by "
                    "somebody who reaches this PE's port, or memory is overwritten; ignored",
                    (unsigned long long)in->applied, in->sender);
        }
        return false;
    }
    *out_applied = orderer->mode->may_apply(in, &record);
    if (!*out_applied && !has_surplus(orderer, in, &record)) {
        return false;
    }
    if (*out_applied) {
        *out_applied = prs_mail_apply(orderer, in->sender, &record, &in->reply_value);
    }
    step_past(orderer, in, &record);
    in->code = record.kind == PRS_RECORD_FETCH ? 1u + record.reply : PRS_ANSWER_ACK;
    return true;
}

static bool apply_next(struct prs_orderer *orderer, struct prs_mail_in *in)
{
    uint32_t at = (uint32_t)(in->applied % PRS_RECORDS_OPEN_MAX);
    uint64_t bit = UINT64_C(1) << at;
    bool applied;
    if ((in->present & bit) == 0 || in->code != PRS_ANSWER_ACK) {
        return false; /* a value or a refusal is told before anything follows */
    }
    if ((in->riding & bit) != 0) {
        applied = apply_riding(orderer, in, at);
    } else if (!apply_record(orderer, in, bit, &applied)) {
        return false;
    }
    in->code = applied ? in->code : PRS_ANSWER_REFUSED;
    in->present &= ~bit;
    in->applied++;
    return true;
}

/* ---- answers ---- */

static enum perseus_status post_answer(struct prs_orderer *orderer, struct prs_mail_in *in,
                                       struct prs_order_peer *peer)
{
    struct prs_immediate what = {.kind = PRS_IMMEDIATE_ANSWER,
                                 .sender = orderer->config.self,
                                 .number = in->applied,
                                 .code = in->code};
    struct prs_op op = {
        .kind = PRS_OP_PUT,
        .flags = PRS_OP_IMMEDIATE,
        .lane = peer->lane,
        .peer = peer->fabric_peer,
        .remote = peer->control,
        .remote_offset = orderer->layout.replies,
        .immediate = prs_immediate_encode(&orderer->immediate, orderer->secret, in->sender, &what),
        .cookie = PRS_COOKIE_ANSWER | in->sender};
    uint64_t place = orderer->layout.answers + in->sender * sizeof(struct prs_reply);
    struct prs_reply *reply = (void *)(orderer->control + place);
    if (in->code != PRS_ANSWER_ACK && in->code != PRS_ANSWER_REFUSED) {
        *reply =
            (struct prs_reply){.value = in->reply_value,
                               .number = prs_reply_number(orderer->config.self, in->applied - 1)};
        op.bytes = sizeof *reply;
        op.remote_offset += (in->code - 1) * sizeof *reply;
    }
    if (op.bytes <= orderer->caps.inline_bytes) {
        op.flags |= PRS_OP_INLINE;
        op.inline_source = reply;
    } else {
        op.local = orderer->control_region;
        op.local_offset = place;
    }
    op.flags |= orderer->caps.batching ? PRS_OP_MORE : 0;
    bool in_order = (orderer->caps.order & PRS_ORDER_PUT_PUT) != 0; /* the next may be behind it */
    op.flags |= orderer->caps.completes_early && in_order ? PRS_OP_EARLY : 0;
    return orderer->ops->post(orderer->config.endpoint, &op);
}

/* AGAIN: the fabric is full. Everything else is settled here. */
static enum perseus_status answer(struct prs_orderer *orderer, struct prs_mail_in *in)
{
    struct prs_order_peer *peer;
    enum perseus_status status = prs_order_peer_get(orderer, in->sender, &peer);
    if (status == PERSEUS_OK) {
        status = prs_order_peer_check(peer);
    }
    if (status == PERSEUS_OK && peer->control == NULL) {
        status = PERSEUS_PROTOCOL;
    }
    if (status == PERSEUS_OK) {
        status = post_answer(orderer, in, peer);
        prs_order_peer_watch(orderer, peer);
        if (status != PERSEUS_OK && status != PERSEUS_AGAIN) {
            prs_order_peer_fail(orderer, peer, status);
        }
    }
    if (status == PERSEUS_AGAIN) {
        return status;
    }
    in->answer_in_flight = status == PERSEUS_OK;
    in->cut = status != PERSEUS_OK;
    in->told = in->applied;
    in->code = PRS_ANSWER_ACK;
    return PERSEUS_OK;
}

static bool answer_is_due(const struct prs_mail_in *in, bool moved)
{
    if (in->answer_in_flight || in->applied == in->told) {
        return false;
    }
    return in->code != PRS_ANSWER_ACK || !moved || in->applied - in->told >= ANSWER_BATCH;
}

void prs_mail_answer_done(struct prs_orderer *orderer, uint32_t sender)
{
    struct prs_mail_in *in = orderer->mail_in[sender];
    if (in != NULL) {
        in->answer_in_flight = false;
        append_work(orderer, in);
    }
}

/* Moves one sender's mailbox on. Returns whether it must be looked at again without a new event;
 * *out_refused: because the fabric is full. */
static bool pump_one(struct prs_orderer *orderer, struct prs_mail_in *in, bool *did,
                     bool *out_refused)
{
    bool moved = false;
    *out_refused = false;
    for (;;) {
        while (apply_next(orderer, in)) {
            moved = true;
        }
        if (in->cut && in->applied != in->told) {
            in->told = in->applied; /* nobody is left to hear it */
            in->code = PRS_ANSWER_ACK;
        } else if (!answer_is_due(in, moved)) {
            break;
        } else if (answer(orderer, in) == PERSEUS_AGAIN) {
            *out_refused = true;
            break;
        }
        moved = true;
    }
    *did |= moved;
    return *out_refused || (moved && in->applied != in->told && !in->answer_in_flight);
}

bool prs_mail_in_pump(struct prs_orderer *orderer)
{
    struct prs_mail_list *work = &orderer->mail_work;
    struct prs_mail_in *last = work->last;
    bool did = false;
    for (uint32_t tries = 0; work->first != NULL && tries < TRIES_A_STEP;) {
        struct prs_mail_in *in = work->first;
        work->first = in->next;
        in->listed = false;
        bool refused;
        if (pump_one(orderer, in, &did, &refused)) {
            append_work(orderer, in);
        }
        tries += refused;
        if (in == last) {
            break;
        }
    }
    return did;
}
