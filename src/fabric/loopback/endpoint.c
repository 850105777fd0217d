/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fabric/loopback/loopback.h"

_Static_assert(sizeof(struct prs_loopback_endpoint) <= PRS_LOOPBACK_ENDPOINT_MAX,
               "an endpoint is small");
_Static_assert(sizeof(struct prs_door_address) <= PRS_ADDRESS_MAX, "addresses fit");
_Static_assert(sizeof(struct prs_loopback_blob) <= PRS_BLOB_MAX, "blobs fit");

enum perseus_status prs_loopback_endpoint_open(struct prs_fabric *fabric, struct prs_endpoint **out)
{
    struct prs_loopback_fabric *owner = (struct prs_loopback_fabric *)fabric;
    struct prs_loopback_endpoint *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return prs_fail(owner->log, PERSEUS_OUT_OF_MEMORY, "no memory for a loopback endpoint");
    }
    self->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->bell < 0) {
        free(self);
        return prs_fail(owner->log, PERSEUS_LIMIT,
                        "no file descriptor for a loopback endpoint: %s; allow more (ulimit -n)",
                        strerror(errno));
    }
    self->base.ops = &prs_loopback_ops;
    self->base.fabric = fabric;
    self->fabric = owner;
    for (uint32_t i = PRS_LOOPBACK_INFLIGHT; i-- > 0;) {
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

/* What is still queued is not executed: it counts as canceled. */
void prs_loopback_endpoint_close(struct prs_endpoint *endpoint)
{
    if (endpoint == NULL) {
        return;
    }
    struct prs_loopback_endpoint *self = (struct prs_loopback_endpoint *)endpoint;
    if (self->fabric->first == self) {
        prs_port_shut(self->fabric->port);
        self->fabric->first = NULL;
    }
    for (uint32_t i = 0; i < self->n_peers; i++) {
        prs_port_unref(self->peers[i]->port);
        free(self->peers[i]);
    }
    free(self->peers);
    close(self->bell);
    free(self);
}

enum perseus_status prs_loopback_endpoint_address(struct prs_endpoint *endpoint, void *out,
                                                  size_t *bytes)
{
    struct prs_loopback_endpoint *self = (struct prs_loopback_endpoint *)endpoint;
    struct prs_door_address address = prs_door_address(self->fabric->door);
    if (*bytes < sizeof address) {
        return prs_fail(self->fabric->log, PERSEUS_INVALID_ARGUMENT,
                        "an address needs %zu bytes, not %zu", sizeof address, *bytes);
    }
    memcpy(out, &address, sizeof address);
    *bytes = sizeof address;
    return PERSEUS_OK;
}

/* Makes room for one more peer; nothing is allocated before the first. */
static enum perseus_status loopback_reserve_peer(struct prs_loopback_endpoint *self)
{
    if (self->n_peers < self->peers_room) {
        return PERSEUS_OK;
    }
    uint32_t room = self->peers_room == 0 ? 8 : 2 * self->peers_room;
    struct prs_loopback_peer **peers = realloc(self->peers, room * sizeof(void *));
    if (peers == NULL) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    self->peers = peers;
    self->peers_room = room;
    return PERSEUS_OK;
}

enum perseus_status prs_loopback_connect(struct prs_endpoint *endpoint, const void *address,
                                         size_t bytes, uint32_t *out_peer)
{
    struct prs_loopback_endpoint *self = (struct prs_loopback_endpoint *)endpoint;
    struct prs_door_address content;
    if (bytes != sizeof content) {
        return prs_fail(self->fabric->log, PERSEUS_INVALID_ARGUMENT,
                        "a loopback address has %zu bytes, not %zu; do all PEs use one fabric?",
                        sizeof content, bytes);
    }
    memcpy(&content, address, sizeof content);
    struct prs_loopback_peer *peer = calloc(1, sizeof *peer);
    if (peer == NULL || loopback_reserve_peer(self) != PERSEUS_OK) {
        free(peer);
        return prs_fail(self->fabric->log, PERSEUS_OUT_OF_MEMORY, "no memory for peer %u",
                        self->n_peers);
    }
    enum perseus_status status = prs_door_knock(&content, self->fabric->log, &peer->port);
    if (status != PERSEUS_OK) {
        free(peer);
        return status;
    }
    *out_peer = self->n_peers;
    self->peers[self->n_peers++] = peer;
    return PERSEUS_OK;
}

enum perseus_status prs_loopback_import(struct prs_endpoint *endpoint, uint32_t peer,
                                        const void *blob, size_t bytes, struct prs_remote **out)
{
    struct prs_loopback_endpoint *self = (struct prs_loopback_endpoint *)endpoint;
    const struct prs_log *log = self->fabric->log;
    struct prs_loopback_blob content;
    if (peer >= self->n_peers) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT, "peer %u is not connected", peer);
    }
    struct prs_port *port = self->peers[peer]->port;
    if (bytes == sizeof content) {
        memcpy(&content, blob, sizeof content);
    }
    if (bytes != sizeof content || content.magic != PRS_LOOPBACK_BLOB_MAGIC ||
        content.port != prs_port_id(port)) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "this is not a region blob of loopback peer %u", peer);
    }
    struct prs_loopback_remote *remote = calloc(1, sizeof *remote);
    if (remote == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for a region of peer %u", peer);
    }
    unsigned char *base;
    enum perseus_status status = prs_port_enter(port, content.slot, &base, &remote->base.bytes);
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

void prs_loopback_remote_close(struct prs_remote *remote)
{
    free(remote);
}
