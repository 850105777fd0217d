/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_cm.h>

#include "fabric/libfabric/internal.h"
#include "fabric/libfabric/provider/ip.h"
#include "fabric/libfabric/provider/process.h"
#include "fabric/libfabric/provider/shm.h"
#include "fabric/libfabric/status.h"
#include "fabric/libfabric/provider/traits.h"

#define PRS_LF_ADDRESS_MAGIC 0x32414c50u /* "PLA2" */

/* How long a provider has, after a peer's process has ended, to return what it holds: connections
 * return it within a moment and may still be writing into the buffer of a get until then. */
#define PRS_LF_RETURN_NS UINT64_C(500000000)

/* A last resort for peers of other hosts that were gone before the first contact: connecting to
 * them is refused for ever, as "try again". Longer than any start-up, so that a peer that is merely
 * slow to poll is not given up; callers have shorter deadlines of their own. */
#define PRS_LF_REFUSING_NS UINT64_C(60000000000)

#define PRS_LF_PROCESS_ENDED "its process has ended"

/* How an endpoint is reached. All hosts of a job are little-endian. */
struct prs_lf_address_blob {
    uint32_t magic;
    uint32_t format; /* FI_SOCKADDR_IN, FI_ADDR_STR... */
    uint64_t process_space;
    int32_t pid;
    uint32_t address_bytes;
    struct prs_lf_sink sink;
    struct prs_lf_bell_address bell;
    unsigned char address[PRS_ADDRESS_MAX - 64];
};
_Static_assert(sizeof(struct prs_lf_address_blob) == PRS_ADDRESS_MAX,
               "an endpoint's address has no padding");

#define PRS_LF_ADDRESS_BLOB_MIN offsetof(struct prs_lf_address_blob, address)

enum perseus_status prs_lf_address_pack(const struct prs_lf_endpoint *endpoint, void *out,
                                        size_t *bytes)
{
    const struct prs_lf_fabric *fabric = prs_lf_fabric_of(endpoint->base.fabric);
    struct prs_lf_address_blob blob = {
        .magic = PRS_LF_ADDRESS_MAGIC,
        .format = fabric->info->addr_format,
        .process_space = fabric->process_space,
        .pid = (int32_t)getpid(),
    };
    if (endpoint->sink_mr != NULL) {
        bool is_virtual = fabric->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
        blob.sink.address = is_virtual ? (uint64_t)(uintptr_t)&endpoint->sink_word : 0;
        blob.sink.key = fi_mr_key(endpoint->sink_mr);
    }
    prs_lf_bell_address(&endpoint->bell, &blob.bell);
    size_t address_bytes = sizeof blob.address;
    int error = fi_getname(&endpoint->ep->fid, blob.address, &address_bytes);
    if (error != 0) {
        return prs_fail(fabric->log, prs_lf_status(error), "%s does not tell its address: %s",
                        fabric->base.caps.provider, prs_lf_error_text(error));
    }
    blob.address_bytes = (uint32_t)address_bytes;
    size_t length = PRS_LF_ADDRESS_BLOB_MIN + address_bytes;
    if (*bytes < length) {
        return prs_fail(fabric->log, PERSEUS_INVALID_ARGUMENT,
                        "an endpoint's address takes %zu bytes, the buffer has %zu", length,
                        *bytes);
    }
    memcpy(out, &blob, length);
    *bytes = length;
    return PERSEUS_OK;
}

static enum perseus_status address_parse(const struct prs_lf_endpoint *endpoint,
                                         const void *address, size_t bytes,
                                         struct prs_lf_address_blob *out)
{
    const struct prs_lf_fabric *fabric = prs_lf_fabric_of(endpoint->base.fabric);
    *out = (struct prs_lf_address_blob){0};
    if (bytes > PRS_LF_ADDRESS_BLOB_MIN && bytes <= sizeof *out) {
        memcpy(out, address, bytes);
        bool is_text = out->format == FI_ADDR_STR;
        bool ends = !is_text || memchr(out->address, '\0', out->address_bytes) != NULL;
        if (out->magic == PRS_LF_ADDRESS_MAGIC && out->format == fabric->info->addr_format &&
            out->address_bytes == bytes - PRS_LF_ADDRESS_BLOB_MIN && ends) {
            return PERSEUS_OK;
        }
    }
    return prs_fail(fabric->log, PERSEUS_PROTOCOL,
                    "what a peer sent as its address is not one of %s's: give every PE the same "
                    "Perseus and the same provider",
                    fabric->base.caps.provider);
}

