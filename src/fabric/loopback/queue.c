/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fabric/loopback/loopback.h"
#include "fabric/op.h"

/* One poll takes at most this much off the lanes. */
#define PRS_POLL_ATTEMPTS 64
#define PRS_POLL_BYTES    (1u << 20)

static void push_busy(struct prs_loopback_endpoint *self, struct prs_loopback_lane *lane)
{
    lane->next_busy = NULL;
    if (self->busy_first == NULL) {
        self->busy_first = lane;
    } else {
        self->busy_last->next_busy = lane;
    }
    self->busy_last = lane;
}

static void push(struct prs_loopback_endpoint *self, struct prs_loopback_op *queued)
{
    struct prs_loopback_peer *peer =
        (struct prs_loopback_peer *)self->common.peers[queued->op.peer];
    struct prs_loopback_lane *lane = &peer->lanes[queued->op.lane];
    queued->next = NULL;
    if (lane->first == NULL) {
        lane->first = queued;
        push_busy(self, lane);
    } else {
        lane->last->next = queued;
    }
    lane->last = queued;
}

enum perseus_status prs_loopback_post(struct prs_endpoint *endpoint, const struct prs_op *op)
{
    struct prs_loopback_endpoint *self = (struct prs_loopback_endpoint *)endpoint;
    enum perseus_status status = prs_inprocess_check(&self->common, op);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_loopback_op *queued = self->free;
    if (queued == NULL) {
        return PERSEUS_AGAIN;
    }
    self->free = queued->next;
    queued->op = *op;
    queued->slot = ((const struct prs_inprocess_remote *)op->remote)->slot;
    queued->local = op->local != NULL ? op->local->base + op->local_offset : NULL;
    if (op->flags & PRS_OP_INLINE && op->bytes > 0) {
        memcpy(queued->copied, op->inline_source, op->bytes);
    }
    queued->number = ++self->posted;
    if ((op->flags & PRS_OP_MORE) == 0) {
        self->rung = self->posted;
    }
    push(self, queued);
    return PERSEUS_OK;
}

enum perseus_status prs_loopback_flush(struct prs_endpoint *endpoint)
{
    struct prs_loopback_endpoint *self = (struct prs_loopback_endpoint *)endpoint;
    self->rung = self->posted;
    return PERSEUS_OK;
}

/* Carries out one operation. AGAIN: the target's inbox is full, try again later. */
static enum perseus_status execute(struct prs_loopback_endpoint *self,
                                   const struct prs_loopback_op *queued)
{
    const struct prs_op *op = &queued->op;
    struct prs_port *port = self->common.peers[op->peer]->port;
    unsigned char *target;
    enum perseus_status status = prs_inprocess_enter(&self->common, op, queued->slot, &target);
    if (status != PERSEUS_OK) {
        return status;
    }
    bool is_coherent = self->common.fabric->base.caps.atomics_cpu_coherent;
    bool locks_words = prs_op_is_word(op) && !is_coherent;
    if (locks_words) {
        prs_port_lock_words(port);
    }
    prs_loopback_move(queued, target, is_coherent);
    if (locks_words) {
        prs_port_unlock_words(port);
    }
    status = prs_inprocess_tell(&self->common, op);
    prs_port_leave(port);
    prs_port_ring(port);
    return status;
}

/* Takes the first operation off `lane` if it can be carried out now; returns whether it filled
 * *event. */
static bool step_lane(struct prs_loopback_endpoint *self, struct prs_loopback_lane *lane,
                      struct prs_event *event, uint64_t *moved)
{
    struct prs_loopback_op *queued = lane->first;
    if (queued->number > self->rung) {
        return false;
    }
    enum perseus_status status = execute(self, queued);
    if (status == PERSEUS_AGAIN) {
        return false;
    }
    const struct prs_op *op = &queued->op;
    *moved += op->bytes;
    *event = (struct prs_event){
        .kind = PRS_EVENT_COMPLETION, .status = status, .peer = op->peer, .cookie = op->cookie};
    bool is_reported = status != PERSEUS_OK || (op->flags & PRS_OP_UNTRACKED) == 0;
    lane->first = queued->next;
    queued->next = self->free;
    self->free = queued;
    return is_reported;
}

/* Serves the busy lanes in turn. An operation is carried out only when there is room to report it,
 * so completions need no queue. */
static uint32_t run_lanes(struct prs_inprocess_endpoint *endpoint, struct prs_event *events,
                          uint32_t n)
{
    struct prs_loopback_endpoint *self = (struct prs_loopback_endpoint *)endpoint;
    uint32_t filled = 0;
    uint64_t moved = 0;
    for (uint32_t i = 0; i < PRS_POLL_ATTEMPTS; i++) {
        struct prs_loopback_lane *lane = self->busy_first;
        if (lane == NULL || filled == n || moved >= PRS_POLL_BYTES) {
            break;
        }
        self->busy_first = lane->next_busy;
        filled += step_lane(self, lane, &events[filled], &moved) ? 1 : 0;
        if (lane->first != NULL) {
            push_busy(self, lane);
        }
    }
    return filled;
}

enum perseus_status prs_loopback_poll(struct prs_endpoint *endpoint, struct prs_event *events,
                                      uint32_t n, uint32_t *out_n)
{
    *out_n = prs_inprocess_poll((struct prs_inprocess_endpoint *)endpoint, run_lanes, events, n);
    return PERSEUS_OK;
}

int prs_loopback_wait_fd(struct prs_endpoint *endpoint)
{
    return ((struct prs_loopback_endpoint *)endpoint)->bell;
}

enum perseus_status prs_loopback_arm(struct prs_endpoint *endpoint, uint64_t *out_limit_ns)
{
    struct prs_loopback_endpoint *self = (struct prs_loopback_endpoint *)endpoint;
    /* What is left of our own after a poll waits for a doorbell, or for room in a full inbox, which
     * tells nobody when it has some. */
    *out_limit_ns = self->busy_first != NULL ? PRS_LOOPBACK_RETRY_NS : UINT64_MAX;
    struct prs_inprocess_fabric *fabric = self->common.fabric;
    return fabric->first == &self->common ? prs_port_arm(fabric->port, self->bell) : PERSEUS_OK;
}
