/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "fabric/verbs/internal.h"

#define QKEY_MASK 0x7fffffffu /* the top bit is for privileged ones */

/* ---- receives ---- */

void prs_verbs_arrivals_refill(struct prs_verbs_endpoint *endpoint)
{
    struct ibv_recv_wr list[32];
    while (endpoint->srq_owed > 0) {
        uint32_t n = endpoint->srq_owed < 32 ? endpoint->srq_owed : 32;
        for (uint32_t i = 0; i < n; i++) {
            list[i] = (struct ibv_recv_wr){.wr_id = PRS_VERBS_ID_EVENT,
                                           .next = i + 1 < n ? &list[i + 1] : NULL};
        }
        struct ibv_recv_wr *bad = NULL;
        if (ibv_post_srq_recv(endpoint->srq, list, &bad) != 0) {
            endpoint->srq_owed -= bad != NULL ? (uint32_t)(bad - list) : 0;
            return; /* the next poll tries again */
        }
        endpoint->srq_owed -= n;
    }
}

void prs_verbs_datagram_receive(struct prs_verbs_endpoint *endpoint, uint32_t slot)
{
    struct prs_verbs_talk *talk = endpoint->talk;
    struct ibv_sge sge = {.addr = (uintptr_t)&talk->received[slot],
                          .length = sizeof talk->received[slot],
                          .lkey = talk->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = PRS_VERBS_ID_RECEIVED | slot, .sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr *bad = NULL;
    ibv_post_recv(talk->qp, &wr, &bad); /* there is room: it was here a moment ago */
}

/* ---- datagrams ---- */

void prs_verbs_datagram_sent(struct prs_verbs_endpoint *endpoint, uint32_t slot)
{
    struct prs_verbs_datagram *datagram = &endpoint->talk->sent[slot];
    prs_verbs_of(endpoint)->library->destroy_ah(datagram->ah);
    datagram->ah = NULL;
}

void prs_verbs_datagram_send(struct prs_verbs_endpoint *endpoint,
                             const struct prs_verbs_route *route,
                             const struct prs_verbs_message *message)
{
    const struct prs_verbs_fabric *fabric = prs_verbs_of(endpoint);
    struct prs_verbs_talk *talk = endpoint->talk;
    uint32_t slot = 0;
    while (slot < PRS_VERBS_DATAGRAMS && talk->sent[slot].ah != NULL) {
        slot++;
    }
    if (slot == PRS_VERBS_DATAGRAMS) {
        return;
    }
    struct prs_verbs_datagram *datagram = &talk->sent[slot];
    struct ibv_ah_attr path = prs_verbs_path(endpoint, route);
    datagram->ah = fabric->library->create_ah(fabric->pd, &path);
    if (datagram->ah == NULL) {
        return; /* no way there, for now */
    }
    datagram->message = *message;
    struct ibv_sge sge = {.addr = (uintptr_t)&datagram->message,
                          .length = sizeof datagram->message,
                          .lkey = talk->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = PRS_VERBS_ID_SENT | slot,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED};
    wr.wr.ud.ah = datagram->ah;
    wr.wr.ud.remote_qpn = route->qp;
    wr.wr.ud.remote_qkey = route->qkey;
    struct ibv_send_wr *bad = NULL;
    if (ibv_post_send(talk->qp, &wr, &bad) != 0) {
        prs_verbs_datagram_sent(endpoint, slot);
    }
}

static int talk_ready(const struct prs_verbs_endpoint *endpoint)
{
    const struct prs_verbs_fabric *fabric = prs_verbs_of(endpoint);
    struct ibv_qp *qp = endpoint->talk->qp;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .pkey_index = fabric->device.pkey_index,
                               .port_num = fabric->device.port,
                               .qkey = endpoint->talk->qkey};
    int error = fabric->library->modify_qp(
        qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    if (error == 0) {
        attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR};
        error = fabric->library->modify_qp(qp, &attr, IBV_QP_STATE);
    }
    if (error == 0) {
        attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS};
        error = fabric->library->modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
    }
    return error;
}

