/* SPDX-License-Identifier: Apache-2.0 */
/*
 * send.c: what goes through the inside. Slots go as they lie in the ring, and behind them the count
 * of them: by the inside's order of puts, or, where it grants none, once they have been delivered,
 * one count at a time so that an older one never comes last.
 */
#include "fabric/staged/internal.h"

#define COOKIES 8 /* of a contact */
enum cookie { COOKIE_SLOTS = 0, COOKIE_TAIL = 2, COOKIE_DONE = 4, COOKIE_KNOCK = 6 }; /* + way */

/* OK: the inside took it; AGAIN: not now; on an error the contact is lost. */
static enum perseus_status post(struct prs_staged_endpoint *self,
                                struct prs_staged_contact *contact, struct prs_op op,
                                uint32_t cookie)
{
    op.kind = PRS_OP_PUT;
    op.peer = contact->peer;
    op.remote = contact->arena;
    op.cookie = (uint64_t)contact->rank * COOKIES + cookie;
    enum perseus_status status = self->inside->ops->post(self->inside, &op);
    if (status != PERSEUS_OK && status != PERSEUS_AGAIN) {
        prs_staged_lose(self, contact);
    }
    self->needs_flush |= status == PERSEUS_OK;
    return status;
}

static enum perseus_status post_count(struct prs_staged_endpoint *self,
                                      struct prs_staged_contact *contact, uint64_t offset,
                                      uint64_t value, uint8_t flags, uint32_t cookie)
{
    const uint64_t count[2] = {value, ~value}; /* struct prs_staged_count */
    return post(self, contact,
                (struct prs_op){.flags = flags | PRS_OP_INLINE,
                                .inline_source = count,
                                .remote_offset = offset,
                                .bytes = sizeof count},
                cookie);
}

static void send_slots(struct prs_staged_endpoint *self, struct prs_staged_contact *contact,
                       enum prs_staged_way way)
{
    const struct prs_staged_fabric *fabric = self->fabric;
    struct prs_staged_out *out = &contact->out[way];
    uint64_t ring_bytes = prs_staged_ring_bytes(fabric, way);
    uint64_t most = fabric->inside->caps.message_bytes_max;
    uint8_t flags = fabric->is_ordered ? PRS_OP_UNTRACKED | PRS_OP_MORE : PRS_OP_MORE;
    if (!fabric->is_ordered && out->told < out->posted) {
        return; /* their count goes first */
    }
    while (out->posted < out->ready) {
        uint64_t at = out->posted % ring_bytes, bytes = out->ready - out->posted;
        bytes = bytes < ring_bytes - at ? bytes : ring_bytes - at;
        bytes = bytes < most ? bytes : most;
        const struct prs_op op = {
            .flags = flags,
            .local = self->outgoing_region,
            .local_offset = prs_staged_ring_offset(fabric, contact->rank, way) + at,
            .remote_offset = prs_staged_counts_bytes(fabric) +
                             prs_staged_ring_offset(fabric, fabric->self, way) + at,
            .bytes = bytes};
        if (post(self, contact, op, COOKIE_SLOTS + way) != PERSEUS_OK) {
            return;
        }
        out->posted += bytes;
        out->puts_open += fabric->is_ordered ? 0 : 1;
    }
}

static void send_count(struct prs_staged_endpoint *self, struct prs_staged_contact *contact,
                       enum prs_staged_way way)
{
    const struct prs_staged_fabric *fabric = self->fabric;
    struct prs_staged_out *out = &contact->out[way];
    if (out->told == out->posted || out->puts_open > 0 || out->count_open) {
        return;
    }
    uint64_t offset = prs_staged_count_offset(fabric, fabric->self, way, PRS_STAGED_TAIL);
    if (post_count(self, contact, offset, out->posted, fabric->is_ordered ? PRS_OP_UNTRACKED : 0,
                   COOKIE_TAIL + way) == PERSEUS_OK) {
        out->told = out->posted;
        out->count_open = !fabric->is_ordered;
    }
}

