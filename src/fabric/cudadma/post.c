/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fabric/cudadma/cudadma.h"

/* Finds the level of the operation; AGAIN while the lane has no room so far up. */
static enum perseus_status place(struct prs_cudadma_endpoint *self, struct prs_cudadma_lane *lane,
                                 const struct prs_op *op, uint64_t *out_level)
{
    struct prs_cudadma_peer *peer = (struct prs_cudadma_peer *)self->common.peers[op->peer];
    struct prs_cudadma_order *order = &peer->order[op->lane];
    for (int attempt = 0; attempt < 2; attempt++) {
        struct prs_cudadma_order after = *order;
        uint64_t level =
            self->fabric->place(self->fabric->common.base.caps.order, &after, op, lane->next);
        if (level - lane->next < PRS_CUDADMA_LEVELS) {
            *order = after;
            *out_level = level;
            return PERSEUS_OK;
        }
        enum perseus_status status = prs_cudadma_lane_submit(self, lane);
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    return PERSEUS_AGAIN;
}

enum perseus_status prs_cudadma_post(struct prs_endpoint *endpoint, const struct prs_op *op)
{
    struct prs_cudadma_endpoint *self = (struct prs_cudadma_endpoint *)endpoint;
    enum perseus_status status = prs_inprocess_check(&self->common, op);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_cudadma_lane *lane = &self->lanes[op->lane];
    struct prs_cudadma_op *queued = self->free;
    uint64_t level = 0;
    if (queued == NULL) {
        return PERSEUS_AGAIN;
    }
    status = place(self, lane, op, &level);
    if (status != PERSEUS_OK) {
        return status;
    }
    self->free = queued->next;
    queued->op = *op;
    queued->status = PERSEUS_OK;
    queued->slot = ((const struct prs_inprocess_remote *)op->remote)->slot;
    queued->local = op->local != NULL ? op->local->base + op->local_offset : NULL;
    if (op->flags & PRS_OP_INLINE && op->bytes > 0) {
        memcpy(queued->copied, op->inline_source, op->bytes);
        queued->local = queued->copied;
    }
    prs_cudadma_append(&lane->levels[level % PRS_CUDADMA_LEVELS], queued);
    lane->end = level >= lane->end ? level + 1 : lane->end;
    if ((op->flags & PRS_OP_MORE) == 0) {
        lane->is_rung = true;
        /* An error is the endpoint's: poll meets it again, and this operation is taken. */
        (void)prs_cudadma_lane_submit(self, lane);
    }
    return PERSEUS_OK;
}

enum perseus_status prs_cudadma_flush(struct prs_endpoint *endpoint)
{
    struct prs_cudadma_endpoint *self = (struct prs_cudadma_endpoint *)endpoint;
    enum perseus_status status = PERSEUS_OK;
    for (uint32_t i = 0; i < PRS_CUDADMA_LANES && status == PERSEUS_OK; i++) {
        struct prs_cudadma_lane *lane = &self->lanes[i];
        lane->is_rung = lane->next < lane->end;
        status = prs_cudadma_lane_submit(self, lane);
    }
    return status;
}
