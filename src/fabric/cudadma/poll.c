/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/cudadma/cudadma.h"

/* Reports what is done, as long as there is room to, and in the targets' inboxes. */
static uint32_t report(struct prs_inprocess_endpoint *endpoint, struct prs_event *events,
                       uint32_t n)
{
    struct prs_cudadma_endpoint *self = (struct prs_cudadma_endpoint *)endpoint;
    uint32_t filled = 0;
    while (self->done.first != NULL && filled < n) {
        struct prs_cudadma_op *done = self->done.first;
        if (done->status == PERSEUS_OK &&
            prs_inprocess_tell(endpoint, &done->op) == PERSEUS_AGAIN) {
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
    *out_n = prs_inprocess_poll(&self->common, report, events, n);
    return PERSEUS_OK;
}
