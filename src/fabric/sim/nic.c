/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nic.c: the stations of an operation.
 *
 *   take     its queue lets it through, or holds it behind a fence
 *   send     it comes to the sender's line, which connections share (line.c)
 *   begin    what is before it on its connection has left that line
 *   arrive   its first byte comes to the receiver's line, which connections share too
 *   deliver  its last byte has come, and left that line: the target's memory has changed
 *   finish   software at the source can see that
 *
 * It is on both lines at one time, as packets would be, and on the second as if all of it had come
 * with its first byte, but that it cannot be through before its last byte has come.
 */
#include "fabric/sim/internal.h"

static void on_send(void *context);
static void on_arrive(void *context);
static void on_deliver(void *context);
static void on_finish(void *context);

uint64_t prs_sim_bytes_ns(uint64_t bytes, double gbit_s)
{
    return gbit_s > 0 ? (uint64_t)((double)bytes * 8 / gbit_s + 0.5) : 0;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static struct prs_sim_queue *queue_of(const struct prs_sim_op *op)
{
    const struct prs_sim_endpoint *endpoint = op->endpoint;
    return endpoint->n_queues > 0
               ? &endpoint->queues[prs_sim_connection_of(op) % endpoint->n_queues]
               : &prs_sim_lane_of(op)->queue;
}

/* What travels to the target. */
static uint64_t wire_bytes(const struct prs_sim_op *op)
{
    return op->kind == PRS_OP_PUT ? op->bytes : op->kind == PRS_OP_GET ? 0 : 8;
}

/* What travels back. */
static uint64_t answer_bytes(const struct prs_sim_op *op)
{
    return op->kind == PRS_OP_GET ? op->bytes : op->kind == PRS_OP_ATOMIC_FETCH ? 8 : 0;
}

/* How long the NIC takes for its bytes, on the line, or to read them, which goes on meanwhile; and
 * what of the line it takes, which is more when its bytes are few. */
static void measure(struct prs_sim_op *op)
{
    const struct prs_sim_model *model = &op->endpoint->net->model;
    uint64_t bytes = wire_bytes(op);
    bool reads = prs_sim_reads(op->kind, op->flags, op->bytes);
    op->length_ns = later(prs_sim_bytes_ns(bytes, model->line_gbit_s),
                          reads ? prs_sim_bytes_ns(bytes, model->pcie_gbit_s) : 0);
    op->service_ns = later(op->length_ns, (uint64_t)model->message_ns);
}

/* Its first byte is on the line. */
static void begin(struct prs_sim_op *op)
{
    struct prs_sim_net *net = op->endpoint->net;
    const struct prs_sim_model *model = &net->model;
    uint64_t now_ns = prs_sim_now(net), head_ns = now_ns + net->latency_ns;
    if (prs_sim_reads(op->kind, op->flags, op->bytes)) {
        uint64_t stored =
            (double)op->bytes < model->store_bytes ? op->bytes : (uint64_t)model->store_bytes;
        head_ns += (uint64_t)model->pcie_ns + prs_sim_bytes_ns(stored, model->store_gbit_s);
    }
    if (model->jitter_ns >= 1) {
        head_ns += prs_rng_below(&net->rng, (uint32_t)model->jitter_ns);
    }
    if (model->ordered) {
        struct prs_sim_lane *lane = prs_sim_lane_of(op);
        head_ns = lane->head_ns = later(head_ns, lane->head_ns);
    }
    uint64_t gap_ns = op->service_ns - op->length_ns; /* between its last byte and the next */
    op->late_ns = later(head_ns - now_ns, gap_ns) - gap_ns;
    prs_timeline_add(net->timeline, head_ns, on_arrive, op);
}

static void on_send(void *context)
{
    struct prs_sim_op *op = context;
    struct prs_sim_endpoint *endpoint = op->endpoint;
    struct prs_sim_net *net = endpoint->net;
    if (endpoint->is_closed) { /* its fabric may be gone */
        prs_timeline_add(net->timeline, prs_sim_now(net), on_deliver, op);
        return;
    }
    measure(op);
    op->is_sent = op->is_received = false;
    if (op->service_ns == 0) {
        begin(op);
        prs_sim_nic_sent(op, NULL);
    } else if (prs_sim_line_add(endpoint->fabric->lines[PRS_SIM_SEND], op, op->service_ns)) {
        begin(op);
    }
}

void prs_sim_nic_sent(struct prs_sim_op *op, struct prs_sim_op *behind)
{
    uint64_t tail_ns = prs_sim_now(op->endpoint->net) + op->late_ns;
    if (behind != NULL) {
        begin(behind);
    }
    if (op->endpoint->net->model.ordered) {
        struct prs_sim_lane *lane = prs_sim_lane_of(op);
        tail_ns = lane->tail_ns = later(tail_ns, lane->tail_ns);
    }
    op->tail_ns = tail_ns;
    op->is_sent = true;
    if (op->is_received) {
        prs_timeline_add(op->endpoint->net->timeline, tail_ns, on_deliver, op);
    }
}

/* What a fence flag of this connection waits for. */
static const struct prs_sim_ahead *ahead_of(const struct prs_sim_op *op)
{
    return op->endpoint->net->model.fence_queue ? &queue_of(op)->ahead
                                                : &prs_sim_lane_of(op)->ahead;
}

/* It leaves its queue, behind what did so before. */
static void pass(struct prs_sim_queue *queue, struct prs_sim_op *op)
{
    struct prs_sim_net *net = op->endpoint->net;
    uint64_t start_ns = later(op->posted_ns, queue->open_ns);
    if (op->flags & PRS_OP_FENCE) {
        start_ns = later(start_ns, ahead_of(op)->acked_ns) + (uint64_t)net->model.fence_ns;
        queue->open_ns = start_ns;
    }
    queue->ahead.undelivered++;
    prs_sim_lane_of(op)->ahead.undelivered++;
    prs_timeline_add(net->timeline, start_ns, on_send, op);
}

/* A fence flag waits for all before it on its connection, or in its queue, and what is behind it in
 * its queue, also for other peers, waits with it. */
static bool must_wait(const struct prs_sim_op *op)
{
    return (op->flags & PRS_OP_FENCE) != 0 && ahead_of(op)->undelivered > 0;
}

void prs_sim_nic_take(struct prs_sim_op *op)
{
    struct prs_sim_queue *queue = queue_of(op);
    op->next = NULL;
    if (queue->held_first != NULL) {
        queue->held_last->next = op;
        queue->held_last = op;
    } else if (must_wait(op)) {
        queue->held_first = queue->held_last = op;
    } else {
        pass(queue, op);
    }
}

static void is_delivered(struct prs_sim_ahead *ahead, uint64_t known_ns)
{
    ahead->undelivered--;
    ahead->acked_ns = later(ahead->acked_ns, known_ns);
}

static void leave_connection(const struct prs_sim_op *delivered)
{
    struct prs_sim_queue *queue = queue_of(delivered);
    const struct prs_sim_net *net = delivered->endpoint->net;
    uint64_t known_ns = prs_sim_now(net) + (uint64_t)net->model.ack_ns;
    is_delivered(&queue->ahead, known_ns);
    is_delivered(&prs_sim_lane_of(delivered)->ahead, known_ns);
    for (struct prs_sim_op *op = queue->held_first; op != NULL && !must_wait(op);
         op = queue->held_first) {
        queue->held_first = op->next;
        pass(queue, op);
    }
}

static void on_arrive(void *context)
{
    struct prs_sim_op *op = context;
    struct prs_sim_endpoint *endpoint = op->endpoint;
    struct prs_sim_net *net = endpoint->net;
    struct prs_sim_endpoint *target =
        endpoint->is_closed ? NULL : prs_sim_net_endpoint(net, endpoint->peers[op->peer].target);
    const struct prs_sim_model *model = &net->model;
    uint64_t takes_ns = later(prs_sim_bytes_ns(wire_bytes(op), model->receive_gbit_s),
                              (uint64_t)model->receive_message_ns);
    if (target == NULL || takes_ns == 0) {
        prs_sim_nic_received(op);
    } else {
        (void)prs_sim_line_add(target->fabric->lines[PRS_SIM_RECEIVE], op, takes_ns);
    }
}

void prs_sim_nic_received(struct prs_sim_op *op)
{
    struct prs_sim_net *net = op->endpoint->net;
    op->is_received = true;
    if (!op->is_sent) {
        return;
    }
    /* Granted order: another of its connection may be due now, on the timeline for its tail. */
    if (op->tail_ns > prs_sim_now(net) || net->model.ordered) {
        prs_timeline_add(net->timeline, op->tail_ns, on_deliver, op);
    } else {
        on_deliver(op);
    }
}

static void hand_over_arrival(struct prs_sim_op *op, struct prs_sim_endpoint *target)
{
    struct prs_sim_arrival *arrival = op->arrival;
    op->arrival = NULL;
    *arrival =
        (struct prs_sim_arrival){.source = op->endpoint->fabric->first, .immediate = op->immediate};
    if (target->arrived_first == NULL) {
        target->arrived_first = arrival;
    } else {
        target->arrived_last->next = arrival;
    }
    target->arrived_last = arrival;
    if (target->ready != NULL) {
        target->ready(target->ready_context);
    }
}

static enum perseus_status carry_out(struct prs_sim_op *op)
{
    struct prs_sim_endpoint *endpoint = op->endpoint;
    struct prs_sim_peer *peer = &endpoint->peers[op->peer];
    if (peer->is_lost) {
        return PERSEUS_PEER_LOST;
    }
    struct prs_sim_endpoint *target = prs_sim_net_endpoint(endpoint->net, peer->target);
    struct prs_sim_region *region = prs_sim_net_region(endpoint->net, op->region);
    if (target == NULL || region == NULL) {
        return prs_fail(endpoint->fabric->log, target == NULL ? PERSEUS_PEER_LOST : PERSEUS_IO,
                        "peer %u has closed %s while an operation was on its way; no more can be "
                        "sent to it",
                        op->peer, target == NULL ? "its endpoint" : "the target region");
    }
    prs_sim_move(op, region);
    if (op->flags & PRS_OP_IMMEDIATE) {
        hand_over_arrival(op, target);
    }
    return PERSEUS_OK;
}

static void on_deliver(void *context)
{
    struct prs_sim_op *op = context;
    struct prs_sim_endpoint *endpoint = op->endpoint;
    struct prs_sim_net *net = endpoint->net;
    if (endpoint->is_closed) { /* canceled; what its queues hold goes the same way */
        leave_connection(op);
        prs_sim_op_give_back(op);
        return;
    }
    enum perseus_status status = carry_out(op);
    endpoint->peers[op->peer].is_lost |= status != PERSEUS_OK;
    op->status = (uint8_t)status;
    leave_connection(op);
    if (status == PERSEUS_OK && (op->flags & PRS_OP_UNTRACKED)) {
        prs_sim_op_give_back(op);
        return;
    }
    uint64_t back_ns = (uint64_t)(net->model.ack_ns + net->model.completion_ns) +
                       endpoint->tail_ns +
                       prs_sim_bytes_ns(answer_bytes(op), net->model.line_gbit_s);
    prs_timeline_add(net->timeline, prs_sim_now(net) + back_ns, on_finish, op);
}

static void on_finish(void *context)
{
    struct prs_sim_op *op = context;
    struct prs_sim_endpoint *endpoint = op->endpoint;
    if (endpoint->is_closed) {
        prs_sim_op_give_back(op);
        return;
    }
    op->next = NULL;
    endpoint->untold -= (op->flags & PRS_OP_UNTRACKED) == 0;
    if (endpoint->done_first == NULL) {
        endpoint->done_first = op;
    } else {
        endpoint->done_last->next = op;
    }
    endpoint->done_last = op;
    if (endpoint->ready != NULL) {
        endpoint->ready(endpoint->ready_context);
    }
}
