/* SPDX-License-Identifier: Apache-2.0 */
/* mail_out.c: the sending half of mailboxes: where a record goes, and what its answer ends. */
#include "order/engine.h"

struct prs_record *prs_mail_record(struct prs_orderer *orderer, struct prs_pending *pending)
{
    return pending->stage == PRS_NONE ? (struct prs_record *)(void *)pending->small
                                      : prs_stage_memory(orderer, pending->stage);
}

static bool is_full(const struct prs_mail_out *mail)
{
    return mail->next - mail->acked >= PRS_RECORDS_OPEN_MAX;
}

static uint64_t immediate_to(const struct prs_orderer *orderer, const struct prs_order_peer *peer,
                             struct prs_immediate *what)
{
    what->sender = orderer->config.self;
    return prs_immediate_encode(&orderer->immediate, orderer->secret, peer->rank, what);
}

/* The near ring while it has room for more than one record, so that few pages are touched; the far
 * one in a burst. */
static uint8_t ring_after(const struct prs_orderer *orderer, const struct prs_mail_out *mail,
                          uint32_t charge)
{
    if (mail->ring == PRS_MAIL_FAR) {
        return mail->rings[PRS_MAIL_NEAR].used == 0 ? PRS_MAIL_NEAR : PRS_MAIL_FAR;
    }
    bool crowded = mail->rings[PRS_MAIL_NEAR].used + charge > PRS_MAIL_NEAR_SIZE / 2;
    return crowded && orderer->layout.ring_size[PRS_MAIL_FAR] > 0 ? PRS_MAIL_FAR : PRS_MAIL_NEAR;
}

enum perseus_status prs_mail_stamp_record(struct prs_orderer *orderer, struct prs_pending *pending,
                                          struct prs_op *op)
{
    struct prs_order_peer *peer = pending->peer;
    struct prs_mail_out *mail = &peer->mail_out;
    struct prs_record *record = prs_mail_record(orderer, pending);
    uint32_t size = orderer->layout.ring_size[mail->ring];
    uint32_t at = mail->rings[mail->ring].at;
    uint32_t charge = prs_mail_charge(size, at, prs_record_bytes(record));
    if (is_full(mail) || mail->rings[mail->ring].used + charge > size) {
        return PERSEUS_AGAIN;
    }
    pending->ring = (uint8_t)mail->ring;
    pending->charge = (uint16_t)charge;
    record->number = (uint32_t)mail->next;
    record->puts = mail->puts;
    record->next_ring = ring_after(orderer, mail, charge);
    op->remote = peer->control;
    op->remote_offset = prs_mail_place(&orderer->layout, mail->ring, orderer->config.self, at);
    op->flags |= PRS_OP_IMMEDIATE;
    op->immediate = immediate_to(
        orderer, peer, &(struct prs_immediate){.kind = PRS_IMMEDIATE_RECORD, .number = mail->next});
    return PERSEUS_OK;
}

enum perseus_status prs_mail_stamp_riding(struct prs_orderer *orderer,
                                          const struct prs_pending *pending, struct prs_op *op)
{
    struct prs_order_peer *peer = pending->peer;
    struct prs_mail_out *mail = &peer->mail_out;
    if (is_full(mail)) {
        return PERSEUS_AGAIN;
    }
    struct prs_immediate what = {
        .kind = PRS_IMMEDIATE_RIDING, .number = mail->next, .op = pending->riding_op};
    what.value = pending->riding_value;
    what.slot = pending->riding_slot;
    op->flags |= PRS_OP_IMMEDIATE;
    op->immediate = immediate_to(orderer, peer, &what);
    return PERSEUS_OK;
}

/* All puts of an epoch carry the same immediate, so its tag is computed once. */
void prs_mail_stamp_put(struct prs_orderer *orderer, struct prs_order_peer *peer, struct prs_op *op)
{
    struct prs_mail_out *mail = &peer->mail_out;
    if (mail->put_epoch != mail->epoch + 1) {
        mail->put_epoch = mail->epoch + 1;
        mail->put_immediate =
            immediate_to(orderer, peer,
                         &(struct prs_immediate){.kind = PRS_IMMEDIATE_PUT, .number = mail->epoch});
    }
    op->flags |= PRS_OP_IMMEDIATE;
    op->immediate = mail->put_immediate;
}

void prs_mail_posted(struct prs_orderer *orderer, struct prs_pending *pending)
{
    struct prs_mail_out *mail = &pending->peer->mail_out;
    uint32_t index = prs_pending_index(orderer, pending);
    pending->number = mail->next++;
    pending->next = PRS_NONE;
    if (mail->first_open == PRS_NONE) {
        mail->first_open = index;
    } else {
        orderer->pools.pendings[mail->last_open].next = index;
    }
    mail->last_open = index;
    if (pending->form == PRS_FORM_RIDING) {
        return;
    }
    const struct prs_record *record = prs_mail_record(orderer, pending);
    uint32_t ring = mail->ring;
    mail->rings[ring].used += pending->charge;
    mail->rings[ring].at = prs_mail_after(orderer->layout.ring_size[ring], mail->rings[ring].at,
                                          prs_record_bytes(record));
    mail->ring = record->next_ring;
    mail->epoch++;
    mail->puts = 0;
}

struct prs_pending *prs_mail_oldest(struct prs_orderer *orderer, const struct prs_order_peer *peer)
{
    uint32_t index = peer->mail_out.first_open;
    return index == PRS_NONE ? NULL : &orderer->pools.pendings[index];
}

/* What the answer that ends with this record means for it. */
static enum perseus_status outcome(struct prs_orderer *orderer, const struct prs_pending *pending,
                                   bool last, uint32_t code)
{
    if (last && code == PRS_ANSWER_REFUSED) {
        return prs_fail(orderer->config.log, PERSEUS_INVALID_ARGUMENT,
                        "PE %u refused a signal or atomic: it names no aligned word of its memory, "
                        "or memory that is no longer registered, or puts before it were not only "
                        "ours. That PE's own message says which",
                        pending->peer->rank);
    }
    if (pending->reply == PRS_NONE) {
        return PERSEUS_OK;
    }
    const struct prs_reply *replies = (const void *)(orderer->control + orderer->layout.replies);
    bool is_here =
        last && code == 1 + pending->reply &&
        replies[pending->reply].number == prs_reply_number(pending->peer->rank, pending->number);
    return is_here ? PERSEUS_OK
                   : prs_fail(orderer->config.log, PERSEUS_PROTOCOL,
                              "PE %u answered a fetch without its value; do all PEs run the same "
                              "version?",
                              pending->peer->rank);
}

void prs_mail_answered(struct prs_orderer *orderer, struct prs_order_peer *peer, uint64_t acked,
                       uint32_t code)
{
    struct prs_mail_out *mail = &peer->mail_out;
    enum perseus_status status = PERSEUS_OK;
    uint64_t sequence = 0;
    while (status == PERSEUS_OK && mail->acked != acked) {
        struct prs_pending *pending = prs_mail_oldest(orderer, peer);
        mail->first_open = pending->next;
        mail->acked++;
        mail->rings[pending->ring].used -= pending->charge;
        sequence = pending->sequence;
        status = outcome(orderer, pending, mail->acked == acked, code);
        prs_pending_clear(orderer, pending, PRS_WAIT_ANSWER, status);
    }
    if (status != PERSEUS_OK) {
        prs_order_peer_fail(orderer, peer, status);
    }
    prs_order_prove(orderer, peer, sequence);
    prs_order_wake(orderer, peer);
}
