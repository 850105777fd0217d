/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/sim/internal.h"

enum perseus_status prs_sim_endpoint_open(struct prs_fabric *fabric, struct prs_endpoint **out)
{
    struct prs_sim_fabric *owner = (struct prs_sim_fabric *)fabric;
    uint32_t n_queues = (uint32_t)owner->net->model.queues;
    struct prs_sim_endpoint *self = calloc(1, sizeof *self);
    struct prs_sim_queue *queues = calloc(n_queues > 0 ? n_queues : 1, sizeof *queues);
    if (self == NULL || queues == NULL ||
        prs_sim_net_add_endpoint(owner->net, self) != PERSEUS_OK) {
        free(queues);
        free(self);
        return prs_fail(owner->log, PERSEUS_OUT_OF_MEMORY, "no memory for a virtual endpoint");
    }
    self->base = (struct prs_endpoint){.ops = &prs_sim_ops, .fabric = fabric};
    self->fabric = owner;
    self->net = owner->net;
    self->queues = queues;
    self->n_queues = n_queues;
    self->n_lanes = prs_sim_lanes(&owner->net->model);
    if (owner->first == PRS_SIM_NONE) {
        owner->first = self->number;
    }
    *out = &self->base;
    return PERSEUS_OK;
}

void prs_sim_endpoint_free(struct prs_sim_endpoint *endpoint)
{
    endpoint->net->endpoints[endpoint->number] = NULL;
    free(endpoint->peers);
    free(endpoint->lanes);
    free(endpoint->places);
    free(endpoint->queues);
    free(endpoint);
}

/* Operations on their way find it closed and end one by one; the last one frees it. */
void prs_sim_endpoint_close(struct prs_endpoint *endpoint)
{
    if (endpoint == NULL) {
        return;
    }
    struct prs_sim_endpoint *self = (struct prs_sim_endpoint *)endpoint;
    while (self->arrived_first != NULL) {
        struct prs_sim_arrival *arrival = self->arrived_first;
        self->arrived_first = arrival->next;
        prs_sim_arrival_give_back(self->net, arrival);
    }
    while (self->done_first != NULL) {
        struct prs_sim_op *op = self->done_first;
        self->done_first = op->next;
        prs_sim_op_give_back(op);
    }
    self->ready = NULL;
    self->is_closed = true;
    if (self->in_flight == 0) {
        prs_sim_endpoint_free(self);
    }
}

uint64_t prs_sim_endpoint_free_ns(const struct prs_endpoint *endpoint)
{
    const struct prs_sim_endpoint *self = (const struct prs_sim_endpoint *)endpoint;
    uint64_t now_ns = prs_sim_now(self->net);
    return self->free_ns > now_ns ? self->free_ns : now_ns;
}

void prs_sim_endpoint_spend(struct prs_endpoint *endpoint, double ns)
{
    struct prs_sim_endpoint *self = (struct prs_sim_endpoint *)endpoint;
    self->free_ns = prs_sim_endpoint_free_ns(endpoint) + (uint64_t)(ns + 0.5);
}

bool prs_sim_endpoint_is_told(const struct prs_endpoint *endpoint)
{
    return ((const struct prs_sim_endpoint *)endpoint)->untold == 0;
}

bool prs_sim_endpoint_has_events(const struct prs_endpoint *endpoint)
{
    const struct prs_sim_endpoint *self = (const struct prs_sim_endpoint *)endpoint;
    return self->done_first != NULL || self->arrived_first != NULL;
}

void prs_sim_endpoint_on_ready(struct prs_endpoint *endpoint, prs_happen_fn ready, void *context)
{
    struct prs_sim_endpoint *self = (struct prs_sim_endpoint *)endpoint;
    self->ready = ready;
    self->ready_context = context;
}

enum perseus_status prs_sim_endpoint_address(struct prs_endpoint *endpoint, void *out,
                                             size_t *bytes)
{
    const struct prs_sim_endpoint *self = (const struct prs_sim_endpoint *)endpoint;
    struct prs_sim_address address = {.magic = PRS_SIM_BLOB_MAGIC, .endpoint = self->fabric->first};
    if (*bytes < sizeof address) {
        return prs_fail(self->fabric->log, PERSEUS_INVALID_ARGUMENT,
                        "an address needs %zu bytes, not %zu", sizeof address, *bytes);
    }
    memcpy(out, &address, sizeof address);
    *bytes = sizeof address;
    return PERSEUS_OK;
}

/* ---- peers ---- */

static uint32_t place_of(const struct prs_sim_endpoint *self, uint32_t number)
{
    return number * 2654435769u & (self->places_room - 1);
}

