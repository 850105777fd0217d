/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/faulty/state.h"
#include "fabric/op.h"

static struct prs_faulty_scope *scope_of_walk(struct prs_faulty_scope *scope, uint64_t walk)
{
    if (scope->walk != walk) {
        *scope = (struct prs_faulty_scope){.walk = walk};
    }
    return scope;
}

/* Where the fence flag of an operation reaches. */
static struct prs_faulty_scope *fence_scope_of(struct prs_faulty_endpoint *self,
                                               const struct prs_op *op)
{
    struct prs_faulty_peer *peer = self->peers[op->peer];
    switch (self->base.fabric->caps.fence_scope) {
    case PRS_FENCE_ENDPOINT:
        return scope_of_walk(&self->scope, self->walk);
    case PRS_FENCE_PEER:
        return scope_of_walk(&peer->scope, self->walk);
    case PRS_FENCE_LANE:
    case PRS_FENCE_NONE: /* no flags: the scope stays unbarred */
        break;
    }
    return scope_of_walk(&peer->lanes[op->lane].scope, self->walk);
}

/* Whether something of this lane that is still held must go first. */
static bool is_overtaking(const struct prs_faulty_endpoint *self,
                          const struct prs_faulty_scope *lane, enum prs_op_kind kind)
{
    if (!self->fabric->config.reorder) {
        return lane->held_kinds != 0;
    }
    for (uint32_t earlier = 0; earlier < PRS_OP_KIND_COUNT; earlier++) {
        if ((lane->held_kinds >> earlier & 1) != 0 &&
            prs_order_kept(self->base.fabric->caps.order, earlier, kind)) {
            return true;
        }
    }
    return false;
}

/* Goes inside, or to its end. Returns false if that was the end: `queued` is no longer open. */
static bool send_inside(struct prs_faulty_endpoint *self, struct prs_faulty_op *queued,
                        uint64_t now_ns)
{
    if (queued->is_doomed) {
        prs_fail(self->fabric->log, PERSEUS_IO,
                 "injected failure: operation %llu to peer %u; no more can be sent to it",
                 (unsigned long long)queued->number, queued->op.peer);
        prs_faulty_finish(self, queued, PERSEUS_IO, now_ns);
        return false;
    }
    struct prs_op op = queued->op;
    op.inline_source = queued->copied;
    op.cookie = (uintptr_t)queued;
    /* Fences and order wait for it: its end must be seen, when it is delivered. */
    op.flags &= (uint8_t) ~(PRS_OP_UNTRACKED | PRS_OP_EARLY);
    op.flags |= PRS_OP_MORE; /* one doorbell for all that this walk releases */
    enum perseus_status status = self->inside->ops->post(self->inside, &op);
    if (status == PERSEUS_OK) {
        queued->is_inside = true;
        self->needs_flush = true;
    } else if (status == PERSEUS_AGAIN) {
        self->peers[op.peer]->refused_walk = self->walk; /* other peers may have room */
    } else {
        prs_faulty_finish(self, queued, status, now_ns);
        return false;
    }
    return true;
}

/* One step of the walk: `queued` is the next in posting order. */
static void visit(struct prs_faulty_endpoint *self, struct prs_faulty_op *queued, uint64_t now_ns)
{
    const struct prs_op *op = &queued->op;
    struct prs_faulty_peer *peer = self->peers[op->peer];
    struct prs_faulty_scope *lane = scope_of_walk(&peer->lanes[op->lane].scope, self->walk);
    struct prs_faulty_scope *fence = fence_scope_of(self, op);
    if (!queued->is_inside) {
        /* The flag holds this one, and all behind it, until all before it have completed. */
        if (op->flags & PRS_OP_FENCE && fence->open > 0) {
            fence->is_barred = true;
        }
        bool may_go = !fence->is_barred && !prs_faulty_is_broken(self, op) &&
                      peer->refused_walk != self->walk && queued->number <= self->rung &&
                      queued->due_ns <= now_ns && !is_overtaking(self, lane, op->kind);
        /* Shuffled: half of those that may go are held back, and those behind overtake them. */
        if (may_go && self->fabric->config.reorder) {
            may_go = prs_rng_below(&self->rng, 2) == 0;
        }
        if (may_go && !send_inside(self, queued, now_ns)) {
            return;
        }
    }
    fence->open++;
    if (!queued->is_inside) {
        lane->held_kinds |= 1u << op->kind;
    }
}

void prs_faulty_release(struct prs_faulty_endpoint *self, uint64_t now_ns)
{
    self->walk++;
    struct prs_faulty_op *next;
    for (struct prs_faulty_op *queued = self->open.first; queued != NULL; queued = next) {
        next = queued->next;
        visit(self, queued, now_ns);
    }
}
