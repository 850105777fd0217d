/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/verbs/queue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/verbs/internal.h"

#define RNR_TIMER    12 /* 0.64 ms: how soon one may try again whose immediate found no room here */
#define RNR_FOR_EVER 7  /* events are never lost: their senders wait */

/* ---- life ---- */

void prs_verbs_queue_enter(struct prs_verbs_queue *queue, uint32_t number)
{
    queue->number = number;
    for (uint32_t i = 0; i < PRS_VERBS_DEPTH; i++) {
        struct prs_verbs_slot *slot = &queue->slots[i];
        slot->wr.wr_id = (uint64_t)number << 32 | i;
        slot->wr.next = &queue->slots[(i + 1) % PRS_VERBS_DEPTH].wr;
        slot->wr.sg_list = &slot->sge;
        slot->own_flags = i % PRS_VERBS_SIGNALED_EVERY == 0 ? IBV_SEND_SIGNALED : 0;
    }
    queue->free = queue->slots;
    queue->oldest = queue->slots;
}

void prs_verbs_queue_start(struct prs_verbs_queue *queue)
{
    queue->limit = PRS_VERBS_DEPTH;
}

void prs_verbs_queue_stop(struct prs_verbs_queue *queue)
{
    queue->limit = 0;
}

enum perseus_status prs_verbs_queue_open(struct prs_verbs_endpoint *endpoint,
                                         struct prs_verbs_peer *peer, uint8_t lane,
                                         struct prs_verbs_queue **out)
{
    const struct prs_verbs_fabric *fabric = prs_verbs_of(endpoint);
    struct prs_verbs_queue *queue = calloc(1, sizeof *queue);
    if (queue == NULL) {
        return prs_fail(fabric->log, PERSEUS_OUT_OF_MEMORY, "no memory for a queue pair's ring");
    }
    queue->peer = peer;
    queue->lane = lane;
    queue->failed_at = UINT64_MAX;
    queue->refused_from = UINT64_MAX;
    *out = queue;
    queue->mr = fabric->library->reg_mr(fabric->pd, queue->slots, sizeof queue->slots, 0);
    struct ibv_qp_init_attr attr = {
        .send_cq = endpoint->sends,
        .recv_cq = endpoint->sends,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = PRS_VERBS_DEPTH,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = PRS_VERBS_INLINE_BYTES},
    };
    queue->qp = queue->mr != NULL ? fabric->library->create_qp(fabric->pd, &attr) : NULL;
    if (queue->mr != NULL && queue->qp == NULL) { /* a device that copies nothing */
        attr.cap.max_inline_data = 0;
        queue->qp = fabric->library->create_qp(fabric->pd, &attr);
    }
    int error = queue->qp == NULL ? errno : prs_verbs_qp_init(endpoint, queue->qp, 0);
    if (error != 0) {
        return prs_fail(fabric->log, error == ENOMEM ? PERSEUS_OUT_OF_MEMORY : PERSEUS_IO,
                        "%s cannot make a queue pair: %s; raise the locked-memory limit (ulimit "
                        "-l), or use fewer PERSEUS_IB_QPS",
                        fabric->device.name, strerror(error));
    }
    queue->inline_max = attr.cap.max_inline_data;
    return PERSEUS_OK;
}

void prs_verbs_queue_close(struct prs_verbs_endpoint *endpoint, struct prs_verbs_queue *queue)
{
    const struct prs_verbs_library *library = prs_verbs_of(endpoint)->library;
    if (queue == NULL) {
        return;
    }
    if (queue->qp != NULL) {
        library->destroy_qp(queue->qp);
    }
    if (queue->mr != NULL) {
        library->dereg_mr(queue->mr);
    }
    free(queue);
}

void prs_verbs_queue_break(struct prs_verbs_endpoint *endpoint, struct prs_verbs_queue *queue)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    prs_verbs_of(endpoint)->library->modify_qp(queue->qp, &attr, IBV_QP_STATE);
}

/* ---- the doorbell ---- */

static void list_done(struct prs_verbs_endpoint *endpoint, struct prs_verbs_queue *queue)
{
    if (queue->done_listed) {
        return;
    }
    queue->done_listed = true;
    queue->next_done = NULL;
    if (endpoint->done_first == NULL) {
        endpoint->done_first = queue;
    } else {
        endpoint->done_last->next_done = queue;
    }
    endpoint->done_last = queue;
}

