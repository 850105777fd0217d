/* SPDX-License-Identifier: Apache-2.0 */
/* out.c: operations become slots of the outgoing ring; what they carry of a GPU's memory is copied
 * there behind their back. */
#include <string.h>

#include "fabric/staged/internal.h"

static struct prs_staged_slot *slot_at(const struct prs_staged_endpoint *self,
                                       const struct prs_staged_contact *contact,
                                       enum prs_staged_way way, uint64_t position)
{
    const struct prs_staged_fabric *fabric = self->fabric;
    uint64_t offset = prs_staged_ring_offset(fabric, contact->rank, way) +
                      position % prs_staged_ring_bytes(fabric, way);
    return (struct prs_staged_slot *)(void *)(self->outgoing + offset);
}

struct prs_staged_slot *prs_staged_reserve(struct prs_staged_endpoint *self,
                                           struct prs_staged_contact *contact,
                                           enum prs_staged_way way, enum prs_staged_kind kind,
                                           uint64_t payload)
{
    struct prs_staged_out *out = &contact->out[way];
    uint64_t ring_bytes = prs_staged_ring_bytes(self->fabric, way);
    uint64_t span = prs_slot_span(payload);
    uint64_t padding = prs_lap_padding(out->tail, span, ring_bytes);
    if (out->tail + padding + span - out->done > ring_bytes) {
        return NULL;
    }
    if (padding > 0) {
        *slot_at(self, contact, way, out->tail) = (struct prs_staged_slot){
            .position = out->tail, .span = (uint32_t)padding, .kind = PRS_STAGED_PADDING};
        out->tail += padding;
    }
    struct prs_staged_slot *slot = slot_at(self, contact, way, out->tail);
    *slot = (struct prs_staged_slot){
        .position = out->tail, .span = (uint32_t)span, .kind = (uint8_t)kind};
    return slot;
}

void prs_staged_commit(struct prs_staged_endpoint *self, struct prs_staged_contact *contact,
                       enum prs_staged_way way)
{
    struct prs_staged_out *out = &contact->out[way];
    out->tail += slot_at(self, contact, way, out->tail)->span;
    prs_staged_mark(&self->copied_out,
                    (struct prs_staged_mark){.contact = contact,
                                             .way = way,
                                             .end = out->tail,
                                             .batch = prs_gpu_lane_newest(&self->out)});
}

/* ---- the kinds ---- */

/* The next slot of an operation, or NULL if it has to wait. */
static struct prs_staged_slot *next_slot(struct prs_staged_endpoint *self,
                                         const struct prs_staged_op *op, enum prs_staged_kind kind,
                                         uint64_t payload)
{
    if (prs_staged_marks_full(&self->copied_out) ||
        (op->is_device && !prs_gpu_lane_has_room(&self->out))) {
        return NULL;
    }
    struct prs_staged_slot *slot =
        prs_staged_reserve(self, op->contact, PRS_STAGED_REQUEST, kind, payload);
    if (slot != NULL) {
        slot->region = op->number;
        slot->generation = op->generation;
        slot->offset = op->op.remote_offset + op->moved;
    }
    return slot;
}

static uint64_t piece(const struct prs_staged_endpoint *self, const struct prs_staged_op *op,
                      enum prs_staged_way way)
{
    uint64_t left = op->op.bytes - op->moved;
    uint64_t most = prs_staged_payload_max(prs_staged_ring_bytes(self->fabric, way));
    return left < most ? left : most;
}

/* These three: whether all of the operation is in the ring. */
static bool put(struct prs_staged_endpoint *self, struct prs_staged_op *op)
{
    do {
        uint64_t bytes = piece(self, op, PRS_STAGED_REQUEST);
        struct prs_staged_slot *slot = next_slot(self, op, PRS_STAGED_PUT, bytes);
        if (slot == NULL) {
            return false;
        }
        slot->bytes = bytes;
        if (op->is_device && bytes > 0) {
            prs_gpu_lane_add(&self->out, slot + 1, op->local + op->moved, bytes);
        } else if (bytes > 0) {
            memcpy(slot + 1, op->local + op->moved, bytes);
        }
        op->moved += bytes;
        slot->has_immediate = op->op.flags & PRS_OP_IMMEDIATE && op->moved == op->op.bytes;
        slot->value = op->op.immediate;
        prs_staged_commit(self, op->contact, PRS_STAGED_REQUEST);
    } while (op->moved < op->op.bytes);
    return true;
}

static bool set(struct prs_staged_endpoint *self, struct prs_staged_op *op)
{
    struct prs_staged_slot *slot = next_slot(self, op, PRS_STAGED_SET, 0);
    if (slot == NULL) {
        return false;
    }
    slot->value = op->op.value;
    prs_staged_commit(self, op->contact, PRS_STAGED_REQUEST);
    return true;
}

/* One answer fits into one slot of the peer's ring of replies. */
static bool get(struct prs_staged_endpoint *self, struct prs_staged_op *op)
{
    while (op->moved < op->op.bytes) {
        struct prs_staged_slot *slot = next_slot(self, op, PRS_STAGED_GET, 0);
        if (slot == NULL) {
            return false;
        }
        slot->bytes = piece(self, op, PRS_STAGED_REPLY);
        slot->request = op->serial * PRS_STAGED_OPS + (uint64_t)(op - self->pool);
        op->moved += slot->bytes;
        prs_staged_commit(self, op->contact, PRS_STAGED_REQUEST);
    }
    return true;
}

void prs_staged_pump(struct prs_staged_endpoint *self, struct prs_staged_contact *contact)
{
    while (contact->queued.first != NULL) {
        struct prs_staged_op *op = contact->queued.first;
        bool is_get = op->op.kind == PRS_OP_GET;
        bool is_in = is_get                      ? get(self, op)
                     : op->op.kind == PRS_OP_PUT ? put(self, op)
                                                 : set(self, op);
        if (!is_in) {
            return;
        }
        prs_staged_pop(&contact->queued);
        op->state = PRS_STAGED_SENT;
        op->end = contact->out[PRS_STAGED_REQUEST].tail;
        if (!is_get) { /* whose end is its answer */
            prs_staged_append(&contact->sent, op);
        }
    }
}
