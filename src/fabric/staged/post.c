/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fabric/op.h"
#include "fabric/staged/internal.h"

static enum perseus_status check(const struct prs_staged_endpoint *self, const struct prs_op *op)
{
    const struct prs_log *log = self->fabric->config.log;
    if (op->peer >= self->n_peers) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT, "peer %u is not connected", op->peer);
    }
    enum perseus_status status = prs_op_check(&self->base, op, log);
    if (status == PERSEUS_OK) {
        const struct prs_staged_remote *remote = (const struct prs_staged_remote *)op->remote;
        status = prs_op_check_word(op, remote->is_word_aligned, log);
    }
    return status;
}

enum perseus_status prs_staged_post(struct prs_endpoint *endpoint, const struct prs_op *op)
{
    struct prs_staged_endpoint *self = (struct prs_staged_endpoint *)endpoint;
    enum perseus_status status = check(self, op);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_staged_contact *contact = self->contacts[self->ranks[op->peer]];
    if (contact->is_lost) {
        return PERSEUS_PEER_LOST;
    }
    struct prs_staged_op *queued = self->free;
    if (queued == NULL) {
        return PERSEUS_AGAIN;
    }
    self->free = queued->next;
    const struct prs_staged_remote *remote = (const struct prs_staged_remote *)op->remote;
    queued->state = PRS_STAGED_QUEUED;
    queued->op = *op;
    queued->contact = contact;
    queued->number = remote->number;
    queued->generation = remote->generation;
    queued->serial = self->serials++;
    queued->moved = queued->answered = queued->end = 0;
    bool is_inline = op->flags & PRS_OP_INLINE;
    queued->is_device = !is_inline && op->local != NULL && op->local->kind == PRS_MEMORY_CUDA;
    queued->local = is_inline           ? queued->copied
                    : op->local != NULL ? op->local->base + op->local_offset
                                        : NULL;
    if (is_inline && op->bytes > 0) {
        memcpy(queued->copied, op->inline_source, op->bytes);
    }
    contact->open++;
    prs_staged_append(&contact->queued, queued);
    return PERSEUS_OK;
}

void prs_staged_end(struct prs_staged_endpoint *self, struct prs_staged_op *op,
                    enum perseus_status status)
{
    bool is_put = op->op.kind != PRS_OP_GET;
    op->state = PRS_STAGED_ENDED;
    op->status = status;
    /* A put that was delivered has been read; what an answer brings is still being copied, and of
     * what is lost any copy may be under way. */
    op->out_batch = status == PERSEUS_OK ? 0 : prs_gpu_lane_newest(&self->out);
    op->in_batch = status == PERSEUS_OK && is_put ? 0 : prs_gpu_lane_newest(&self->in);
    op->contact->open--;
    prs_staged_append(&self->ended, op);
}