/* One at a time: what is done meanwhile goes with the next. */
static void tell_done(struct prs_staged_endpoint *self, struct prs_staged_contact *contact,
                      enum prs_staged_way way)
{
    const struct prs_staged_fabric *fabric = self->fabric;
    struct prs_staged_in *in = &contact->in[way];
    uint64_t offset = prs_staged_count_offset(fabric, fabric->self, way, PRS_STAGED_DONE);
    if (in->told < in->done && !in->count_open &&
        post_count(self, contact, offset, in->done, 0, COOKIE_DONE + way) == PERSEUS_OK) {
        in->told = in->done;
        in->count_open = true;
    }
}

/* A dead peer counts nothing, and where nothing is sent to it nobody notices. */
static void knock(struct prs_staged_endpoint *self, struct prs_staged_contact *contact,
                  uint64_t now_ns)
{
    if (contact->open == 0) {
        contact->moved_ns = now_ns;
    } else if (now_ns - contact->moved_ns > PRS_STAGED_KNOCK_NS && !contact->knock_open) {
        contact->moved_ns = now_ns;
        contact->knock_open = post_count(self, contact, prs_staged_knock_offset(self->fabric), 0, 0,
                                         COOKIE_KNOCK) == PERSEUS_OK;
    }
}

static void tell_refusal(struct prs_staged_endpoint *self, struct prs_staged_contact *contact)
{
    const struct prs_staged_fabric *fabric = self->fabric;
    uint64_t offset =
        prs_staged_count_offset(fabric, fabric->self, PRS_STAGED_REQUEST, PRS_STAGED_DONE);
    contact->owes_refusal = post_count(self, contact, offset, PRS_STAGED_REFUSED, PRS_OP_UNTRACKED,
                                       COOKIE_DONE + PRS_STAGED_REQUEST) == PERSEUS_AGAIN;
}

void prs_staged_send(struct prs_staged_endpoint *self, struct prs_staged_contact *contact,
                     uint64_t now_ns)
{
    if (contact->arena == NULL) {
        return;
    }
    if (contact->owes_refusal) {
        tell_refusal(self, contact);
    }
    for (int way = 0; way < PRS_STAGED_WAYS && !contact->is_lost; way++) {
        send_slots(self, contact, (enum prs_staged_way)way);
        if (!contact->is_lost) {
            send_count(self, contact, (enum prs_staged_way)way);
        }
        if (!contact->is_lost) {
            tell_done(self, contact, (enum prs_staged_way)way);
        }
    }
    if (!contact->is_lost) {
        knock(self, contact, now_ns);
    }
}

void prs_staged_sent(struct prs_staged_endpoint *self, const struct prs_event *event)
{
    struct prs_staged_contact *contact = self->contacts[event->cookie / COOKIES];
    uint32_t cookie = (uint32_t)(event->cookie % COOKIES), way = cookie % PRS_STAGED_WAYS;
    if (event->status != PERSEUS_OK) {
        prs_staged_lose(self, contact);
        return;
    }
    if (cookie == COOKIE_KNOCK) {
        contact->knock_open = false;
    } else if (cookie - way == COOKIE_SLOTS) {
        contact->out[way].puts_open--;
    } else if (cookie - way == COOKIE_TAIL) {
        contact->out[way].count_open = false;
    } else {
        contact->in[way].count_open = false;
    }
}

void prs_staged_hear(struct prs_staged_endpoint *self, struct prs_staged_contact *contact,
                     uint64_t now_ns)
{
    for (int way = 0; way < PRS_STAGED_WAYS && !contact->is_lost; way++) {
        struct prs_staged_out *out = &contact->out[way];
        uint64_t done = prs_staged_read_count(
            prs_staged_count(self, contact->rank, (enum prs_staged_way)way, PRS_STAGED_DONE),
            out->done);
        if (done == PRS_STAGED_REFUSED) {
            prs_log(self->fabric->config.log, PERSEUS_LOG_ERROR,
                    "PE %u has found something from this PE that cannot be and takes nothing more; "
                    "its log says what",
                    contact->rank);
            prs_staged_lose(self, contact);
        } else if (done > out->told) {
            prs_staged_refuse(self, contact, "a count beyond what it was sent");
        } else if (done > out->done) {
            out->done = done;
            contact->moved_ns = now_ns;
        }
    }
    while (contact->sent.first != NULL &&
           contact->sent.first->end <= contact->out[PRS_STAGED_REQUEST].done) {
        prs_staged_end(self, prs_staged_pop(&contact->sent), PERSEUS_OK);
    }
}
