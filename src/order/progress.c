/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c: the only place that polls. Close what completed, hear what arrived, post what became
 * ready. A failure here is a peer's; only a broken endpoint ends the step. */
#include "order/engine.h"

#define EVENTS_PER_POLL 64u

/* An answer, or a flush. */
static void on_own_completion(struct prs_orderer *orderer, const struct prs_event *event)
{
    uint32_t rank = (uint32_t)(event->cookie & UINT32_MAX);
    struct prs_order_peer *peer =
        rank < orderer->config.n_peers
            ? atomic_load_explicit(&orderer->peers[rank], memory_order_relaxed)
            : NULL;
    if (peer == NULL) {
        return;
    }
    peer->moved_ns = orderer->now_ns;
    if (event->status != PERSEUS_OK) {
        prs_order_peer_fail(orderer, peer, event->status);
    }
    if ((event->cookie & PRS_COOKIE_FLUSH) != 0) {
        prs_order_flushed(orderer, peer);
    } else {
        prs_mail_answer_done(orderer, rank);
    }
}

static void on_completion(struct prs_orderer *orderer, const struct prs_event *event)
{
    if (event->cookie >= PRS_COOKIE_ANSWER) {
        on_own_completion(orderer, event);
        return;
    }
    struct prs_pending *pending = prs_pending_at(orderer, event->cookie);
    if (pending == NULL) {
        prs_log(orderer->config.log, PERSEUS_LOG_ERROR,
                "the fabric completed an operation that is not open (cookie %llu): a defect of its "
                "back end; ignored",
                (unsigned long long)event->cookie);
        return;
    }
    struct prs_order_peer *peer = pending->peer;
    uint64_t sequence = pending->sequence;
    bool asked = pending->asked;
    peer->moved_ns = orderer->now_ns;
    prs_pending_clear(orderer, pending, PRS_WAIT_LOCAL, event->status);
    if (event->status != PERSEUS_OK) {
        prs_order_peer_fail(orderer, peer, event->status);
    } else if (asked) {
        prs_order_prove(orderer, peer, sequence);
    }
}

static enum perseus_status poll_events(struct prs_orderer *orderer, uint32_t budget, bool *did)
{
    while (budget > 0) {
        struct prs_event events[EVENTS_PER_POLL];
        uint32_t n = budget < EVENTS_PER_POLL ? budget : EVENTS_PER_POLL, got = 0;
        enum perseus_status status = orderer->ops->poll(orderer->config.endpoint, events, n, &got);
        for (uint32_t i = 0; i < got; i++) {
            if (events[i].kind == PRS_EVENT_COMPLETION) {
                on_completion(orderer, &events[i]);
            } else {
                prs_mail_immediate(orderer, events[i].immediate);
            }
        }
        *did |= got > 0;
        if (status != PERSEUS_OK || got < n) {
            return status;
        }
        budget -= got;
    }
    return PERSEUS_OK;
}

static enum perseus_status ring(struct prs_orderer *orderer)
{
    if (!orderer->caps.batching) {
        return PERSEUS_OK;
    }
    enum perseus_status status = orderer->ops->flush(orderer->config.endpoint);
    return status == PERSEUS_AGAIN ? PERSEUS_OK : status; /* the next one rings it */
}

enum perseus_status prs_orderer_progress(struct prs_orderer *orderer, uint32_t budget,
                                         bool *out_did)
{
    bool did = false;
    if (orderer->watched.first != NULL) {
        prs_order_watch_clock(orderer);
    }
    enum perseus_status status = poll_events(orderer, budget, &did);
    if (status != PERSEUS_OK) {
        return status;
    }
    did |= prs_order_stall_update(orderer);
    did |= orderer->ready.first != NULL && prs_order_pump_parked(orderer);
    did |= orderer->mail_work.first != NULL && prs_mail_in_pump(orderer);
    did |= orderer->watched.first != NULL && prs_order_watch(orderer);
    did |= orderer->quiets_count > 0 && prs_order_quiets_update(orderer);
    if (orderer->unproven.first != NULL) {
        did |= prs_order_prove_pump(orderer, !did && !orderer->submitted);
    }
    orderer->submitted = false;
    *out_did = did;
    return ring(orderer);
}

enum perseus_status prs_orderer_flush(struct prs_orderer *orderer)
{
    if (orderer->ready.first != NULL) {
        prs_order_pump_parked(orderer); /* signals that waited for the end of the batch */
    }
    return ring(orderer);
}

int prs_orderer_wait_fd(const struct prs_orderer *orderer)
{
    return orderer->caps.wakes ? orderer->ops->wait_fd(orderer->config.endpoint) : -1;
}

bool prs_orderer_bytes_are_silent(const struct prs_orderer *orderer)
{
    return orderer->caps.bytes_are_silent;
}

enum perseus_status prs_orderer_arm(struct prs_orderer *orderer, uint64_t *out_limit_ns)
{
    return orderer->ops->arm(orderer->config.endpoint, out_limit_ns);
}

bool prs_orderer_is_idle(const struct prs_orderer *orderer)
{
    return orderer->epochs.open == 0 && !orderer->stall.active && orderer->quiets_count == 0 &&
           orderer->mail_work.first == NULL;
}
