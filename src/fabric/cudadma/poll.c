/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/cudadma/cudadma.h"

#define IMMEDIATES_PER_POLL 64

/* AGAIN: the target's inbox is full, try again later. */
static enum perseus_status tell_target(struct prs_cudadma_endpoint *self,
                                       const struct prs_cudadma_op *op)
{
    if ((op->op.flags & PRS_OP_IMMEDIATE) == 0 || op->status != PERSEUS_OK) {
        return PERSEUS_OK;
    }
    struct prs_port_event event = {.source = prs_port_id(self->fabric->port),
                                   .immediate = op->op.immediate};
    return prs_port_send(self->peers[op->op.peer]->port, event);
}

/* Reports what is done, as long as there is room to. */
static uint32_t report(struct prs_cudadma_endpoint *self, struct prs_event *events, uint32_t n)
{
    uint32_t filled = 0;
    while (self->done.first != NULL && filled < n) {
        struct prs_cudadma_op *done = self->done.first;
        if (tell_target(self, done) == PERSEUS_AGAIN) {
            break;
        }
        if (done->status != PERSEUS_OK || (done->op.flags & PRS_OP_UNTRACKED) == 0) {
            events[filled++] = (struct prs_event){.kind = PRS_EVENT_COMPLETION,
                                                  .status = done->status,
                                                  .peer = done->op.peer,
                                                  .cookie = done->op.cookie};
        }
        self->done.first = done->next;
        done->next = self->free;
        self->free = done;
    }
    return filled;
}

static uint32_t peer_of(const struct prs_cudadma_endpoint *self, uint64_t port)
{
    for (uint32_t i = 0; i < self->n_peers; i++) {
        if (prs_port_id(self->peers[i]->port) == port) {
            return i;
        }
    }
    return PRS_PEER_UNKNOWN; /* it knows us, but we have not connected to it yet */
}

static uint32_t take_immediates(struct prs_cudadma_endpoint *self, struct prs_event *events,
                                uint32_t n)
{
    if (self->fabric->first != self) {
        return 0;
    }
    struct prs_port_event taken[IMMEDIATES_PER_POLL];
    uint32_t room = n < IMMEDIATES_PER_POLL ? n : IMMEDIATES_PER_POLL;
    uint32_t count = prs_port_receive(self->fabric->port, taken, room);
    for (uint32_t i = 0; i < count; i++) {
        events[i] = (struct prs_event){.kind = PRS_EVENT_IMMEDIATE,
                                       .peer = peer_of(self, taken[i].source),
                                       .immediate = taken[i].immediate};
    }
    return count;
}

static enum perseus_status advance(struct prs_cudadma_endpoint *self)
{
    enum perseus_status status = PERSEUS_OK;
    for (uint32_t i = 0; i < PRS_CUDADMA_LANES && status == PERSEUS_OK; i++) {
        struct prs_cudadma_lane *lane = &self->lanes[i];
        bool is_busy = lane->volleys_done < lane->volleys_sent;
        status = is_busy ? prs_gpu_enter(&self->fabric->device, NULL) : PERSEUS_OK;
        if (status == PERSEUS_OK && is_busy) {
            status = prs_cudadma_lane_reap(self, lane);
        }
        if (status == PERSEUS_OK && lane->is_rung) {
            status = prs_cudadma_lane_submit(self, lane);
        }
    }
    return status;
}

enum perseus_status prs_cudadma_poll(struct prs_endpoint *endpoint, struct prs_event *events,
                                     uint32_t n, uint32_t *out_n)
{
    struct prs_cudadma_endpoint *self = (struct prs_cudadma_endpoint *)endpoint;
    enum perseus_status status = advance(self);
    if (status != PERSEUS_OK) {
        return status;
    }
    uint32_t filled = 0;
    self->events_first = !self->events_first;
    if (self->events_first) {
        filled = take_immediates(self, events, n);
    }
    filled += report(self, events + filled, n - filled);
    if (!self->events_first) {
        filled += take_immediates(self, events + filled, n - filled);
    }
    *out_n = filled;
    return PERSEUS_OK;
}
