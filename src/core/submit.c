/* SPDX-License-Identifier: Apache-2.0 */
#include "core/submit.h"

#include "core/wait.h"

static enum perseus_status push_until(struct prs_wait *wait, const struct prs_desc *descs,
                                      uint32_t n)
{
    struct prs_channel *channel = wait->pe->channel;
    enum perseus_status status = PERSEUS_OK;
    while (prs_channel_push(channel, descs, n) == PERSEUS_AGAIN) {
        if (status != PERSEUS_OK) {
            return prs_wait_fail(wait, status,
                                 "the channel ring stays full, its head may wait for "
                                 "a peer that does not answer");
        }
        status = prs_wait_step(wait);
    }
    return PERSEUS_OK;
}

enum perseus_status prs_submit(struct perseus_pe *pe, const struct prs_desc *descs, uint32_t n)
{
    if (prs_channel_push(pe->channel, descs, n) == PERSEUS_OK) {
        return PERSEUS_OK; /* the usual case reads no clock */
    }
    struct prs_wait wait = prs_wait_begin(pe, pe->timeout_ms);
    return push_until(&wait, descs, n);
}

static enum perseus_status take_ticket(struct prs_wait *wait, uint32_t *out_ticket)
{
    struct prs_tickets *tickets = prs_channel_tickets(wait->pe->channel);
    enum perseus_status status = PERSEUS_OK;
    while (prs_ticket_take(tickets, out_ticket) == PERSEUS_AGAIN) {
        if (status != PERSEUS_OK) {
            return prs_wait_fail(wait, status, "too many threads of this PE wait at once");
        }
        status = prs_wait_step(wait);
    }
    return PERSEUS_OK;
}

/* The proxy logged the error when it saw it: here it only becomes this thread's last error. */
static enum perseus_status report_failed(struct perseus_pe *pe, enum perseus_status status,
                                         uint32_t peer, const char *what)
{
    if (peer == PRS_DESC_ALL_PEERS) {
        return prs_report_adopt(&pe->report, status, "PE %d: %s: %s", pe->rank, what,
                                perseus_status_string(status));
    }
    return prs_report_adopt(&pe->report, status, "PE %d: %s with PE %u: %s", pe->rank, what, peer,
                            perseus_status_string(status));
}

static enum perseus_status report_given_up(const struct prs_wait *wait, enum perseus_status status,
                                           uint32_t peer, const char *what)
{
    if (peer == PRS_DESC_ALL_PEERS) {
        return prs_wait_fail(wait, status, "%s", what);
    }
    return prs_wait_fail(wait, status, "%s with PE %u", what, peer);
}

enum perseus_status prs_submit_and_wait(struct perseus_pe *pe, struct prs_desc desc,
                                        const char *what, uint64_t *out_result)
{
    struct prs_tickets *tickets = prs_channel_tickets(pe->channel);
    struct prs_wait wait = prs_wait_begin(pe, pe->timeout_ms);
    enum perseus_status status = take_ticket(&wait, &desc.ticket);
    if (status != PERSEUS_OK) {
        return status;
    }
    status = push_until(&wait, &desc, 1);
    if (status != PERSEUS_OK) {
        prs_ticket_give_back(tickets, desc.ticket);
        return status;
    }
    enum perseus_status outcome = PERSEUS_OK;
    uint64_t result = 0;
    while (!prs_ticket_poll(tickets, desc.ticket, &outcome, &result)) {
        if (status != PERSEUS_OK) {
            prs_ticket_abandon(tickets, desc.ticket);
            return report_given_up(&wait, status, desc.peer, what);
        }
        status = prs_wait_step(&wait);
    }
    if (outcome != PERSEUS_OK) {
        return report_failed(pe, outcome, desc.peer, what);
    }
    if (out_result != NULL) {
        *out_result = result;
    }
    return PERSEUS_OK;
}

static enum perseus_status submit_pieces(struct perseus_pe *pe, struct prs_desc desc)
{
    uint64_t piece_max = pe->message_bytes_max, left = desc.bytes;
    enum perseus_status status = PERSEUS_OK;
    while (left > 0 && status == PERSEUS_OK) {
        desc.bytes = left < piece_max ? left : piece_max;
        status = prs_submit(pe, &desc, 1);
        desc.local += desc.bytes;
        desc.remote += desc.bytes;
        left -= desc.bytes;
    }
    return status;
}

/* A put with signal that does not fit into one message becomes puts, a fence and a signal; one
 * without payload is a signal. Submits all but the signal, which is left in *desc. */
static enum perseus_status split_signal(struct perseus_pe *pe, struct prs_desc *desc)
{
    enum perseus_status status = PERSEUS_OK;
    if (desc->bytes > 0) {
        struct prs_desc put = *desc;
        put.kind = PRS_DESC_PUT;
        status = submit_pieces(pe, put);
        if (status == PERSEUS_OK) {
            status = prs_submit_fence(pe, desc->peer);
        }
    }
    desc->kind = PRS_DESC_SIGNAL;
    desc->remote = desc->signal;
    desc->bytes = 0;
    return status;
}

enum perseus_status prs_submit_transfer(struct perseus_pe *pe, struct prs_desc desc,
                                        const char *what, bool is_blocking)
{
    bool fits = desc.bytes > 0 && desc.bytes <= pe->message_bytes_max;
    enum perseus_status status = PERSEUS_OK;
    if (!fits && desc.kind == PRS_DESC_PUT_SIGNAL) {
        status = split_signal(pe, &desc);
    } else if (!fits) {
        status = submit_pieces(pe, desc);
        return is_blocking && status == PERSEUS_OK ? prs_submit_quiet(pe, desc.peer, what) : status;
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    return is_blocking ? prs_submit_and_wait(pe, desc, what, NULL) : prs_submit(pe, &desc, 1);
}

enum perseus_status prs_submit_fence(struct perseus_pe *pe, uint32_t peer)
{
    const struct prs_desc desc = {
        .kind = PRS_DESC_FENCE, .peer = peer, .ticket = PRS_DESC_NO_TICKET};
    return prs_submit(pe, &desc, 1);
}

enum perseus_status prs_submit_quiet(struct perseus_pe *pe, uint32_t peer, const char *what)
{
    const struct prs_desc desc = {.kind = PRS_DESC_QUIET, .peer = peer};
    return prs_submit_and_wait(pe, desc, what, NULL);
}
