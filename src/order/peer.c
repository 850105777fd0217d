/* SPDX-License-Identifier: Apache-2.0 */
#include "order/peer.h"

#include <stdlib.h>
#include <string.h>

#include "order/engine.h"

/* An address blob is {fabric address bytes, control blob bytes} (two u32), then both. */
static enum perseus_status connect_peer(struct prs_orderer *orderer, struct prs_order_peer *peer)
{
    const struct prs_log *log = orderer->config.log;
    if (orderer->directory == NULL) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "cannot reach PE %u: no address directory was set", peer->rank);
    }
    const unsigned char *entry =
        orderer->directory + (size_t)peer->rank * orderer->directory_stride;
    uint32_t total, lengths[2];
    memcpy(&total, entry, sizeof total);
    memcpy(lengths, entry + sizeof total, sizeof lengths);
    if (total > PRS_ORDERER_ADDRESS_MAX || lengths[0] > PRS_ADDRESS_MAX ||
        lengths[1] > PRS_BLOB_MAX || total != sizeof lengths + lengths[0] + lengths[1]) {
        return prs_fail(log, PERSEUS_PROTOCOL,
                        "the address of PE %u is malformed; do all PEs run the same version?",
                        peer->rank);
    }
    const unsigned char *address = entry + sizeof total + sizeof lengths;
    struct prs_endpoint *endpoint = orderer->config.endpoint;
    enum perseus_status status =
        orderer->ops->connect(endpoint, address, lengths[0], &peer->fabric_peer);
    if (status == PERSEUS_OK && orderer->has_mailbox && lengths[1] > 0) {
        status = orderer->ops->remote_import(endpoint, peer->fabric_peer, address + lengths[0],
                                             lengths[1], &peer->control);
    }
    return status;
}

/* Apart, so that every request but the first saves no registers for it. */
static __attribute__((noinline)) enum perseus_status
first_use(struct prs_orderer *orderer, uint32_t rank, struct prs_order_peer **out)
{
    if (rank >= orderer->config.n_peers) {
        return prs_fail(orderer->config.log, PERSEUS_INVALID_ARGUMENT,
                        "PE %u does not exist: the job has PEs 0 to %u", rank,
                        orderer->config.n_peers - 1);
    }
    struct prs_order_peer *peer = calloc(1, sizeof *peer);
    if (peer == NULL) {
        return prs_fail(orderer->config.log, PERSEUS_OUT_OF_MEMORY,
                        "no memory for the state of peer PE %u", rank);
    }
    peer->rank = rank;
    peer->lane = (uint8_t)(rank % orderer->lanes);
    peer->fences_seen = orderer->fences_all;
    peer->mail_out.first_open = PRS_NONE;
    prs_epochs_init(&peer->epochs);
    /* Release pairs with the acquire in prs_orderer_stats: the counters are initialized. */
    atomic_store_explicit(&orderer->peers[rank], peer, memory_order_release);
    enum perseus_status status = connect_peer(orderer, peer);
    if (status != PERSEUS_OK) {
        /* It stays failed: what follows must not get through where this did not. */
        prs_order_peer_fail(orderer, peer, status);
        return status;
    }
    *out = peer;
    return PERSEUS_OK;
}

enum perseus_status prs_order_peer_get(struct prs_orderer *orderer, uint32_t rank,
                                       struct prs_order_peer **out)
{
    /* Relaxed: only this thread stores. */
    struct prs_order_peer *peer =
        rank < orderer->config.n_peers
            ? atomic_load_explicit(&orderer->peers[rank], memory_order_relaxed)
            : NULL;
    if (peer == NULL) {
        return first_use(orderer, rank, out);
    }
    *out = peer;
    return PERSEUS_OK;
}

void prs_order_peer_destroy(struct prs_order_peer *peer)
{
    if (peer != NULL && peer->control != NULL) {
        peer->control->endpoint->ops->remote_close(peer->control);
    }
    free(peer);
}