static enum perseus_status peers_reserve(struct prs_lf_endpoint *endpoint)
{
    if (endpoint->peer_count < endpoint->peer_capacity) {
        return PERSEUS_OK;
    }
    uint32_t capacity = endpoint->peer_capacity == 0 ? 8 : 2 * endpoint->peer_capacity;
    struct prs_lf_peer *peers = realloc(endpoint->peers, capacity * sizeof *peers);
    if (peers == NULL) {
        return prs_fail(prs_lf_log(endpoint), PERSEUS_OUT_OF_MEMORY, "no memory for %u peers",
                        capacity);
    }
    endpoint->peers = peers;
    endpoint->peer_capacity = capacity;
    return PERSEUS_OK;
}

/* Without it everybody looks by itself. */
static void peer_find_bell(struct prs_lf_endpoint *endpoint, const struct prs_lf_address_blob *blob,
                           struct prs_lf_peer *peer)
{
    if (endpoint->bell.page == NULL ||
        prs_lf_rope_open(&peer->rope, &endpoint->bell, blob->pid, &blob->bell)) {
        return;
    }
    endpoint->must_look = true;
    prs_log(prs_lf_log(endpoint), PERSEUS_LOG_WARN,
            "the bell of peer %u (process %d) cannot be rung from here: %s; what is sent to it may "
            "wait for 10 ms, and this PE looks for messages all the time",
            endpoint->peer_count, blob->pid, strerror(errno));
}

static enum perseus_status peer_find_process(const struct prs_lf_endpoint *endpoint,
                                             const struct prs_lf_address_blob *blob,
                                             struct prs_lf_peer *peer)
{
    const struct prs_lf_fabric *fabric = prs_lf_fabric_of(endpoint->base.fabric);
    if (blob->process_space != fabric->process_space || blob->pid == getpid()) {
        return PERSEUS_OK;
    }
    bool ended = false;
    peer->process = prs_lf_process_watch(blob->pid, &ended);
    if (ended) {
        return prs_fail(fabric->log, PERSEUS_PEER_LOST,
                        "process %d, whose address was given as peer %u, has ended: look at that "
                        "PE's own log",
                        blob->pid, endpoint->peer_count);
    }
    if (prs_lf_shm_is(fabric->info)) {
        snprintf(peer->shm_name, sizeof peer->shm_name, "%.*s", (int)sizeof peer->shm_name - 1,
                 (const char *)blob->address);
    }
    return PERSEUS_OK;
}

enum perseus_status prs_lf_connect(struct prs_endpoint *base, const void *address, size_t bytes,
                                   uint32_t *out_peer)
{
    struct prs_lf_endpoint *endpoint = prs_lf_endpoint_of(base);
    const struct prs_lf_fabric *fabric = prs_lf_fabric_of(base->fabric);
    struct prs_lf_address_blob blob;
    enum perseus_status status = address_parse(endpoint, address, bytes, &blob);
    status = status == PERSEUS_OK ? peers_reserve(endpoint) : status;
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_lf_peer peer = {.process = -1, .sink = blob.sink};
    status = peer_find_process(endpoint, &blob, &peer);
    if (status != PERSEUS_OK) {
        return status;
    }
    if (fabric->bind[0] != '\0') {
        prs_lf_ip_from_peer(blob.address, blob.address_bytes, fabric->bind);
    }
    int inserted = fi_av_insert(endpoint->av, blob.address, 1, &peer.address, 0, NULL);
    if (inserted != 1) {
        if (peer.process >= 0) {
            close(peer.process);
        }
        return prs_fail(fabric->log, PERSEUS_INVALID_ARGUMENT,
                        "%s does not take the address of peer %u: %s", fabric->base.caps.provider,
                        endpoint->peer_count,
                        inserted < 0 ? prs_lf_error_text(inserted) : "not valid here");
    }
    peer_find_bell(endpoint, &blob, &peer);
    endpoint->peers[endpoint->peer_count] = peer;
    *out_peer = endpoint->peer_count++;
    return PERSEUS_OK;
}

void prs_lf_peers_finish(struct prs_lf_endpoint *endpoint)
{
    for (uint32_t i = 0; i < endpoint->peer_count; i++) {
        if (endpoint->peers[i].process >= 0) {
            close(endpoint->peers[i].process);
        }
        prs_lf_rope_close(&endpoint->peers[i].rope);
    }
    free(endpoint->peers);
}

