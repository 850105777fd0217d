/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "fabric/staged/internal.h"

/* Pinned memory of the rings and counts, and the streams. Later would be too late: allocating may
 * wait for kernels, which may wait for us. */
static enum perseus_status open_memory(struct prs_staged_endpoint *self)
{
    struct prs_staged_fabric *fabric = self->fabric;
    uint64_t rings = prs_staged_ring_offset(fabric, fabric->n_pes, PRS_STAGED_REQUEST);
    void *before = NULL, *arena = NULL, *outgoing = NULL;
    enum perseus_status status = prs_gpu_enter(&fabric->device, &before);
    if (status != PERSEUS_OK) {
        return status;
    }
    status = prs_gpu_host_alloc(&fabric->device, prs_staged_counts_bytes(fabric) + rings, &arena);
    self->arena = arena;
    if (status == PERSEUS_OK) {
        status = prs_gpu_host_alloc(&fabric->device, rings, &outgoing);
        self->outgoing = outgoing;
    }
    if (status == PERSEUS_OK) {
        status = prs_gpu_lane_open(&self->out, &fabric->device, false);
    }
    if (status == PERSEUS_OK) {
        status = prs_gpu_lane_open(&self->in, &fabric->device, true);
    }
    prs_gpu_leave(&fabric->device, before);
    return status;
}

static enum perseus_status open_inside(struct prs_staged_endpoint *self)
{
    struct prs_staged_fabric *fabric = self->fabric;
    const struct prs_fabric_ops *ops = fabric->inside->ops;
    uint64_t rings = prs_staged_ring_offset(fabric, fabric->n_pes, PRS_STAGED_REQUEST);
    enum perseus_status status = ops->endpoint_open(fabric->inside, &self->inside);
    if (status == PERSEUS_OK) {
        status = ops->region_register(fabric->inside, self->arena,
                                      prs_staged_counts_bytes(fabric) + rings, PRS_MEMORY_HOST,
                                      &self->arena_region);
    }
    if (status == PERSEUS_OK) {
        status = ops->region_register(fabric->inside, self->outgoing, rings, PRS_MEMORY_HOST,
                                      &self->outgoing_region);
    }
    return status;
}

/* Whatever there is of it. */
static void finish(struct prs_staged_endpoint *self)
{
    struct prs_staged_fabric *fabric = self->fabric;
    const struct prs_fabric_ops *ops = fabric->inside->ops;
    void *before = NULL;
    for (uint32_t rank = 0; self->contacts != NULL && rank < fabric->n_pes; rank++) {
        if (self->contacts[rank] != NULL) {
            ops->remote_close(self->contacts[rank]->arena);
            free(self->contacts[rank]);
        }
    }
    if (self->inside != NULL) {
        ops->endpoint_close(self->inside);
    }
    ops->region_close(self->arena_region);
    ops->region_close(self->outgoing_region);
    if (prs_gpu_enter(&fabric->device, &before) == PERSEUS_OK) {
        prs_gpu_lane_close(&self->out);
        prs_gpu_lane_close(&self->in);
        prs_gpu_host_free(&fabric->device, self->arena);
        prs_gpu_host_free(&fabric->device, self->outgoing);
        prs_gpu_leave(&fabric->device, before);
    }
    free(self->contacts);
    free(self->ranks);
    free(self);
}

enum perseus_status prs_staged_endpoint_open(struct prs_fabric *base, struct prs_endpoint **out)
{
    struct prs_staged_fabric *fabric = (struct prs_staged_fabric *)base;
    const struct prs_log *log = fabric->config.log;
    if (fabric->endpoint != NULL) {
        return prs_fail(log, PERSEUS_NOT_SUPPORTED, "a staged fabric has one endpoint at a time");
    }
    struct prs_staged_endpoint *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for a staged endpoint");
    }
    self->base = (struct prs_endpoint){.ops = base->ops, .fabric = base};
    self->fabric = fabric;
    self->contacts = calloc(fabric->n_pes, sizeof(void *));
    enum perseus_status status =
        self->contacts != NULL
            ? open_memory(self)
            : prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for %u PEs", fabric->n_pes);
    if (status == PERSEUS_OK) {
        status = open_inside(self);
    }
    if (status != PERSEUS_OK) {
        finish(self);
        return status;
    }
    for (uint32_t i = PRS_STAGED_OPS; i-- > 0;) {
        self->pool[i].next = self->free;
        self->free = &self->pool[i];
    }
    pthread_mutex_lock(&fabric->lock);
    fabric->endpoint = self;
    pthread_mutex_unlock(&fabric->lock);
    *out = &self->base;
    return PERSEUS_OK;
}

/* What has not been put is not carried out: it counts as canceled. */
void prs_staged_endpoint_close(struct prs_endpoint *endpoint)
{
    if (endpoint == NULL) {
        return;
    }
    struct prs_staged_endpoint *self = (struct prs_staged_endpoint *)endpoint;
    pthread_mutex_lock(&self->fabric->lock);
    self->fabric->endpoint = NULL;
    pthread_mutex_unlock(&self->fabric->lock);
    finish(self);
}