static int talk_open(struct prs_verbs_endpoint *endpoint)
{
    const struct prs_verbs_fabric *fabric = prs_verbs_of(endpoint);
    struct prs_verbs_talk *talk = calloc(1, sizeof *talk);
    if (talk == NULL) {
        return ENOMEM;
    }
    endpoint->talk = talk;
    if (!prs_random_fill(&talk->qkey, sizeof talk->qkey)) {
        return EIO;
    }
    talk->qkey &= QKEY_MASK;
    talk->mr = fabric->library->reg_mr(fabric->pd, talk, sizeof *talk, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_qp_init_attr attr = {
        .send_cq = endpoint->arrivals,
        .recv_cq = endpoint->arrivals,
        .qp_type = IBV_QPT_UD,
        .cap = {.max_send_wr = PRS_VERBS_DATAGRAMS,
                .max_recv_wr = PRS_VERBS_DATAGRAMS,
                .max_send_sge = 1,
                .max_recv_sge = 1},
    };
    if (talk->mr == NULL || (talk->qp = fabric->library->create_qp(fabric->pd, &attr)) == NULL) {
        return errno != 0 ? errno : EIO;
    }
    int error = talk_ready(endpoint);
    for (uint32_t i = 0; i < PRS_VERBS_DATAGRAMS && error == 0; i++) {
        prs_verbs_datagram_receive(endpoint, i);
    }
    return error;
}

static void talk_close(struct prs_verbs_endpoint *endpoint)
{
    const struct prs_verbs_library *library = prs_verbs_of(endpoint)->library;
    struct prs_verbs_talk *talk = endpoint->talk;
    if (talk == NULL) {
        return;
    }
    if (talk->qp != NULL) {
        library->destroy_qp(talk->qp);
    }
    for (uint32_t i = 0; i < PRS_VERBS_DATAGRAMS; i++) {
        if (talk->sent[i].ah != NULL) {
            library->destroy_ah(talk->sent[i].ah);
        }
    }
    if (talk->mr != NULL) {
        library->dereg_mr(talk->mr);
    }
    free(talk);
}

/* ---- life ---- */

static int queues_open(struct prs_verbs_endpoint *endpoint)
{
    const struct prs_verbs_fabric *fabric = prs_verbs_of(endpoint);
    const struct ibv_device_attr *limits = &fabric->device.attr;
    uint32_t events = PRS_VERBS_ARRIVALS;
    if (limits->max_srq_wr > 0 && (uint32_t)limits->max_srq_wr < events) {
        events = (uint32_t)limits->max_srq_wr;
    }
    endpoint->channel = fabric->library->create_comp_channel(fabric->device.context);
    if (endpoint->channel == NULL ||
        fcntl(endpoint->channel->fd, F_SETFL, O_NONBLOCK) != 0) { /* get_cq_event must not wait */
        return errno;
    }
    endpoint->sends = fabric->library->create_cq(
        fabric->device.context, (int)endpoint->in_flight_max, NULL, endpoint->channel, 0);
    endpoint->arrivals =
        fabric->library->create_cq(fabric->device.context, (int)(events + 2 * PRS_VERBS_DATAGRAMS),
                                   NULL, endpoint->channel, 0);
    struct ibv_srq_init_attr srq = {.attr = {.max_wr = events, .max_sge = 1}};
    endpoint->srq = fabric->library->create_srq(fabric->pd, &srq);
    if (endpoint->sends == NULL || endpoint->arrivals == NULL || endpoint->srq == NULL) {
        return errno;
    }
    endpoint->srq_owed = events;
    prs_verbs_arrivals_refill(endpoint);
    endpoint->scratch_mr = fabric->library->reg_mr(
        fabric->pd, &endpoint->scratch, sizeof endpoint->scratch, IBV_ACCESS_LOCAL_WRITE);
    return endpoint->scratch_mr != NULL ? talk_open(endpoint) : errno;
}

enum perseus_status prs_verbs_endpoint_open(struct prs_fabric *base, struct prs_endpoint **out)
{
    struct prs_verbs_fabric *fabric = prs_verbs_fabric_of(base);
    struct prs_verbs_endpoint *endpoint = calloc(1, sizeof *endpoint);
    if (endpoint == NULL) {
        return prs_fail(fabric->log, PERSEUS_OUT_OF_MEMORY, "no memory for an endpoint");
    }
    endpoint->base = (struct prs_endpoint){.ops = base->ops, .fabric = base};
    endpoint->in_flight_max = base->caps.inflight_max;
    bool is_random = prs_random_fill(&endpoint->id, sizeof endpoint->id) &&
                     prs_random_fill(endpoint->key, sizeof endpoint->key);
    int error = is_random ? queues_open(endpoint) : EIO;
    if (error != 0) {
        prs_verbs_endpoint_close(&endpoint->base);
        return prs_fail(fabric->log, error == ENOMEM ? PERSEUS_OUT_OF_MEMORY : PERSEUS_IO,
                        "%s cannot open an endpoint: %s; raise the locked-memory limit (ulimit -l) "
                        "if it is small",
                        fabric->device.name, strerror(error));
    }
    *out = &endpoint->base;
    return PERSEUS_OK;
}

static void cq_close(const struct prs_verbs_library *library, struct ibv_cq *cq)
{
    if (cq != NULL) {
        library->destroy_cq(cq);
    }
}

void prs_verbs_endpoint_close(struct prs_endpoint *base)
{
    if (base == NULL) {
        return;
    }
    struct prs_verbs_endpoint *endpoint = (struct prs_verbs_endpoint *)base;
    const struct prs_verbs_library *library = prs_verbs_of(endpoint)->library;
    prs_verbs_connections_close(endpoint);
    talk_close(endpoint);
    if (endpoint->srq != NULL) {
        library->destroy_srq(endpoint->srq);
    }
    cq_close(library, endpoint->sends);
    cq_close(library, endpoint->arrivals);
    if (endpoint->channel != NULL) {
        library->destroy_comp_channel(endpoint->channel);
    }
    if (endpoint->scratch_mr != NULL) {
        library->dereg_mr(endpoint->scratch_mr);
    }
    free(endpoint);
}

struct prs_verbs_route prs_verbs_route(const struct prs_verbs_endpoint *endpoint)
{
    const struct prs_verbs_device *device = &prs_verbs_of(endpoint)->device;
    struct prs_verbs_route route = {.qp = endpoint->talk->qp->qp_num,
                                    .qkey = endpoint->talk->qkey,
                                    .lid = device->lid,
                                    .is_ethernet = device->is_ethernet};
    memcpy(route.gid, device->gid.raw, sizeof route.gid);
    return route;
}

enum perseus_status prs_verbs_endpoint_address(struct prs_endpoint *base, void *out, size_t *bytes)
{
    struct prs_verbs_endpoint *endpoint = (struct prs_verbs_endpoint *)base;
    struct prs_verbs_address address = {.magic = PRS_VERBS_MAGIC,
                                        .lanes = base->fabric->caps.lanes_max,
                                        .id = endpoint->id,
                                        .route = prs_verbs_route(endpoint)};
    memcpy(address.key, endpoint->key, sizeof address.key);
    if (*bytes < sizeof address) {
        return prs_fail(prs_verbs_of(endpoint)->log, PERSEUS_INVALID_ARGUMENT,
                        "an endpoint's address takes %zu bytes, the buffer has %zu", sizeof address,
                        *bytes);
    }
    memcpy(out, &address, sizeof address);
    *bytes = sizeof address;
    return PERSEUS_OK;
}
