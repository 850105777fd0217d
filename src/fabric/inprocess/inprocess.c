/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/inprocess/inprocess.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "fabric/op.h"

#define IMMEDIATES_PER_POLL 64

/* How a region travels. */
struct blob {
    uint32_t magic;
    int32_t device;
    struct prs_port_slot slot;
    uint64_t port; /* id */
};

_Static_assert(sizeof(struct prs_door_address) <= PRS_ADDRESS_MAX, "addresses fit");
_Static_assert(sizeof(struct blob) <= PRS_BLOB_MAX, "blobs fit");

/* ---- fabrics ---- */

enum perseus_status prs_inprocess_open(struct prs_inprocess_fabric *self,
                                       const struct prs_inprocess_kind *kind,
                                       const struct prs_log *log)
{
    uint64_t id;
    if (getrandom(&id, sizeof id, 0) != sizeof id) {
        return prs_fail(log, PERSEUS_IO, "no random numbers from the kernel: %s", strerror(errno));
    }
    struct prs_port *port;
    if (prs_port_create(id, &port) != PERSEUS_OK) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for a %s fabric", kind->ops->name);
    }
    enum perseus_status status = prs_door_create(port, log, &self->door);
    if (status != PERSEUS_OK) {
        prs_port_unref(port);
        return status;
    }
    self->base.ops = kind->ops;
    self->kind = kind;
    self->log = log;
    self->port = port;
    return PERSEUS_OK;
}

void prs_inprocess_close(struct prs_inprocess_fabric *self)
{
    prs_door_destroy(self->door); /* first: nobody may take a new reference to the port */
    prs_port_unref(self->port);
}

/* ---- endpoints ---- */

void prs_inprocess_endpoint_open(struct prs_inprocess_endpoint *self,
                                 struct prs_inprocess_fabric *fabric)
{
    self->base = (struct prs_endpoint){.ops = fabric->kind->ops, .fabric = &fabric->base};
    self->fabric = fabric;
    if (!fabric->had_first) {
        fabric->had_first = true;
        fabric->first = self;
        prs_port_open(fabric->port);
    }
}

void prs_inprocess_endpoint_shut(struct prs_inprocess_endpoint *self)
{
    if (self->fabric->first == self) {
        prs_port_shut(self->fabric->port);
        self->fabric->first = NULL;
    }
}

void prs_inprocess_endpoint_close(struct prs_inprocess_endpoint *self)
{
    prs_inprocess_endpoint_shut(self);
    for (uint32_t i = 0; i < self->n_peers; i++) {
        prs_port_unref(self->peers[i]->port);
        free(self->peers[i]);
    }
    free(self->peers);
}

enum perseus_status prs_inprocess_address(struct prs_endpoint *endpoint, void *out, size_t *bytes)
{
    struct prs_inprocess_endpoint *self = (struct prs_inprocess_endpoint *)endpoint;
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

/* Makes room for one more; nothing is allocated before the first. */
static enum perseus_status reserve_peer(struct prs_inprocess_endpoint *self)
{
    if (self->n_peers < self->peers_room) {
        return PERSEUS_OK;
    }
    uint32_t room = self->peers_room == 0 ? 8 : 2 * self->peers_room;
    struct prs_inprocess_peer **peers = realloc(self->peers, room * sizeof *peers);
    if (peers == NULL) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    self->peers = peers;
    self->peers_room = room;
    return PERSEUS_OK;
}

enum perseus_status prs_inprocess_connect(struct prs_endpoint *endpoint, const void *address,
                                          size_t bytes, uint32_t *out_peer)
{
    struct prs_inprocess_endpoint *self = (struct prs_inprocess_endpoint *)endpoint;
    const struct prs_log *log = self->fabric->log;
    struct prs_door_address content;
    if (bytes != sizeof content) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "a %s address has %zu bytes, not %zu; do all PEs use one fabric?",
                        self->base.ops->name, sizeof content, bytes);
    }
    memcpy(&content, address, sizeof content);
    struct prs_inprocess_peer *peer = calloc(1, self->fabric->kind->peer_bytes);
    if (peer == NULL || reserve_peer(self) != PERSEUS_OK) {
        free(peer);
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for peer %u", self->n_peers);
    }
    enum perseus_status status = prs_door_knock(&content, log, &peer->port);
    if (status != PERSEUS_OK) {
        free(peer);
        return status;
    }
    *out_peer = self->n_peers;
    self->peers[self->n_peers++] = peer;
    return PERSEUS_OK;
}

/* Which of our peers has this port. O(peers): nobody here keeps an index. */
static uint32_t peer_of(const struct prs_inprocess_endpoint *self, uint64_t port)
{
    for (uint32_t i = 0; i < self->n_peers; i++) {
        if (prs_port_id(self->peers[i]->port) == port) {
            return i;
        }
    }
    return PRS_PEER_UNKNOWN; /* it knows us, but we have not connected to it yet */
}

/* ---- regions and remotes ---- */

enum perseus_status prs_inprocess_region_add(struct prs_inprocess_region *region)
{
    struct prs_inprocess_fabric *fabric = (struct prs_inprocess_fabric *)region->base.fabric;
    return prs_port_add(fabric->port, region->base.base, region->base.bytes, &region->slot);
}

