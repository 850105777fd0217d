/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fabric/loopback/loopback.h"
#include "fabric/op.h"

/* One poll takes at most this much off the lanes. */
#define PRS_POLL_ATTEMPTS  64
#define PRS_POLL_BYTES     (1u << 20)
#define PRS_POLL_IMMEDIATE 64

static bool is_word(const struct prs_op *op)
{
    return op->kind != PRS_OP_PUT && op->kind != PRS_OP_GET;
}

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
    struct prs_loopback_lane *lane = &self->peers[queued->op.peer]->lanes[queued->op.lane];
    queued->next = NULL;
    if (lane->first == NULL) {
        lane->first = queued;
        push_busy(self, lane);
    } else {
        lane->last->next = queued;
    }
    lane->last = queued;
}

static enum perseus_status loopback_check(struct prs_loopback_endpoint *self,
                                          const struct prs_op *op)
{
    const struct prs_log *log = self->fabric->log;
    if (op->peer >= self->n_peers) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT, "peer %u is not connected", op->peer);
    }
    enum perseus_status status = prs_op_check(&self->base, op, log);
    if (status != PERSEUS_OK) {
        return status;
    }
    const struct prs_loopback_remote *remote = (const struct prs_loopback_remote *)op->remote;
    if (is_word(op) && !remote->is_word_aligned) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "words need a region that begins on an 8-byte boundary, and this one of "
                        "peer %u does not",
                        op->peer);
    }
    return self->peers[op->peer]->is_lost ? PERSEUS_PEER_LOST : PERSEUS_OK;
}

enum perseus_status prs_loopback_post(struct prs_endpoint *endpoint, const struct prs_op *op)
{
    struct prs_loopback_endpoint *self = (struct prs_loopback_endpoint *)endpoint;
    enum perseus_status status = loopback_check(self, op);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_loopback_op *queued = self->free;
    if (queued == NULL) {
        return PERSEUS_AGAIN;
    }
    self->free = queued->next;
    queued->op = *op;
    queued->slot = ((const struct prs_loopback_remote *)op->remote)->slot;
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
    struct prs_loopback_peer *peer = self->peers[op->peer];
    if (peer->is_lost) {
        return PERSEUS_PEER_LOST;
    }
    unsigned char *base;
    size_t bytes;
    enum perseus_status status = prs_port_enter(peer->port, queued->slot, &base, &bytes);
    if (status != PERSEUS_OK) {
        return prs_fail(self->fabric->log, status,
                        "peer %u has closed %s while an operation was on its way; no more can be "
                        "sent to it",
                        op->peer, status == PERSEUS_IO ? "the target region" : "its endpoint");
    }
    bool is_coherent = self->base.fabric->caps.atomics_cpu_coherent;
    bool locks_words = is_word(op) && !is_coherent;
    if (locks_words) {
        prs_port_lock_words(peer->port);
    }
    prs_loopback_move(queued, base + op->remote_offset, is_coherent);
    if (locks_words) {
        prs_port_unlock_words(peer->port);
    }
    if (op->flags & PRS_OP_IMMEDIATE) {
        struct prs_port_event event = {.source = prs_port_id(self->fabric->port),
                                       .immediate = op->immediate};
        status = prs_port_send(peer->port, event);
    }
    prs_port_leave(peer->port);
    prs_port_ring(peer->port);
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
    if (status != PERSEUS_OK) {
        self->peers[op->peer]->is_lost = true;
    }
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
static uint32_t run_lanes(struct prs_loopback_endpoint *self, struct prs_event *events, uint32_t n)
{
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

/* Which of our peers has this port. O(peers): the reference keeps no index. */
static uint32_t peer_of(const struct prs_loopback_endpoint *self, uint64_t port)
{
    for (uint32_t i = 0; i < self->n_peers; i++) {
        if (prs_port_id(self->peers[i]->port) == port) {
            return i;
        }
    }
    return PRS_PEER_UNKNOWN; /* it knows us, but we have not connected to it yet */
}

static uint32_t take_immediates(struct prs_loopback_endpoint *self, struct prs_event *events,
                                uint32_t n)
{
    if (self->fabric->first != self) {
        return 0;
    }
    struct prs_port_event taken[PRS_POLL_IMMEDIATE];
    uint32_t room = n < PRS_POLL_IMMEDIATE ? n : PRS_POLL_IMMEDIATE;
    uint32_t count = prs_port_receive(self->fabric->port, taken, room);
    for (uint32_t i = 0; i < count; i++) {
        events[i] = (struct prs_event){.kind = PRS_EVENT_IMMEDIATE,
                                       .peer = peer_of(self, taken[i].source),
                                       .immediate = taken[i].immediate};
    }
    return count;
}

enum perseus_status prs_loopback_poll(struct prs_endpoint *endpoint, struct prs_event *events,
                                      uint32_t n, uint32_t *out_n)
{
    struct prs_loopback_endpoint *self = (struct prs_loopback_endpoint *)endpoint;
    uint32_t filled = 0;
    self->events_first = !self->events_first;
    if (self->events_first) {
        filled = take_immediates(self, events, n);
    }
    filled += run_lanes(self, events + filled, n - filled);
    if (!self->events_first) {
        filled += take_immediates(self, events + filled, n - filled);
    }
    *out_n = filled;
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
    return self->fabric->first == self ? prs_port_arm(self->fabric->port, self->bell) : PERSEUS_OK;
}
