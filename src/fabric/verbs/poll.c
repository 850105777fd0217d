/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>

#include "fabric/verbs/internal.h"

#define READ_MAX 32

/* Reads what has completed of our own. It is kept by its queues until it is reported. */
static enum perseus_status sends_read(struct prs_verbs_endpoint *endpoint)
{
    struct ibv_wc wcs[READ_MAX];
    int n = ibv_poll_cq(endpoint->sends, READ_MAX, wcs);
    for (int i = 0; i < n; i++) {
        prs_verbs_queue_completed(endpoint, &wcs[i]);
    }
    endpoint->arming = n > 0 ? PRS_VERBS_AWAKE : endpoint->arming;
    return n >= 0 ? PERSEUS_OK
                  : prs_fail(prs_verbs_of(endpoint)->log, PERSEUS_IO,
                             "%s's completion queue is broken; see dmesg",
                             endpoint->base.fabric->caps.provider);
}

static bool take_arrival(struct prs_verbs_endpoint *endpoint, const struct ibv_wc *wc,
                         struct prs_event *event)
{
    uint32_t slot = (uint32_t)wc->wr_id;
    if (wc->wr_id >= PRS_VERBS_ID_SENT) {
        prs_verbs_datagram_sent(endpoint, slot);
        return false;
    }
    if (wc->wr_id >= PRS_VERBS_ID_RECEIVED) {
        const struct prs_verbs_arrival *arrival = &endpoint->talk->received[slot];
        if (wc->status == IBV_WC_SUCCESS && wc->byte_len == sizeof *arrival) {
            prs_verbs_connect_hear(endpoint, &arrival->message);
        }
        if (wc->status == IBV_WC_SUCCESS) {
            prs_verbs_datagram_receive(endpoint, slot);
        }
        return false;
    }
    endpoint->srq_owed++;
    if (wc->status != IBV_WC_SUCCESS || event == NULL) {
        return false; /* a guest's connection broke: that is told where it was sent */
    }
    *event = (struct prs_event){
        .kind = PRS_EVENT_IMMEDIATE, .peer = PRS_PEER_UNKNOWN, .immediate = ntohl(wc->imm_data)};
    return true;
}

uint32_t prs_verbs_arrivals_read(struct prs_verbs_endpoint *endpoint, struct prs_event *events,
                                 uint32_t n)
{
    struct ibv_wc wcs[READ_MAX];
    int got = ibv_poll_cq(endpoint->arrivals, (int)(n < READ_MAX ? n : READ_MAX), wcs);
    uint32_t filled = 0;
    if (got > 0) {
        endpoint->arming = PRS_VERBS_AWAKE;
    } else if (endpoint->arming == PRS_VERBS_ARMED) {
        endpoint->arming = PRS_VERBS_DROWSY;
    }
    for (int i = 0; i < got; i++) {
        filled += take_arrival(endpoint, &wcs[i], events != NULL ? &events[filled] : NULL);
    }
    if (endpoint->srq_owed >= PRS_VERBS_REFILL_FROM) {
        prs_verbs_arrivals_refill(endpoint);
    }
    return filled;
}

enum perseus_status prs_verbs_poll(struct prs_endpoint *base, struct prs_event *events, uint32_t n,
                                   uint32_t *out_n)
{
    struct prs_verbs_endpoint *endpoint = (struct prs_verbs_endpoint *)base;
    if (endpoint->timed_count > 0) {
        prs_verbs_connect_pump(endpoint);
    }
    prs_verbs_flush(base);
    enum perseus_status status = endpoint->in_flight > 0 ? sends_read(endpoint) : PERSEUS_OK;
    uint32_t filled = 0;
    endpoint->arrivals_first = !endpoint->arrivals_first;
    if (endpoint->arrivals_first && n > 0) {
        filled = prs_verbs_arrivals_read(endpoint, events, n);
    }
    filled += prs_verbs_queues_report(endpoint, events + filled, n - filled);
    if (!endpoint->arrivals_first && filled < n) {
        filled += prs_verbs_arrivals_read(endpoint, events + filled, n - filled);
    }
    *out_n = filled;
    return status;
}