void prs_inprocess_region_remove(struct prs_inprocess_region *region)
{
    prs_port_remove(((struct prs_inprocess_fabric *)region->base.fabric)->port, region->slot);
}

enum perseus_status prs_inprocess_region_export(struct prs_region *region, void *blob,
                                                size_t *bytes)
{
    const struct prs_inprocess_fabric *fabric = (const struct prs_inprocess_fabric *)region->fabric;
    struct blob content = {.magic = fabric->kind->magic,
                           .device = fabric->device,
                           .slot = ((const struct prs_inprocess_region *)region)->slot,
                           .port = prs_port_id(fabric->port)};
    if (*bytes < sizeof content) {
        return prs_fail(fabric->log, PERSEUS_INVALID_ARGUMENT,
                        "a region blob needs %zu bytes, not %zu", sizeof content, *bytes);
    }
    memcpy(blob, &content, sizeof content);
    *bytes = sizeof content;
    return PERSEUS_OK;
}

enum perseus_status prs_inprocess_import(struct prs_endpoint *endpoint, uint32_t peer,
                                         const void *blob, size_t bytes, struct prs_remote **out)
{
    struct prs_inprocess_endpoint *self = (struct prs_inprocess_endpoint *)endpoint;
    const struct prs_log *log = self->fabric->log;
    struct blob content;
    if (peer >= self->n_peers) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT, "peer %u is not connected", peer);
    }
    struct prs_port *port = self->peers[peer]->port;
    if (bytes == sizeof content) {
        memcpy(&content, blob, sizeof content);
    }
    if (bytes != sizeof content || content.magic != self->fabric->kind->magic ||
        content.port != prs_port_id(port)) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT, "this is not a region blob of %s peer %u",
                        self->base.ops->name, peer);
    }
    struct prs_inprocess_remote *remote = calloc(1, sizeof *remote);
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
    remote->device = content.device;
    *out = &remote->base;
    return PERSEUS_OK;
}

void prs_inprocess_remote_close(struct prs_remote *remote)
{
    free(remote);
}

/* ---- operations ---- */

enum perseus_status prs_inprocess_check(const struct prs_inprocess_endpoint *self,
                                        const struct prs_op *op)
{
    const struct prs_log *log = self->fabric->log;
    if (op->peer >= self->n_peers) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT, "peer %u is not connected", op->peer);
    }
    enum perseus_status status = prs_op_check(&self->base, op, log);
    if (status == PERSEUS_OK) {
        const struct prs_inprocess_remote *remote = (const struct prs_inprocess_remote *)op->remote;
        status = prs_op_check_word(op, remote->is_word_aligned, log);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    return self->peers[op->peer]->is_lost ? PERSEUS_PEER_LOST : PERSEUS_OK;
}

enum perseus_status prs_inprocess_enter(struct prs_inprocess_endpoint *self,
                                        const struct prs_op *op, struct prs_port_slot slot,
                                        unsigned char **out_target)
{
    struct prs_inprocess_peer *peer = self->peers[op->peer];
    unsigned char *base;
    size_t bytes;
    if (peer->is_lost) {
        return PERSEUS_PEER_LOST;
    }
    enum perseus_status status = prs_port_enter(peer->port, slot, &base, &bytes);
    if (status != PERSEUS_OK) {
        peer->is_lost = true;
        return prs_fail(self->fabric->log, status,
                        "peer %u has closed %s while an operation was on its way; no more can be "
                        "sent to it",
                        op->peer, status == PERSEUS_IO ? "the target region" : "its endpoint");
    }
    *out_target = base + op->remote_offset;
    return PERSEUS_OK;
}

enum perseus_status prs_inprocess_tell(struct prs_inprocess_endpoint *self, const struct prs_op *op)
{
    if ((op->flags & PRS_OP_IMMEDIATE) == 0) {
        return PERSEUS_OK;
    }
    struct prs_port_event event = {.source = prs_port_id(self->fabric->port),
                                   .immediate = op->immediate};
    return prs_port_send(self->peers[op->peer]->port, event);
}

/* ---- events ---- */

static uint32_t take_immediates(struct prs_inprocess_endpoint *self, struct prs_event *events,
                                uint32_t n)
{
    if (self->fabric->first != self) {
        return 0;
    }
    struct prs_port_event taken[IMMEDIATES_PER_POLL];
    uint32_t room = n < IMMEDIATES_PER_POLL ? n : IMMEDIATES_PER_POLL;
    uint32_t count = prs_port_receive(self->fabric->port, taken, room);
    for (uint32_t i = 0; i < count; i++) {
        events[i] = (struct prs_event){.kind = PRS_EVENT_IMMEDIATE,
                                       .peer = peer_of(self, taken[i].source),
                                       .immediate = taken[i].immediate};
    }
    return count;
}

uint32_t prs_inprocess_poll(struct prs_inprocess_endpoint *self, prs_inprocess_complete_fn complete,
                            struct prs_event *events, uint32_t n)
{
    uint32_t filled = 0;
    self->events_first = !self->events_first;
    if (self->events_first) {
        filled = take_immediates(self, events, n);
    }
    filled += complete(self, events + filled, n - filled);
    if (!self->events_first) {
        filled += take_immediates(self, events + filled, n - filled);
    }
    return filled;
}
