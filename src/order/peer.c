/* SPDX-License-Identifier: Apache-2.0 */
/* peer.c: one remote PE as the engine sees it: its connection, its parked operations, its end. */
#include "order/engine.h"

#include <stdlib.h>
#include <string.h>

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

enum perseus_status prs_order_peer_get(struct prs_orderer *orderer, uint32_t rank,
                                       struct prs_order_peer **out)
{
    if (rank >= orderer->config.n_peers) {
        return prs_fail(orderer->config.log, PERSEUS_INVALID_ARGUMENT,
                        "PE %u does not exist: the job has PEs 0 to %u", rank,
                        orderer->config.n_peers - 1);
    }
    /* Relaxed: only this thread stores. */
    struct prs_order_peer *peer = atomic_load_explicit(&orderer->peers[rank], memory_order_relaxed);
    if (peer != NULL) {
        *out = peer;
        return PERSEUS_OK;
    }
    peer = calloc(1, sizeof *peer);
    struct prs_item *parked = calloc(orderer->config.parked_max, sizeof *parked);
    if (peer == NULL || parked == NULL) {
        free(peer);
        free(parked);
        return prs_fail(orderer->config.log, PERSEUS_OUT_OF_MEMORY,
                        "no memory for the state of peer PE %u", rank);
    }
    peer->rank = rank;
    peer->parked = parked;
    peer->fences_seen = orderer->fences_all;
    prs_epochs_init(&peer->epochs);
    enum perseus_status status = connect_peer(orderer, peer);
    if (status != PERSEUS_OK) {
        prs_order_peer_destroy(peer);
        return status;
    }
    /* Release pairs with the acquire in prs_orderer_stats: the counters are initialized. */
    atomic_store_explicit(&orderer->peers[rank], peer, memory_order_release);
    *out = peer;
    return PERSEUS_OK;
}

void prs_order_peer_destroy(struct prs_order_peer *peer)
{
    if (peer == NULL) {
        return;
    }
    if (peer->control != NULL) {
        peer->control->endpoint->ops->remote_close(peer->control);
    }
    free(peer->parked);
    free(peer);
}

/* ---- parked operations ---- */

bool prs_order_can_park(const struct prs_orderer *orderer, const struct prs_order_peer *peer)
{
    return peer->parked_count < orderer->config.parked_max;
}

void prs_order_park(struct prs_orderer *orderer, struct prs_order_peer *peer,
                    const struct prs_item *item)
{
    uint32_t mask = orderer->config.parked_max - 1;
    peer->parked[(peer->parked_first + peer->parked_count) & mask] = *item;
    peer->parked_count++;
    prs_count(&peer->counters.deferred, 1);
    if (!peer->parked_listed) {
        peer->parked_listed = true;
        peer->parked_next = orderer->parked_list;
        orderer->parked_list = peer;
    }
}

struct prs_item *prs_order_parked_head(struct prs_order_peer *peer)
{
    return peer->parked_count == 0 ? NULL : &peer->parked[peer->parked_first];
}

void prs_order_unpark(struct prs_order_peer *peer, uint32_t parked_max)
{
    peer->parked_first = (peer->parked_first + 1) & (parked_max - 1);
    peer->parked_count--;
}

static enum perseus_status pump_peer(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                     bool *did)
{
    struct prs_item *item;
    while (!peer->lost && (item = prs_order_parked_head(peer)) != NULL) {
        bool wait;
        enum perseus_status status = prs_order_try(orderer, peer, item, &wait);
        if (status == PERSEUS_AGAIN) {
            return PERSEUS_OK;
        }
        if (status != PERSEUS_OK) {
            /* prs_order_peer_lost has closed the parked items, this one too. */
            return peer->lost ? PERSEUS_OK : status;
        }
        prs_order_unpark(peer, orderer->config.parked_max);
        *did = true;
    }
    return PERSEUS_OK;
}

enum perseus_status prs_order_pump_parked(struct prs_orderer *orderer, bool *did)
{
    struct prs_order_peer **link = &orderer->parked_list;
    while (*link != NULL) {
        struct prs_order_peer *peer = *link;
        enum perseus_status status = pump_peer(orderer, peer, did);
        if (status != PERSEUS_OK) {
            return status;
        }
        if (peer->parked_count == 0) {
            *link = peer->parked_next;
            peer->parked_listed = false;
        } else {
            link = &peer->parked_next;
        }
    }
    return PERSEUS_OK;
}

/* ---- the end of a peer ---- */

void prs_order_peer_lost(struct prs_orderer *orderer, struct prs_order_peer *peer,
                         enum perseus_status why)
{
    if (peer->lost) {
        return;
    }
    peer->lost = true;
    prs_log(
        orderer->config.log, PERSEUS_LOG_ERROR,
        "peer PE %u is lost (%s): its outstanding operations end with an error; other peers go on. "
        "Look at that PE's own output for the cause",
        peer->rank, perseus_status_string(why));
    /* What was posted gets its completion from the fabric; the rest ends here. */
    struct prs_item *item;
    while ((item = prs_order_parked_head(peer)) != NULL) {
        uint32_t pending = item->pending;
        prs_order_unpark(peer, orderer->config.parked_max);
        prs_pending_clear(orderer, pending, PRS_WAIT_LOCAL | PRS_WAIT_ACK | PRS_WAIT_REPLY,
                          PERSEUS_PEER_LOST);
    }
    prs_mail_abandon(orderer, peer, PERSEUS_PEER_LOST);
}
