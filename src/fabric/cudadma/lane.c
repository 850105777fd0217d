/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/cudadma/cudadma.h"

/* ---- copies ---- */

/* Adds the copy from `source` to `target`, to the one before it if it goes on there. */
static size_t add_copy(struct prs_cudadma_endpoint *self, size_t n, uintptr_t target,
                       uintptr_t source, size_t bytes)
{
    if (n > 0 && self->targets[n - 1] + self->sizes[n - 1] == target &&
        self->sources[n - 1] + self->sizes[n - 1] == source) {
        self->sizes[n - 1] += bytes;
        return n;
    }
    self->targets[n] = target;
    self->sources[n] = source;
    self->sizes[n] = bytes;
    return n + 1;
}

/* ---- life ---- */

enum perseus_status prs_cudadma_lane_open(struct prs_cudadma_endpoint *self, uint32_t number)
{
    struct prs_cudadma_lane *lane = &self->lanes[number];
    struct prs_gpu *cuda = self->fabric->cuda;
    int error = cuda->call.stream_create(&lane->stream, PRS_CUDA_STREAM_NON_BLOCKING);
    for (uint32_t i = 0; i < PRS_CUDADMA_VOLLEYS && error == PRS_CUDA_SUCCESS; i++) {
        error = cuda->call.event_create(&lane->volleys[i].event, PRS_CUDA_EVENT_WITHOUT_TIMING);
    }
    return prs_gpu_check(cuda, error, "making a stream and its events");
}

void prs_cudadma_lane_close(struct prs_cudadma_endpoint *self, uint32_t number)
{
    struct prs_cudadma_lane *lane = &self->lanes[number];
    const struct prs_gpu_calls *call = &self->fabric->cuda->call;
    if (lane->stream != NULL) {
        call->stream_synchronize(lane->stream);
    }
    for (uint32_t i = 0; i < PRS_CUDADMA_VOLLEYS && lane->volleys[i].event != NULL; i++) {
        call->event_destroy(lane->volleys[i].event);
    }
    if (lane->stream != NULL) {
        call->stream_destroy(lane->stream);
    }
}

/* ---- submitting ---- */

/* The first byte that the operation names at its peer, or an error, which ends the peer. */
static enum perseus_status find_target(struct prs_cudadma_endpoint *self,
                                       const struct prs_cudadma_op *queued, unsigned char **out)
{
    const struct prs_op *op = &queued->op;
    enum perseus_status status = prs_inprocess_enter(&self->common, op, queued->slot, out);
    if (status == PERSEUS_OK) {
        /* Not held open for the copy: the owner settles its visitors, and `submitting` is held. */
        prs_port_leave(self->common.peers[op->peer]->port);
    }
    return status;
}

/* Adds the copy that carries out one operation. */
static size_t add_op(struct prs_cudadma_endpoint *self, struct prs_cudadma_lane *lane,
                     struct prs_cudadma_op *queued, size_t n)
{
    const struct prs_op *op = &queued->op;
    unsigned char *target = NULL;
    queued->status = find_target(self, queued, &target);
    if (queued->status != PERSEUS_OK) {
        return n;
    }
    if (op->kind == PRS_OP_SIGNAL_SET) {
        uint64_t *word = &lane->words[lane->words_used++ % PRS_CUDADMA_WORDS];
        *word = op->value;
        return add_copy(self, n, (uintptr_t)target, (uintptr_t)word, sizeof *word);
    }
    if (op->bytes == 0) {
        return n;
    }
    return op->kind == PRS_OP_GET
               ? add_copy(self, n, (uintptr_t)queued->local, (uintptr_t)target, op->bytes)
               : add_copy(self, n, (uintptr_t)target, (uintptr_t)queued->local, op->bytes);
}

/* One level as one batch; its operations go over to the volley. */
static int submit_level(struct prs_cudadma_endpoint *self, struct prs_cudadma_lane *lane,
                        struct prs_cudadma_list *level, struct prs_cudadma_list *volley)
{
    size_t n = 0;
    for (struct prs_cudadma_op *queued = level->first, *next; queued != NULL; queued = next) {
        next = queued->next;
        n = add_op(self, lane, queued, n);
        prs_cudadma_append(volley, queued);
    }
    *level = (struct prs_cudadma_list){0};
    return prs_gpu_copy_batch(self->fabric->cuda, self->targets, self->sources, self->sizes, n,
                              lane->stream);
}

enum perseus_status prs_cudadma_lane_submit(struct prs_cudadma_endpoint *self,
                                            struct prs_cudadma_lane *lane)
{
    if (lane->next == lane->end) {
        return PERSEUS_OK;
    }
    if (lane->volleys_sent - lane->volleys_done == PRS_CUDADMA_VOLLEYS) {
        return PERSEUS_OK; /* rung again by poll */
    }
    enum perseus_status status = prs_gpu_enter(&self->fabric->device, NULL);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_cudadma_volley *volley = &lane->volleys[lane->volleys_sent++ % PRS_CUDADMA_VOLLEYS];
    volley->ops = (struct prs_cudadma_list){0};
    int error = PRS_CUDA_SUCCESS;
    pthread_mutex_lock(&self->submitting);
    for (; lane->next < lane->end; lane->next++) {
        int failed =
            submit_level(self, lane, &lane->levels[lane->next % PRS_CUDADMA_LEVELS], &volley->ops);
        error = error == PRS_CUDA_SUCCESS ? failed : error;
    }
    if (error == PRS_CUDA_SUCCESS) {
        error = self->fabric->cuda->call.event_record(volley->event, lane->stream);
    }
    pthread_mutex_unlock(&self->submitting);
    lane->is_rung = false;
    return prs_gpu_check(self->fabric->cuda, error, "submitting copies");
}

/* ---- finishing ---- */

enum perseus_status prs_cudadma_lane_reap(struct prs_cudadma_endpoint *self,
                                          struct prs_cudadma_lane *lane)
{
    while (lane->volleys_done < lane->volleys_sent) {
        struct prs_cudadma_volley *volley =
            &lane->volleys[lane->volleys_done % PRS_CUDADMA_VOLLEYS];
        int error = self->fabric->cuda->call.event_query(volley->event);
        if (error == PRS_CUDA_NOT_READY) {
            return PERSEUS_OK;
        }
        if (error != PRS_CUDA_SUCCESS) {
            return prs_gpu_check(self->fabric->cuda, error, "copying");
        }
        for (struct prs_cudadma_op *op = volley->ops.first, *next; op != NULL; op = next) {
            next = op->next;
            prs_cudadma_append(&self->done, op);
        }
        lane->volleys_done++;
    }
    return PERSEUS_OK;
}
