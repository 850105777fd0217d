/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/staged/internal.h"

#define EVENTS 64

/* The inside's target events are nobody's: a stranger's, if there are any. */
static enum perseus_status poll_inside(struct prs_staged_endpoint *self)
{
    struct prs_event events[EVENTS];
    uint32_t n = 0;
    enum perseus_status status = self->inside->ops->poll(self->inside, events, EVENTS, &n);
    for (uint32_t i = 0; i < n && status == PERSEUS_OK; i++) {
        if (events[i].kind == PRS_EVENT_COMPLETION) {
            prs_staged_sent(self, &events[i]);
        }
    }
    return status;
}

/* The contact of `rank` if anything has passed between it and this PE. */
static struct prs_staged_contact *find_contact(struct prs_staged_endpoint *self, uint32_t rank)
{
    if (self->contacts[rank] != NULL) {
        return self->contacts[rank];
    }
    uint64_t tail =
        prs_staged_read_count(prs_staged_count(self, rank, PRS_STAGED_REQUEST, PRS_STAGED_TAIL), 0);
    return tail > 0 ? prs_staged_contact(self, rank) : NULL;
}

/* Slots in and out, and the copies of both to the GPU. */
static enum perseus_status move(struct prs_staged_endpoint *self, uint64_t now_ns)
{
    struct prs_staged_fabric *fabric = self->fabric;
    pthread_mutex_lock(&fabric->lock);
    for (uint32_t i = 0; i < fabric->n_pes; i++) {
        struct prs_staged_contact *contact = find_contact(self, (self->cursor + i) % fabric->n_pes);
        if (contact == NULL || contact->is_lost) {
            continue;
        }
        prs_staged_hear(self, contact, now_ns);
        for (int way = PRS_STAGED_WAYS; way-- > 0 && !contact->is_lost;) {
            prs_staged_take(self, contact, (enum prs_staged_way)way);
        }
        prs_staged_pump(self, contact);
    }
    self->cursor = self->cursor + 1 < fabric->n_pes ? self->cursor + 1 : 0;
    enum perseus_status status = prs_gpu_lane_submit(&self->out);
    if (status == PERSEUS_OK) {
        status = prs_gpu_lane_submit(&self->in);
    }
    pthread_mutex_unlock(&fabric->lock);
    return status;
}

static enum perseus_status send(struct prs_staged_endpoint *self, uint64_t now_ns)
{
    const struct prs_staged_mark *mark;
    while ((mark = prs_staged_passed(&self->copied_out, self->out.done)) != NULL) {
        mark->contact->out[mark->way].ready = mark->end;
        prs_staged_pass(&self->copied_out);
    }
    for (uint32_t rank = 0; rank < self->fabric->n_pes; rank++) {
        if (self->contacts[rank] != NULL) {
            prs_staged_send(self, self->contacts[rank], now_ns);
        }
    }
    if (!self->needs_flush) {
        return PERSEUS_OK;
    }
    enum perseus_status status = self->inside->ops->flush(self->inside);
    self->needs_flush = status == PERSEUS_AGAIN;
    return self->needs_flush ? PERSEUS_OK : status;
}

/* ---- telling ---- */

/* What has been copied here counts as done, and its immediates are told as far as there is room. */
static uint32_t report_arrivals(struct prs_staged_endpoint *self, struct prs_event *events,
                                uint32_t n)
{
    uint32_t filled = 0;
    const struct prs_staged_mark *mark;
    while ((mark = prs_staged_passed(&self->copied_in, self->in.done)) != NULL) {
        if (mark->has_immediate && filled == n) {
            break;
        }
        if (mark->has_immediate) {
            events[filled++] = (struct prs_event){.kind = PRS_EVENT_IMMEDIATE,
                                                  .peer = mark->contact->outer,
                                                  .immediate = mark->immediate};
        }
        mark->contact->in[mark->way].done = mark->end;
        prs_staged_pass(&self->copied_in);
    }
    return filled;
}

static uint32_t report_ends(struct prs_staged_endpoint *self, struct prs_event *events, uint32_t n)
{
    uint32_t filled = 0;
    while (self->ended.first != NULL && filled < n) {
        struct prs_staged_op *op = self->ended.first;
        if (op->out_batch > self->out.done || op->in_batch > self->in.done) {
            break;
        }
        prs_staged_pop(&self->ended);
        if (op->status != PERSEUS_OK || (op->op.flags & PRS_OP_UNTRACKED) == 0) {
            events[filled++] = (struct prs_event){.kind = PRS_EVENT_COMPLETION,
                                                  .status = op->status,
                                                  .peer = op->op.peer,
                                                  .cookie = op->op.cookie};
        }
        op->state = PRS_STAGED_FREE;
        op->next = self->free;
        self->free = op;
    }
    return filled;
}

enum perseus_status prs_staged_poll(struct prs_endpoint *endpoint, struct prs_event *events,
                                    uint32_t n, uint32_t *out_n)
{
    struct prs_staged_endpoint *self = (struct prs_staged_endpoint *)endpoint;
    uint64_t now_ns = prs_clock_now_ns(&self->fabric->config.clock);
    enum perseus_status status = prs_gpu_lane_advance(&self->out);
    if (status == PERSEUS_OK) {
        status = prs_gpu_lane_advance(&self->in);
    }
    if (status == PERSEUS_OK) {
        status = poll_inside(self);
    }
    if (status == PERSEUS_OK) {
        status = move(self, now_ns);
    }
    if (status == PERSEUS_OK) {
        status = send(self, now_ns);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    self->events_first = !self->events_first;
    uint32_t filled = self->events_first ? report_arrivals(self, events, n) : 0;
    filled += report_ends(self, events + filled, n - filled);
    if (!self->events_first) {
        filled += report_arrivals(self, events + filled, n - filled);
    }
    *out_n = filled;
    return PERSEUS_OK;
}
