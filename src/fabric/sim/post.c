/* SPDX-License-Identifier: Apache-2.0 */
/* post.c: what the caller's CPU does: posting, and taking what is there. */
#include <string.h>

#include "fabric/op.h"
#include "fabric/sim/internal.h"

static enum perseus_status check(struct prs_sim_endpoint *self, const struct prs_op *op)
{
    const struct prs_log *log = self->fabric->log;
    if (op->peer >= self->n_peers) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT, "peer %u is not connected", op->peer);
    }
    enum perseus_status status = prs_op_check(&self->base, op, log);
    if (status == PERSEUS_OK) {
        const struct prs_sim_remote *remote = (const struct prs_sim_remote *)op->remote;
        status = prs_op_check_word(op, remote->is_word_aligned, log);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    return self->peers[op->peer].is_lost ? PERSEUS_PEER_LOST : PERSEUS_OK;
}

/* The local side, as far as it is memory. */
static void fill_local(struct prs_sim_op *out, const struct prs_op *op)
{
    uint64_t bytes = op->kind == PRS_OP_ATOMIC_FETCH ? 8 : op->bytes;
    out->local = NULL;
    out->local_bytes = 0;
    if (op->flags & PRS_OP_INLINE) {
        if (op->bytes > 0) {
            memcpy(out->copied, op->inline_source, op->bytes);
        }
    } else if (op->local != NULL) {
        const struct prs_sim_region *region = (const struct prs_sim_region *)op->local;
        uint64_t left = op->local_offset < region->backed ? region->backed - op->local_offset : 0;
        out->local = left > 0 ? op->local->base + op->local_offset : NULL;
        out->local_bytes = bytes < left ? bytes : left;
    }
}

enum perseus_status prs_sim_post(struct prs_endpoint *endpoint, const struct prs_op *op)
{
    struct prs_sim_endpoint *self = (struct prs_sim_endpoint *)endpoint;
    struct prs_sim_net *net = self->net;
    enum perseus_status status = check(self, op);
    if (status != PERSEUS_OK) {
        return status;
    }
    if (self->in_flight >= self->base.fabric->caps.inflight_max) {
        return PERSEUS_AGAIN;
    }
    struct prs_sim_op *taken = prs_sim_op_take(net, (op->flags & PRS_OP_IMMEDIATE) != 0);
    if (taken == NULL) {
        return prs_fail(self->fabric->log, PERSEUS_OUT_OF_MEMORY, "no memory for an operation");
    }
    bool reads = prs_sim_reads(op->kind, op->flags, op->bytes);
    prs_sim_endpoint_spend(endpoint, net->model.post_ns + (reads ? net->model.put_ns : 0));
    fill_local(taken, op);
    taken->endpoint = self;
    taken->posted_ns = self->free_ns + (uint64_t)net->model.doorbell_ns;
    taken->remote_offset = op->remote_offset;
    taken->bytes = op->bytes;
    taken->value = op->value;
    taken->compare = op->compare;
    taken->immediate = op->immediate;
    taken->cookie = op->cookie;
    taken->peer = op->peer;
    taken->region = ((const struct prs_sim_remote *)op->remote)->region;
    taken->kind = op->kind;
    taken->lane = op->lane;
    taken->flags = op->flags;
    taken->atomic = op->atomic;
    self->in_flight++;
    self->untold += (op->flags & PRS_OP_UNTRACKED) == 0;
    net->posted++;
    prs_sim_nic_take(taken);
    return PERSEUS_OK;
}

/* Every post rings its own doorbell. */
enum perseus_status prs_sim_flush(struct prs_endpoint *endpoint)
{
    (void)endpoint;
    return PERSEUS_OK;
}

static uint32_t take_completions(struct prs_sim_endpoint *self, struct prs_event *events,
                                 uint32_t n)
{
    uint32_t filled = 0;
    while (filled < n && self->done_first != NULL) {
        struct prs_sim_op *op = self->done_first;
        self->done_first = op->next;
        events[filled++] = (struct prs_event){.kind = PRS_EVENT_COMPLETION,
                                              .status = op->status,
                                              .peer = op->peer,
                                              .cookie = op->cookie};
        prs_sim_op_give_back(op);
    }
    return filled;
}

static uint32_t take_arrivals(struct prs_sim_endpoint *self, struct prs_event *events, uint32_t n)
{
    uint32_t filled = 0;
    while (filled < n && self->arrived_first != NULL) {
        struct prs_sim_arrival *arrival = self->arrived_first;
        self->arrived_first = arrival->next;
        events[filled++] = (struct prs_event){.kind = PRS_EVENT_IMMEDIATE,
                                              .peer = prs_sim_peer_of(self, arrival->source),
                                              .immediate = arrival->immediate};
        prs_sim_arrival_give_back(self->net, arrival);
    }
    return filled;
}

enum perseus_status prs_sim_poll(struct prs_endpoint *endpoint, struct prs_event *events,
                                 uint32_t n, uint32_t *out_n)
{
    struct prs_sim_endpoint *self = (struct prs_sim_endpoint *)endpoint;
    const struct prs_sim_model *model = &self->net->model;
    if (self->fabric->clock.now_ns != NULL) {
        prs_timeline_run_until(self->net->timeline, prs_clock_now_ns(&self->fabric->clock));
    }
    uint32_t filled = 0;
    self->arrivals_first = !self->arrivals_first;
    if (self->arrivals_first) {
        filled = take_arrivals(self, events, n);
    }
    filled += take_completions(self, events + filled, n - filled);
    if (!self->arrivals_first) {
        filled += take_arrivals(self, events + filled, n - filled);
    }
    prs_sim_endpoint_spend(endpoint, model->step_ns + filled * model->event_ns);
    *out_n = filled;
    return PERSEUS_OK;
}
