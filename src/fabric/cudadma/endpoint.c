/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "fabric/cudadma/cudadma.h"

_Static_assert(sizeof(struct prs_door_address) <= PRS_ADDRESS_MAX, "addresses fit");
_Static_assert(sizeof(struct prs_cudadma_blob) <= PRS_BLOB_MAX, "blobs fit");

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

enum perseus_status prs_cudadma_endpoint_open(struct prs_fabric *fabric, struct prs_endpoint **out)
{
    struct prs_cudadma_fabric *owner = (struct prs_cudadma_fabric *)fabric;
    struct prs_cudadma_endpoint *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return prs_fail(owner->log, PERSEUS_OUT_OF_MEMORY, "no memory for a cudadma endpoint");
    }
    self->base.ops = &prs_cudadma_ops;
    self->base.fabric = fabric;
    self->fabric = owner;
    pthread_mutex_init(&self->submitting, NULL);
    enum perseus_status status = open_lanes(self);
    if (status != PERSEUS_OK) {
        prs_cudadma_endpoint_close(&self->base);
        return status;
    }
    for (uint32_t i = PRS_CUDADMA_INFLIGHT; i-- > 0;) {
        self->pool[i].copied = self->pinned + (size_t)i * PRS_CUDADMA_INLINE_BYTES;
        self->pool[i].next = self->free;
        self->free = &self->pool[i];
    }
    if (!owner->had_first) {
        owner->had_first = true;
        owner->first = self;
        prs_port_open(owner->port);
    }
    *out = &self->base;
    return PERSEUS_OK;
}

/* What is not submitted yet is not carried out: it counts as canceled. */
void prs_cudadma_endpoint_close(struct prs_endpoint *endpoint)
{
    if (endpoint == NULL) {
        return;
    }
    struct prs_cudadma_endpoint *self = (struct prs_cudadma_endpoint *)endpoint;
    const struct prs_gpu_device *device = &self->fabric->device;
    void *before = NULL;
    if (self->fabric->first == self) {
        prs_port_shut(self->fabric->port);
        prs_port_settle(self->fabric->port);
        self->fabric->first = NULL;
    }
    for (uint32_t i = 0; i < self->n_peers; i++) {
        prs_port_unvisit(self->peers[i]->port, &self->peers[i]->visitor);
    }
    if (prs_gpu_enter(device, &before) == PERSEUS_OK) {
        for (uint32_t i = 0; i < PRS_CUDADMA_LANES; i++) {
            prs_cudadma_lane_close(self, i);
        }
        prs_gpu_host_free(device, self->pinned);
        prs_gpu_leave(device, before);
    }
    for (uint32_t i = 0; i < self->n_peers; i++) {
        prs_port_unref(self->peers[i]->port);
        free(self->peers[i]);
    }
    pthread_mutex_destroy(&self->submitting);
    free(self->peers);
    free(self);
}

enum perseus_status prs_cudadma_endpoint_address(struct prs_endpoint *endpoint, void *out,
                                                 size_t *bytes)
{
    struct prs_cudadma_endpoint *self = (struct prs_cudadma_endpoint *)endpoint;
    struct prs_door_address address = prs_door_address(self->fabric->door);
    if (*bytes < sizeof address) {
        return prs_fail(self->fabric->log, PERSEUS_INVALID_ARGUMENT,
                        "an address needs %zu bytes, not %zu", sizeof address, *bytes);
    }
    memcpy(out, &address, sizeof address);
    *bytes = sizeof address;
    return PERSEUS_OK;
}

/* ---- peers ---- */

static enum perseus_status reserve_peer(struct prs_cudadma_endpoint *self)
{
    if (self->n_peers < self->peers_room) {
        return PERSEUS_OK;
    }
    uint32_t room = self->peers_room == 0 ? 8 : 2 * self->peers_room;
    struct prs_cudadma_peer **peers = realloc(self->peers, room * sizeof(void *));
    if (peers == NULL) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    self->peers = peers;
    self->peers_room = room;
    return PERSEUS_OK;
}

enum perseus_status prs_cudadma_connect(struct prs_endpoint *endpoint, const void *address,
                                        size_t bytes, uint32_t *out_peer)
{
    struct prs_cudadma_endpoint *self = (struct prs_cudadma_endpoint *)endpoint;
    struct prs_door_address content;
    if (bytes != sizeof content) {
        return prs_fail(self->fabric->log, PERSEUS_INVALID_ARGUMENT,
                        "a cudadma address has %zu bytes, not %zu; do all PEs use one fabric?",
                        sizeof content, bytes);
    }
    memcpy(&content, address, sizeof content);
    struct prs_cudadma_peer *peer = calloc(1, sizeof *peer);
    if (peer == NULL || reserve_peer(self) != PERSEUS_OK) {
        free(peer);
        return prs_fail(self->fabric->log, PERSEUS_OUT_OF_MEMORY, "no memory for peer %u",
                        self->n_peers);
    }
    enum perseus_status status = prs_door_knock(&content, self->fabric->log, &peer->port);
    if (status != PERSEUS_OK) {
        free(peer);
        return status;
    }
    peer->visitor = (struct prs_port_visitor){.settle = settle, .context = self};
    prs_port_visit(peer->port, &peer->visitor);
    *out_peer = self->n_peers;
    self->peers[self->n_peers++] = peer;
    return PERSEUS_OK;
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
    struct prs_cudadma_endpoint *self = (struct prs_cudadma_endpoint *)endpoint;
    const struct prs_log *log = self->fabric->log;
    struct prs_cudadma_blob content;
    if (peer >= self->n_peers) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT, "peer %u is not connected", peer);
    }
    struct prs_port *port = self->peers[peer]->port;
    if (bytes == sizeof content) {
        memcpy(&content, blob, sizeof content);
    }
    if (bytes != sizeof content || content.magic != PRS_CUDADMA_BLOB_MAGIC ||
        content.port != prs_port_id(port)) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "this is not a region blob of cudadma peer %u", peer);
    }
    enum perseus_status status = reach(self, content.device);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_cudadma_remote *remote = calloc(1, sizeof *remote);
    if (remote == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for a region of peer %u", peer);
    }
    unsigned char *base;
    status = prs_port_enter(port, content.slot, &base, &remote->base.bytes);
    if (status != PERSEUS_OK) {
        free(remote);
        return prs_fail(log, status, "peer %u has closed %s; import what it exports now", peer,
                        status == PERSEUS_IO ? "this region" : "its endpoint");
    }
    remote->is_word_aligned = (uintptr_t)base % 8 == 0;
    prs_port_leave(port);
    remote->base.endpoint = endpoint;
    remote->base.peer = peer;
    remote->slot = content.slot;
    *out = &remote->base;
    return PERSEUS_OK;
}

void prs_cudadma_remote_close(struct prs_remote *remote)
{
    free(remote);
}
