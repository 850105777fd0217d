/* SPDX-License-Identifier: Apache-2.0 */
/* in.c: takes slots from incoming rings, in order. A head is looked at once, in a copy of it, as
 * who has written it might write again. */
#include <string.h>

#include "fabric/staged/internal.h"

/* What is at hand. */
struct arrival {
    struct prs_staged_endpoint *self;
    struct prs_staged_contact *contact;
    enum prs_staged_way way;
    struct prs_staged_slot head;
    const struct prs_staged_slot *slot; /* in the ring; its payload lies behind it */
};

/* These: OK, AGAIN (later; nothing happened), or what cannot be (INVALID_ARGUMENT). */
static enum perseus_status take_hello(const struct arrival *arrival)
{
    unsigned char address[PRS_ADDRESS_MAX];
    uint64_t bytes = arrival->head.bytes;
    if (bytes > sizeof address) {
        return PERSEUS_INVALID_ARGUMENT;
    }
    memcpy(address, arrival->slot + 1, bytes);
    return prs_staged_meet(arrival->self, arrival->contact, address, bytes) == PERSEUS_OK
               ? PERSEUS_OK
               : PERSEUS_INVALID_ARGUMENT;
}

static enum perseus_status take_write(const struct arrival *arrival, const void *source,
                                      uint64_t bytes)
{
    struct prs_staged_endpoint *self = arrival->self;
    unsigned char *target = prs_staged_find(self->fabric, &arrival->head, bytes);
    if (target == NULL) {
        return PERSEUS_INVALID_ARGUMENT;
    }
    if (bytes > 0) {
        prs_gpu_lane_add(&self->in, target, source, bytes);
    }
    return PERSEUS_OK;
}

static enum perseus_status take_get(const struct arrival *arrival)
{
    struct prs_staged_endpoint *self = arrival->self;
    const struct prs_staged_slot *head = &arrival->head;
    uint64_t most = prs_staged_payload_max(prs_staged_ring_bytes(self->fabric, PRS_STAGED_REPLY));
    const unsigned char *source = prs_staged_find(self->fabric, head, head->bytes);
    if (source == NULL || head->bytes > most) {
        return PERSEUS_INVALID_ARGUMENT;
    }
    if (!prs_gpu_lane_has_room(&self->out) || prs_staged_marks_full(&self->copied_out)) {
        return PERSEUS_AGAIN;
    }
    struct prs_staged_slot *answer = prs_staged_reserve(self, arrival->contact, PRS_STAGED_REPLY,
                                                        PRS_STAGED_ANSWER, head->bytes);
    if (answer == NULL) {
        return PERSEUS_AGAIN;
    }
    answer->request = head->request;
    answer->bytes = head->bytes;
    prs_gpu_lane_add(&self->out, answer + 1, source, head->bytes);
    prs_staged_commit(self, arrival->contact, PRS_STAGED_REPLY);
    return PERSEUS_OK;
}

/* Answers come in the order of their requests. */
static enum perseus_status take_answer(const struct arrival *arrival)
{
    struct prs_staged_endpoint *self = arrival->self;
    const struct prs_staged_slot *head = &arrival->head;
    struct prs_staged_op *op = &self->pool[head->request % PRS_STAGED_OPS];
    bool is_open = op->state == PRS_STAGED_QUEUED || op->state == PRS_STAGED_SENT;
    if (!is_open || op->op.kind != PRS_OP_GET || op->contact != arrival->contact ||
        op->serial != head->request / PRS_STAGED_OPS || head->bytes > op->moved - op->answered) {
        return PERSEUS_INVALID_ARGUMENT;
    }
    prs_gpu_lane_add(&self->in, op->local + op->answered, arrival->slot + 1, head->bytes);
    op->answered += head->bytes;
    if (op->answered == op->op.bytes) {
        prs_staged_end(self, op, PERSEUS_OK);
    }
    return PERSEUS_OK;
}

static enum perseus_status take_slot(const struct arrival *arrival)
{
    const struct prs_staged_slot *head = &arrival->head;
    bool is_answer = head->kind == PRS_STAGED_ANSWER;
    if (head->kind == PRS_STAGED_PADDING) {
        return PERSEUS_OK;
    }
    if (is_answer != (arrival->way == PRS_STAGED_REPLY)) {
        return PERSEUS_INVALID_ARGUMENT;
    }
    switch ((enum prs_staged_kind)head->kind) {
    case PRS_STAGED_HELLO:
        return take_hello(arrival);
    case PRS_STAGED_PUT:
        return take_write(arrival, arrival->slot + 1, head->bytes);
    case PRS_STAGED_SET:
        return take_write(arrival, &arrival->slot->value, sizeof head->value);
    case PRS_STAGED_GET:
        return take_get(arrival);
    case PRS_STAGED_ANSWER:
        return take_answer(arrival);
    case PRS_STAGED_PADDING:
        break;
    }
    return PERSEUS_OK;
}

/* Whether one was taken. */
static bool take_next(struct arrival *arrival, uint64_t tail)
{
    struct prs_staged_endpoint *self = arrival->self;
    struct prs_staged_in *in = &arrival->contact->in[arrival->way];
    uint64_t ring_bytes = prs_staged_ring_bytes(self->fabric, arrival->way);
    uint64_t offset = prs_staged_counts_bytes(self->fabric) +
                      prs_staged_ring_offset(self->fabric, arrival->contact->rank, arrival->way) +
                      in->head % ring_bytes;
    arrival->slot = (const struct prs_staged_slot *)(const void *)(self->arena + offset);
    memcpy(&arrival->head, arrival->slot, sizeof arrival->head);
    enum perseus_status status = PERSEUS_INVALID_ARGUMENT;
    if (prs_staged_is_sound(&arrival->head, in->head, tail - in->head, ring_bytes)) {
        status = take_slot(arrival);
    }
    if (status == PERSEUS_OK) {
        in->head += arrival->head.span;
        prs_staged_mark(&self->copied_in,
                        (struct prs_staged_mark){.contact = arrival->contact,
                                                 .way = arrival->way,
                                                 .has_immediate = arrival->head.has_immediate != 0,
                                                 .end = in->head,
                                                 .batch = prs_gpu_lane_newest(&self->in),
                                                 .immediate = arrival->head.value});
    } else if (status != PERSEUS_AGAIN) {
        prs_staged_refuse(self, arrival->contact, "a slot that names no memory of this PE");
    }
    return status == PERSEUS_OK;
}

void prs_staged_take(struct prs_staged_endpoint *self, struct prs_staged_contact *contact,
                     enum prs_staged_way way)
{
    struct prs_staged_in *in = &contact->in[way];
    struct arrival arrival = {.self = self, .contact = contact, .way = way};
    uint64_t tail = prs_staged_read_count(
        prs_staged_count(self, contact->rank, way, PRS_STAGED_TAIL), in->head);
    if (tail - in->done > prs_staged_ring_bytes(self->fabric, way)) {
        prs_staged_refuse(self, contact, "more slots than its ring has");
        return;
    }
    while (in->head < tail && prs_gpu_lane_has_room(&self->in) &&
           !prs_staged_marks_full(&self->copied_in) && take_next(&arrival, tail)) {
    }
}
