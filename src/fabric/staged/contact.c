/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "fabric/staged/internal.h"

#define MAGIC 0x70727361u /* "prsa" */

/* Before the inside's address and the arena's blob. */
struct address_head {
    uint32_t magic, rank, n_pes;
    uint16_t address_bytes, blob_bytes;
    uint64_t ring_bytes;
};
_Static_assert(sizeof(struct address_head) == 24, "no padding");

enum perseus_status prs_staged_address(struct prs_endpoint *endpoint, void *out, size_t *bytes)
{
    struct prs_staged_endpoint *self = (struct prs_staged_endpoint *)endpoint;
    const struct prs_staged_fabric *fabric = self->fabric;
    const struct prs_fabric_ops *ops = fabric->inside->ops;
    unsigned char address[PRS_ADDRESS_MAX], blob[PRS_BLOB_MAX];
    size_t address_bytes = sizeof address, blob_bytes = sizeof blob;
    enum perseus_status status = ops->endpoint_address(self->inside, address, &address_bytes);
    if (status == PERSEUS_OK) {
        status = ops->region_export(self->arena_region, blob, &blob_bytes);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    const struct address_head head = {.magic = MAGIC,
                                      .rank = fabric->self,
                                      .n_pes = fabric->n_pes,
                                      .address_bytes = (uint16_t)address_bytes,
                                      .blob_bytes = (uint16_t)blob_bytes,
                                      .ring_bytes = fabric->config.ring_bytes};
    if (*bytes < sizeof head + address_bytes + blob_bytes) {
        return prs_fail(fabric->config.log, PERSEUS_LIMIT,
                        "a staged address over %s takes %zu bytes, and there are %zu; choose "
                        "another provider",
                        fabric->inside->caps.provider, sizeof head + address_bytes + blob_bytes,
                        *bytes);
    }
    memcpy(out, &head, sizeof head);
    memcpy((unsigned char *)out + sizeof head, address, address_bytes);
    memcpy((unsigned char *)out + sizeof head + address_bytes, blob, blob_bytes);
    *bytes = sizeof head + address_bytes + blob_bytes;
    return PERSEUS_OK;
}

static enum perseus_status read_head(const struct prs_staged_endpoint *self, const void *address,
                                     size_t bytes, struct address_head *out)
{
    const struct prs_staged_fabric *fabric = self->fabric;
    if (bytes >= sizeof *out) {
        memcpy(out, address, sizeof *out);
    }
    if (bytes < sizeof *out || out->magic != MAGIC || out->rank >= fabric->n_pes ||
        bytes != sizeof *out + out->address_bytes + out->blob_bytes) {
        return prs_fail(fabric->config.log, PERSEUS_INVALID_ARGUMENT,
                        "%zu bytes are no address of a PE of this job over a staged fabric; give "
                        "every PE the same PERSEUS_FABRIC and heap_memory",
                        bytes);
    }
    if (out->ring_bytes != fabric->config.ring_bytes || out->n_pes != fabric->n_pes) {
        return prs_fail(fabric->config.log, PERSEUS_INVALID_ARGUMENT,
                        "PE %u stages through %llu bytes for each of %u PEs, this one through %llu "
                        "for each of %u; set PERSEUS_STAGE_BYTES alike on every PE",
                        out->rank, (unsigned long long)out->ring_bytes, out->n_pes,
                        (unsigned long long)fabric->config.ring_bytes, fabric->n_pes);
    }
    return PERSEUS_OK;
}

struct prs_staged_contact *prs_staged_contact(struct prs_staged_endpoint *self, uint32_t rank)
{
    if (self->contacts[rank] == NULL) {
        struct prs_staged_contact *contact = calloc(1, sizeof *contact);
        if (contact != NULL) {
            contact->rank = rank;
            contact->outer = PRS_PEER_UNKNOWN;
            self->contacts[rank] = contact;
        }
    }
    return self->contacts[rank];
}

enum perseus_status prs_staged_meet(struct prs_staged_endpoint *self,
                                    struct prs_staged_contact *contact, const void *address,
                                    size_t bytes)
{
    const struct prs_fabric_ops *ops = self->fabric->inside->ops;
    struct address_head head = {0};
    enum perseus_status status = read_head(self, address, bytes, &head);
    if (status != PERSEUS_OK || contact->arena != NULL) {
        return status;
    }
    if (head.rank != contact->rank) {
        return prs_fail(self->fabric->config.log, PERSEUS_INVALID_ARGUMENT,
                        "PE %u introduces itself as PE %u", contact->rank, head.rank);
    }
    const unsigned char *inside = (const unsigned char *)address + sizeof head;
    status = ops->connect(self->inside, inside, head.address_bytes, &contact->peer);
    return status == PERSEUS_OK
               ? ops->remote_import(self->inside, contact->peer, inside + head.address_bytes,
                                    head.blob_bytes, &contact->arena)
               : status;
}

/* What the peer's rings begin with: where to answer. */
static enum perseus_status introduce(struct prs_staged_endpoint *self,
                                     struct prs_staged_contact *contact)
{
    unsigned char address[PRS_ADDRESS_MAX];
    size_t bytes = sizeof address;
    enum perseus_status status = prs_staged_address(&self->base, address, &bytes);
    if (status != PERSEUS_OK || contact->out[PRS_STAGED_REQUEST].tail > 0) {
        return status;
    }
    struct prs_staged_slot *slot =
        prs_staged_reserve(self, contact, PRS_STAGED_REQUEST, PRS_STAGED_HELLO, bytes);
    slot->bytes = bytes;
    memcpy(slot + 1, address, bytes);
    struct prs_staged_out *out = &contact->out[PRS_STAGED_REQUEST];
    out->tail = out->ready = slot->span; /* no copy is awaited */
    return PERSEUS_OK;
}

static enum perseus_status add_peer(struct prs_staged_endpoint *self, uint32_t rank)
{
    if (self->n_peers == self->peers_room) {
        uint32_t room = 2 * self->peers_room + 8;
        uint32_t *ranks = realloc(self->ranks, room * sizeof *ranks);
        if (ranks == NULL) {
            return PERSEUS_OUT_OF_MEMORY;
        }
        self->ranks = ranks;
        self->peers_room = room;
    }
    self->ranks[self->n_peers++] = rank;
    return PERSEUS_OK;
}

enum perseus_status prs_staged_connect(struct prs_endpoint *endpoint, const void *address,
                                       size_t bytes, uint32_t *out_peer)
{
    struct prs_staged_endpoint *self = (struct prs_staged_endpoint *)endpoint;
    struct address_head head = {0};
    enum perseus_status status = read_head(self, address, bytes, &head);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_staged_contact *contact = prs_staged_contact(self, head.rank);
    if (contact == NULL) {
        return prs_fail(self->fabric->config.log, PERSEUS_OUT_OF_MEMORY, "no memory for PE %u",
                        head.rank);
    }
    status = prs_staged_meet(self, contact, address, bytes);
    if (status == PERSEUS_OK) {
        status = introduce(self, contact);
    }
    if (status == PERSEUS_OK) {
        status = add_peer(self, head.rank);
    }
    if (status == PERSEUS_OK) {
        contact->outer = self->n_peers - 1;
        *out_peer = contact->outer;
    }
    return status;
}

/* ---- parting ---- */

void prs_staged_lose(struct prs_staged_endpoint *self, struct prs_staged_contact *contact)
{
    if (contact->is_lost) {
        return;
    }
    contact->is_lost = true;
    contact->queued = contact->sent = (struct prs_staged_list){0};
    for (uint32_t i = 0; i < PRS_STAGED_OPS; i++) {
        struct prs_staged_op *op = &self->pool[i];
        if ((op->state == PRS_STAGED_QUEUED || op->state == PRS_STAGED_SENT) &&
            op->contact == contact) {
            prs_staged_end(self, op, PERSEUS_PEER_LOST);
        }
    }
}

void prs_staged_refuse(struct prs_staged_endpoint *self, struct prs_staged_contact *contact,
                       const char *what)
{
    if (contact->is_lost) {
        return;
    }
    prs_log(self->fabric->config.log, PERSEUS_LOG_ERROR,
            "PE %u sent %s, which no PE of this job does: its memory is damaged, or the network's "
            "messages are; nothing more is taken from it",
            contact->rank, what);
    contact->owes_refusal = true;
    prs_staged_lose(self, contact);
}
