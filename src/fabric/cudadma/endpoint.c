/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "fabric/cudadma/cudadma.h"

#define INLINE_TOTAL ((size_t)PRS_CUDADMA_INFLIGHT * PRS_CUDADMA_INLINE_BYTES)
#define WORDS_BYTES  (PRS_CUDADMA_WORDS * sizeof(uint64_t))

/* ---- life ---- */

/* The owner of a region that goes, on its thread. */
static void settle(void *context)
{
    struct prs_cudadma_endpoint *self = context;
    const struct prs_gpu_device *device = &self->fabric->device;
    void *before = NULL;
    pthread_mutex_lock(&self->submitting);
    if (prs_gpu_enter(device, &before) == PERSEUS_OK) {
        for (uint32_t i = 0; i < PRS_CUDADMA_LANES; i++) {
            device->cuda->call.stream_synchronize(self->lanes[i].stream);
        }
        prs_gpu_leave(device, before);
    }
    pthread_mutex_unlock(&self->submitting);
}

static enum perseus_status open_lanes(struct prs_cudadma_endpoint *self)
{
    const struct prs_gpu_device *device = &self->fabric->device;
    void *before = NULL, *pinned = NULL;
    enum perseus_status status = prs_gpu_enter(device, &before);
    if (status != PERSEUS_OK) {
        return status;
    }
    status = prs_gpu_host_alloc(device, INLINE_TOTAL + PRS_CUDADMA_LANES * WORDS_BYTES, &pinned);
    self->pinned = pinned;
    for (uint32_t i = 0; i < PRS_CUDADMA_LANES && status == PERSEUS_OK; i++) {
        self->lanes[i].words = (uint64_t *)(void *)(self->pinned + INLINE_TOTAL + i * WORDS_BYTES);
        status = prs_cudadma_lane_open(self, i);
    }
    prs_gpu_leave(device, before);
    return status;
}

/* Nobody visits any more. */
static void finish(struct prs_cudadma_endpoint *self)
{
    const struct prs_gpu_device *device = &self->fabric->device;
    void *before = NULL;
    if (prs_gpu_enter(device, &before) == PERSEUS_OK) {
        for (uint32_t i = 0; i < PRS_CUDADMA_LANES; i++) {
            prs_cudadma_lane_close(self, i);
        }
        prs_gpu_host_free(device, self->pinned);
        prs_gpu_leave(device, before);
    }
    prs_inprocess_endpoint_close(&self->common);
    pthread_mutex_destroy(&self->submitting);
    free(self);
}

enum perseus_status prs_cudadma_endpoint_open(struct prs_fabric *fabric, struct prs_endpoint **out)
{
    struct prs_cudadma_fabric *owner = (struct prs_cudadma_fabric *)fabric;
    struct prs_cudadma_endpoint *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return prs_fail(owner->common.log, PERSEUS_OUT_OF_MEMORY,
                        "no memory for a cudadma endpoint");
    }
    self->fabric = owner;
    pthread_mutex_init(&self->submitting, NULL);
    enum perseus_status status = open_lanes(self);
    if (status != PERSEUS_OK) {
        finish(self);
        return status;
    }
    for (uint32_t i = PRS_CUDADMA_INFLIGHT; i-- > 0;) {
        self->pool[i].copied = self->pinned + (size_t)i * PRS_CUDADMA_INLINE_BYTES;
        self->pool[i].next = self->free;
        self->free = &self->pool[i];
    }
    prs_inprocess_endpoint_open(&self->common, &owner->common);
    *out = &self->common.base;
    return PERSEUS_OK;
}

/* What is not submitted yet is not carried out: it counts as canceled. */
void prs_cudadma_endpoint_close(struct prs_endpoint *endpoint)
{
    if (endpoint == NULL) {
        return;
    }
    struct prs_cudadma_endpoint *self = (struct prs_cudadma_endpoint *)endpoint;
    prs_inprocess_endpoint_shut(&self->common);
    prs_port_settle(self->fabric->common.port);
    for (uint32_t i = 0; i < self->common.n_peers; i++) {
        struct prs_cudadma_peer *peer = (struct prs_cudadma_peer *)self->common.peers[i];
        prs_port_unvisit(peer->common.port, &peer->visitor);
    }
    finish(self);
}

/* ---- peers ---- */

enum perseus_status prs_cudadma_connect(struct prs_endpoint *endpoint, const void *address,
                                        size_t bytes, uint32_t *out_peer)
{
    struct prs_cudadma_endpoint *self = (struct prs_cudadma_endpoint *)endpoint;
    enum perseus_status status = prs_inprocess_connect(endpoint, address, bytes, out_peer);
    if (status == PERSEUS_OK) {
        struct prs_cudadma_peer *peer = (struct prs_cudadma_peer *)self->common.peers[*out_peer];
        peer->visitor = (struct prs_port_visitor){.settle = settle, .context = self};
        prs_port_visit(peer->common.port, &peer->visitor);
    }
    return status;
}

/* ---- remotes ---- */

/* Lets this GPU's copy engines write to that GPU directly. Without peer access the driver carries
 * the bytes through host memory, which is slower and as right. */
static enum perseus_status reach(struct prs_cudadma_endpoint *self, int ordinal)
{
    const struct prs_gpu_device *device = &self->fabric->device;
    struct prs_gpu_device other = {0};
    void *before = NULL;
    int can = 0;
    if (ordinal == device->ordinal) {
        return PERSEUS_OK;
    }
    enum perseus_status status = prs_gpu_device_open(self->fabric->cuda, ordinal, &other);
    if (status == PERSEUS_OK) {
        status = prs_gpu_enter(device, &before);
    }
    if (status == PERSEUS_OK) {
        const struct prs_gpu_calls *call = &device->cuda->call;
        if (call->device_can_access_peer(&can, device->ordinal, ordinal) == PRS_CUDA_SUCCESS &&
            can) {
            int error = call->context_enable_peer(other.context, 0);
            status = error == PRS_CUDA_PEER_ENABLED
                         ? PERSEUS_OK
                         : prs_gpu_check(device->cuda, error, "reaching the other GPU");
        }
        prs_gpu_leave(device, before);
    }
    prs_gpu_device_close(&other); /* its fabric holds it open */
    return status;
}

enum perseus_status prs_cudadma_import(struct prs_endpoint *endpoint, uint32_t peer,
                                       const void *blob, size_t bytes, struct prs_remote **out)
{
    enum perseus_status status = prs_inprocess_import(endpoint, peer, blob, bytes, out);
    if (status == PERSEUS_OK) {
        struct prs_inprocess_remote *remote = (struct prs_inprocess_remote *)*out;
        status = reach((struct prs_cudadma_endpoint *)endpoint, remote->device);
        if (status != PERSEUS_OK) {
            prs_inprocess_remote_close(*out);
            *out = NULL;
        }
    }
    return status;
}