/* Once all that the device took has come back, what it did not take has failed too. */
static void settle_refused(struct prs_verbs_endpoint *endpoint, struct prs_verbs_queue *queue)
{
    if (queue->done == queue->refused_from) {
        queue->done = queue->posted;
        list_done(endpoint, queue);
    }
}

/* The device took those before `bad`. Their posts have returned OK, so this is an
 * error completion. */
static void refuse(struct prs_verbs_endpoint *endpoint, struct prs_verbs_queue *queue,
                   const struct ibv_send_wr *bad, int error)
{
    uint64_t at = queue->rung;
    while (&queue->slots[at % PRS_VERBS_DEPTH].wr != bad && at + 1 < queue->posted) {
        at++;
    }
    if (queue->refused_from == UINT64_MAX) {
        queue->refused_from = at;
    }
    if (queue->failed_at == UINT64_MAX) {
        queue->failed_at = at;
        queue->failure = PERSEUS_IO;
    }
    char why[128];
    snprintf(why, sizeof why, "queue pair %u refuses work requests: %s", queue->qp->qp_num,
             strerror(error));
    prs_verbs_peer_lose(endpoint, queue->peer, why);
    settle_refused(endpoint, queue);
}

void prs_verbs_queue_ring(struct prs_verbs_endpoint *endpoint, struct prs_verbs_queue *queue)
{
    struct prs_verbs_slot *first = &queue->slots[queue->rung % PRS_VERBS_DEPTH];
    struct prs_verbs_slot *last = &queue->slots[(queue->posted - 1) % PRS_VERBS_DEPTH];
    struct ibv_send_wr *bad = NULL, *next = last->wr.next;
    last->wr.next = NULL;
    last->wr.send_flags |= IBV_SEND_SIGNALED;
    int error = ibv_post_send(queue->qp, &first->wr, &bad);
    last->wr.next = next;
    if (error != 0) {
        refuse(endpoint, queue, bad, error);
    }
    queue->rung = queue->posted;
}

/* ---- completions ---- */

static enum perseus_status status_of(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_SUCCESS:
        return PERSEUS_OK;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_WR_FLUSH_ERR:
    case IBV_WC_REM_ABORT_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
        return PERSEUS_PEER_LOST;
    default:
        return PERSEUS_IO;
    }
}

static const char *advice_of(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
        return "it does not answer: look at that PE's own log, and if it has none at the network "
               "between; where that is slow, raise PERSEUS_IB_TIMEOUT";
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return "it takes no events: it does not poll";
    case IBV_WC_REM_ACCESS_ERR:
        return "it has closed the memory that was written to";
    default:
        return "look at that PE's own log";
    }
}

static void fail_at(struct prs_verbs_endpoint *endpoint, struct prs_verbs_queue *queue,
                    uint64_t position, const struct ibv_wc *wc)
{
    queue->failed_at = position;
    queue->failure = status_of(wc->status);
    char why[256];
    snprintf(why, sizeof why, "queue pair %u (lane %u) failed with \"%s\" (vendor code 0x%x): %s",
             queue->qp->qp_num, queue->lane,
             prs_verbs_of(endpoint)->library->wc_status_str(wc->status), wc->vendor_err,
             advice_of(wc->status));
    prs_verbs_peer_lose(endpoint, queue->peer, why);
}

void prs_verbs_queue_completed(struct prs_verbs_endpoint *endpoint, const struct ibv_wc *wc)
{
    struct prs_verbs_queue *queue = endpoint->queues[wc->wr_id >> 32];
    /* Fewer than PRS_VERBS_DEPTH lie between, so the slot tells the position. */
    uint64_t position = queue->done + ((uint32_t)wc->wr_id - queue->done) % PRS_VERBS_DEPTH;
    if (wc->status != IBV_WC_SUCCESS && position < queue->failed_at) {
        fail_at(endpoint, queue, position, wc);
    }
    queue->done = position + 1;
    list_done(endpoint, queue);
    settle_refused(endpoint, queue);
}