bool prs_lf_peer_is_lost(struct prs_lf_endpoint *endpoint, uint32_t index)
{
    if (endpoint->peers[index].ended) {
        prs_lf_peer_lose(endpoint, index, PRS_LF_PROCESS_ENDED);
    }
    return endpoint->peers[index].lost;
}

void prs_lf_peer_lose(struct prs_lf_endpoint *endpoint, uint32_t index, const char *why)
{
    struct prs_lf_peer *peer = &endpoint->peers[index];
    if (peer->lost) {
        return;
    }
    peer->lost = true;
    const struct prs_lf_fabric *fabric = (const struct prs_lf_fabric *)endpoint->base.fabric;
    prs_log(fabric->log, fabric->loss_level,
            "peer %u is lost: %s (%s); %s; nothing more is sent to it", index, why,
            fabric->base.caps.provider, prs_lf_advice(PERSEUS_PEER_LOST));
}

/* What the provider still has of an ended peer it will not return: stranded (context.h). */
static void peer_strand(struct prs_lf_endpoint *endpoint, uint32_t index)
{
    struct prs_lf_context *context;
    while (endpoint->peers[index].in_flight > 0 &&
           (context = prs_lf_pool_find_unsettled(&endpoint->pool, index)) != NULL) {
        endpoint->peers[index].in_flight--;
        endpoint->pool.stranded++;
        prs_lf_settle(endpoint, context, PERSEUS_PEER_LOST);
    }
}

/* PRS_LF_RETURNS_IN_LINE: with one peer's operations all are stuck. */
static void peers_strand_all(struct prs_lf_endpoint *endpoint)
{
    prs_fail(prs_lf_log(endpoint), PERSEUS_PEER_LOST,
             "%s returns nothing any more after a peer died in the middle of an operation: all %u "
             "peers of this endpoint are lost; where PEs may die, use another provider",
             endpoint->base.fabric->caps.provider, endpoint->peer_count);
    for (uint32_t i = 0; i < endpoint->peer_count; i++) {
        endpoint->peers[i].lost = true;
        peer_strand(endpoint, i);
    }
}

void prs_lf_peers_watch(struct prs_lf_endpoint *endpoint)
{
    if (endpoint->peer_count == 0) {
        return;
    }
    const struct prs_lf_fabric *fabric = prs_lf_fabric_of(endpoint->base.fabric);
    uint32_t index = endpoint->watch_next++ % endpoint->peer_count;
    struct prs_lf_peer *peer = &endpoint->peers[index];
    if (!peer->ended && prs_lf_process_ended(peer->process)) {
        peer->ended = true;
        peer->since_ns = prs_clock_now_ns(&fabric->clock);
        if (peer->shm_name[0] != '\0') {
            prs_lf_shm_remove(peer->shm_name);
        }
    }
    /* Without business between us its end is none of ours: it may have finished before us. */
    if (peer->ended && peer->in_flight > 0) {
        prs_lf_peer_lose(endpoint, index, PRS_LF_PROCESS_ENDED);
    }
    if (peer->ended && peer->in_flight > 0 &&
        prs_clock_now_ns(&fabric->clock) - peer->since_ns >= PRS_LF_RETURN_NS) {
        peer_strand(endpoint, index);
        if ((fabric->traits & PRS_LF_RETURNS_IN_LINE) && endpoint->peer_count > 1) {
            peers_strand_all(endpoint);
        }
    }
}

enum perseus_status prs_lf_peer_refused(struct prs_lf_endpoint *endpoint, uint32_t index)
{
    const struct prs_lf_fabric *fabric = prs_lf_fabric_of(endpoint->base.fabric);
    struct prs_lf_peer *peer = &endpoint->peers[index];
    /* With operations in flight, to it or to many others, AGAIN is ordinary back-pressure. */
    if (peer->in_flight > 0 || endpoint->pool.lent > endpoint->pool.limit / 2) {
        peer->refusing = false;
        return PERSEUS_AGAIN;
    }
    uint64_t now_ns = prs_clock_now_ns(&fabric->clock);
    if (!peer->refusing) {
        peer->refusing = true;
        peer->since_ns = now_ns;
    }
    if (now_ns - peer->since_ns < PRS_LF_REFUSING_NS) {
        return PERSEUS_AGAIN;
    }
    prs_lf_peer_lose(endpoint, index, "no connection to it for 60 seconds");
    return PERSEUS_PEER_LOST;
}