static void place(struct prs_sim_endpoint *self, uint32_t peer)
{
    uint32_t at = place_of(self, self->peers[peer].target);
    while (self->places[at] != 0) {
        at = (at + 1) & (self->places_room - 1);
    }
    self->places[at] = peer + 1;
}

uint32_t prs_sim_peer_of(const struct prs_sim_endpoint *self, uint32_t number)
{
    if (self->n_peers == 0) {
        return PRS_PEER_UNKNOWN;
    }
    for (uint32_t at = place_of(self, number); self->places[at] != 0;
         at = (at + 1) & (self->places_room - 1)) {
        if (self->peers[self->places[at] - 1].target == number) {
            return self->places[at] - 1;
        }
    }
    return PRS_PEER_UNKNOWN;
}

/* Operations name their peer by number, so that peers, and the queues in them, may move. */
static enum perseus_status reserve_peer(struct prs_sim_endpoint *self)
{
    if (self->n_peers < self->peers_room) {
        return PERSEUS_OK;
    }
    uint32_t room = self->peers_room == 0 ? 8 : 2 * self->peers_room;
    struct prs_sim_peer *peers = realloc(self->peers, room * sizeof *peers);
    if (peers == NULL) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    self->peers = peers;
    struct prs_sim_lane *lanes = realloc(self->lanes, (size_t)room * self->n_lanes * sizeof *lanes);
    if (lanes == NULL) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    self->lanes = lanes;
    uint32_t *places = calloc(2 * (size_t)room, sizeof *places);
    if (places == NULL) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    free(self->places);
    self->places = places;
    self->places_room = 2 * room;
    self->peers_room = room;
    for (uint32_t i = 0; i < self->n_peers; i++) {
        place(self, i);
    }
    return PERSEUS_OK;
}

enum perseus_status prs_sim_connect(struct prs_endpoint *endpoint, const void *address,
                                    size_t bytes, uint32_t *out_peer)
{
    struct prs_sim_endpoint *self = (struct prs_sim_endpoint *)endpoint;
    struct prs_sim_address content = {0};
    if (bytes == sizeof content) {
        memcpy(&content, address, sizeof content);
    }
    if (bytes != sizeof content || content.magic != PRS_SIM_BLOB_MAGIC) {
        return prs_fail(self->fabric->log, PERSEUS_INVALID_ARGUMENT,
                        "this is not an address of a virtual fabric");
    }
    if (prs_sim_net_endpoint(self->net, content.endpoint) == NULL) {
        return prs_fail(self->fabric->log, PERSEUS_PEER_LOST,
                        "the endpoint that this address names is closed");
    }
    if (reserve_peer(self) != PERSEUS_OK) {
        return prs_fail(self->fabric->log, PERSEUS_OUT_OF_MEMORY, "no memory for peer %u",
                        self->n_peers);
    }
    const struct prs_sim_model *model = &self->net->model;
    *out_peer = self->n_peers;
    self->peers[self->n_peers] = (struct prs_sim_peer){.target = content.endpoint};
    memset(&self->lanes[(size_t)self->n_peers * self->n_lanes], 0,
           self->n_lanes * sizeof *self->lanes);
    place(self, self->n_peers++);
    self->tail_ns = (uint64_t)(model->tail_ns * pow(self->n_peers, model->tail_exponent) + 0.5);
    return PERSEUS_OK;
}

/* ---- remotes ---- */

enum perseus_status prs_sim_import(struct prs_endpoint *endpoint, uint32_t peer, const void *blob,
                                   size_t bytes, struct prs_remote **out)
{
    struct prs_sim_endpoint *self = (struct prs_sim_endpoint *)endpoint;
    const struct prs_log *log = self->fabric->log;
    struct prs_sim_blob content = {0};
    if (peer >= self->n_peers) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT, "peer %u is not connected", peer);
    }
    if (bytes == sizeof content) {
        memcpy(&content, blob, sizeof content);
    }
    if (bytes != sizeof content || content.magic != PRS_SIM_BLOB_MAGIC ||
        content.endpoint != self->peers[peer].target) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT, "this is not a region blob of peer %u",
                        peer);
    }
    struct prs_sim_remote *remote = calloc(1, sizeof *remote);
    if (remote == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for a region of peer %u", peer);
    }
    remote->base =
        (struct prs_remote){.endpoint = endpoint, .peer = peer, .bytes = (size_t)content.bytes};
    remote->region = content.region;
    remote->is_word_aligned = content.is_word_aligned != 0;
    *out = &remote->base;
    return PERSEUS_OK;
}

void prs_sim_remote_close(struct prs_remote *remote)
{
    free(remote);
}