/* The next so many, which have ended alike. */
static uint32_t report_run(struct prs_verbs_queue *queue, uint64_t count,
                           enum perseus_status status, struct prs_event *events)
{
    const struct prs_verbs_slot *slot = queue->oldest;
    uint8_t silent = status == PERSEUS_OK ? PRS_OP_UNTRACKED : 0;
    uint32_t peer = queue->peer->number;
    struct prs_event *event = events;
    for (uint64_t i = 0; i < count; i++) {
        if ((slot->flags & silent) == 0) {
            event->kind = PRS_EVENT_COMPLETION;
            event->status = status;
            event->peer = peer;
            event->cookie = slot->cookie;
            event++;
        }
        slot = (const struct prs_verbs_slot *)slot->wr.next;
    }
    queue->oldest = slot;
    queue->reported += count;
    return (uint32_t)(event - events);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* At least one of those that have ended. */
static uint32_t report_some(struct prs_verbs_queue *queue, struct prs_event *events, uint32_t n)
{
    uint64_t end = queue->done;
    enum perseus_status status = PERSEUS_PEER_LOST;
    if (queue->reported < queue->failed_at) {
        end = smaller(end, queue->failed_at);
        status = PERSEUS_OK;
    } else if (queue->reported == queue->failed_at) {
        end = queue->failed_at + 1;
        status = queue->failure;
    }
    uint32_t filled = report_run(queue, smaller(end - queue->reported, n), status, events);
    if (queue->limit != 0) {
        queue->limit = queue->reported + PRS_VERBS_DEPTH;
    }
    return filled;
}

uint32_t prs_verbs_queues_report(struct prs_verbs_endpoint *endpoint, struct prs_event *events,
                                 uint32_t n)
{
    uint32_t filled = 0;
    while (filled < n && endpoint->done_first != NULL) {
        struct prs_verbs_queue *queue = endpoint->done_first;
        uint64_t before = queue->reported;
        filled += report_some(queue, events + filled, n - filled);
        endpoint->in_flight -= (uint32_t)(queue->reported - before);
        if (queue->reported == queue->done) {
            endpoint->done_first = queue->next_done;
            queue->done_listed = false;
        }
    }
    return filled;
}

/* ---- states of a queue pair ---- */

int prs_verbs_qp_init(const struct prs_verbs_endpoint *endpoint, struct ibv_qp *qp, unsigned rights)
{
    const struct prs_verbs_fabric *fabric = prs_verbs_of(endpoint);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .pkey_index = fabric->device.pkey_index,
                               .port_num = fabric->device.port,
                               .qp_access_flags = rights};
    return fabric->library->modify_qp(
        qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

struct ibv_ah_attr prs_verbs_path(const struct prs_verbs_endpoint *endpoint,
                                  const struct prs_verbs_route *route)
{
    const struct prs_verbs_fabric *fabric = prs_verbs_of(endpoint);
    const struct prs_verbs_device *device = &fabric->device;
    struct ibv_ah_attr attr = {
        .dlid = route->lid, .sl = fabric->settings.sl, .port_num = device->port};
    /* Within a subnet of InfiniBand the LID says it all; its prefix is the GID's first half. */
    attr.is_global = device->is_ethernet || memcmp(route->gid, device->gid.raw, 8) != 0;
    memcpy(attr.grh.dgid.raw, route->gid, sizeof route->gid);
    attr.grh.sgid_index = device->gid_index;
    attr.grh.hop_limit = 64;
    attr.grh.traffic_class = fabric->settings.traffic_class;
    return attr;
}

int prs_verbs_qp_receive(const struct prs_verbs_endpoint *endpoint, struct ibv_qp *qp,
                         const struct prs_verbs_route *route, uint32_t their_qp, uint32_t their_psn,
                         uint8_t mtu, uint8_t rd_atomic)
{
    const struct prs_verbs_fabric *fabric = prs_verbs_of(endpoint);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = mtu < fabric->device.mtu ? mtu : fabric->device.mtu,
                               .dest_qp_num = their_qp,
                               .rq_psn = their_psn,
                               .max_dest_rd_atomic = rd_atomic,
                               .min_rnr_timer = RNR_TIMER,
                               .ah_attr = prs_verbs_path(endpoint, route)};
    return fabric->library->modify_qp(qp, &attr,
                                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                          IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                          IBV_QP_MIN_RNR_TIMER);
}

int prs_verbs_qp_send(const struct prs_verbs_endpoint *endpoint, struct ibv_qp *qp, uint32_t psn,
                      uint8_t rd_atomic)
{
    const struct prs_verbs_fabric *fabric = prs_verbs_of(endpoint);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                               .timeout = fabric->settings.timeout,
                               .retry_cnt = fabric->settings.retry,
                               .rnr_retry = RNR_FOR_EVER,
                               .sq_psn = psn,
                               .max_rd_atomic = rd_atomic};
    return fabric->library->modify_qp(qp, &attr,
                                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                          IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                          IBV_QP_MAX_QP_RD_ATOMIC);
}
