/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c: the only place that polls. Close what completed, count what arrived, post what became
 * ready. */
#include "order/engine.h"

#define EVENTS_PER_POLL 64u

static void on_completion(struct prs_orderer *orderer, const struct prs_event *event)
{
    struct prs_pending *pending =
        event->cookie < orderer->pendings_used ? &orderer->pendings[event->cookie] : NULL;
    if (pending == NULL || pending->peer == NULL) {
        prs_log(orderer->config.log, PERSEUS_LOG_ERROR,
                "the fabric completed an operation that is not open (cookie %llu): a defect of its "
                "back end; ignored",
                (unsigned long long)event->cookie);
        return;
    }
    struct prs_order_peer *peer = pending->peer;
    bool is_ack = pending->is_ack;
    prs_pending_clear(orderer, (uint32_t)event->cookie, PRS_WAIT_LOCAL, event->status);
    if (is_ack) {
        prs_mail_ack_sent(orderer, peer->rank);
    }
    if (event->status != PERSEUS_OK) {
        prs_order_peer_lost(orderer, peer, event->status);
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

enum perseus_status prs_orderer_progress(struct prs_orderer *orderer, uint32_t budget,
                                         bool *out_did)
{
    bool did = false;
    enum perseus_status status = poll_events(orderer, budget, &did);
    did |= prs_order_stall_update(orderer);
    if (status == PERSEUS_OK && orderer->parked_list != NULL) {
        status = prs_order_pump_parked(orderer, &did);
    }
    if (status == PERSEUS_OK && orderer->mail_in_work != NULL) {
        status = prs_mail_in_pump(orderer, &did);
    }
    if (orderer->quiets_count > 0) {
        did |= prs_order_quiets_update(orderer);
    }
    if (status == PERSEUS_OK) {
        status = prs_orderer_flush(orderer);
    }
    *out_did = did;
    return status;
}

enum perseus_status prs_orderer_flush(struct prs_orderer *orderer)
{
    if (!orderer->caps.batching) {
        return PERSEUS_OK;
    }
    enum perseus_status status = orderer->ops->flush(orderer->config.endpoint);
    return status == PERSEUS_AGAIN ? PERSEUS_OK : status; /* the next flush rings it */
}

bool prs_orderer_is_idle(const struct prs_orderer *orderer)
{
    return orderer->epochs.open == 0 && !orderer->stall.active && orderer->quiets_count == 0 &&
           orderer->mail_in_work == NULL;
}
