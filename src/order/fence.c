/* SPDX-License-Identifier: Apache-2.0 */
/* fence.c: fences, drains and quiets. A fence is O(1): it leaves a mark that peers notice when next
 * used. */
#include "order/engine.h"

/* ---- stalls: the drains of the modes that have them ---- */

static struct prs_epochs *stall_epochs(struct prs_orderer *orderer, struct prs_order_peer *peer)
{
    return peer != NULL ? &peer->epochs : &orderer->epochs;
}

void prs_order_stall_begin(struct prs_orderer *orderer, struct prs_order_peer *peer)
{
    struct prs_stall *stall = &orderer->stall;
    if (orderer->mode->stalls_all) {
        peer = NULL;
    }
    if (stall->active) {
        /* Nothing was submitted since, but a parked signal may lie between the two fences. */
        stall->again_peer = stall->again && stall->again_peer != peer ? NULL : peer;
        stall->again = true;
        return;
    }
    struct prs_epochs *epochs = stall_epochs(orderer, peer);
    uint64_t after = prs_epochs_end(epochs);
    if (prs_epochs_passed(epochs, after)) {
        return;
    }
    *stall = (struct prs_stall){.active = true,
                                .peer = peer,
                                .after = after,
                                .since_ns = prs_clock_now_ns(&orderer->config.clock)};
    prs_count(peer != NULL ? &peer->counters.drains : &orderer->counters.drains, 1);
}

bool prs_order_stall_update(struct prs_orderer *orderer)
{
    struct prs_stall *stall = &orderer->stall;
    if (!stall->active || !prs_epochs_passed(stall_epochs(orderer, stall->peer), stall->after)) {
        return false;
    }
    uint64_t ns = prs_clock_now_ns(&orderer->config.clock) - stall->since_ns;
    prs_count(stall->peer != NULL ? &stall->peer->counters.drain_ns : &orderer->counters.drain_ns,
              ns);
    stall->active = false;
    if (stall->again) {
        stall->again = false;
        prs_order_stall_begin(orderer, stall->again_peer);
    }
    return true;
}

/* ---- fences ---- */

void prs_order_catch_up(struct prs_orderer *orderer, struct prs_order_peer *peer)
{
    if (peer->fences_seen != orderer->fences_all) {
        peer->fences_seen = orderer->fences_all;
        peer->fence_due = true;
    }
    if (!peer->fence_due) {
        return;
    }
    peer->fence_due = false;
    /* Completed is as good as ordered only where it means delivered. Elsewhere an operation stays
     * to be ordered whatever was waited for since: a quiet ends its epoch, and orders nothing. */
    const struct prs_epochs *epochs = &peer->epochs;
    bool delivered = orderer->caps.completion == PRS_COMPLETION_DELIVERED;
    bool unordered = !delivered && epochs->last_used > 0 && epochs->last_used >= peer->fence_after;
    if (epochs->open > 0 || unordered) {
        peer->fence_after = prs_epochs_end(&peer->epochs);
        prs_count(&peer->counters.fences, 1);
    }
}

enum perseus_status prs_orderer_fence(struct prs_orderer *orderer, uint32_t rank)
{
    struct prs_order_peer *peer = NULL;
    if (rank != PRS_ORDER_ALL_PEERS) {
        if (rank >= orderer->config.n_peers) {
            return prs_fail(orderer->config.log, PERSEUS_INVALID_ARGUMENT,
                            "fence toward PE %u: the job has PEs 0 to %u", rank,
                            orderer->config.n_peers - 1);
        }
        peer = atomic_load_explicit(&orderer->peers[rank], memory_order_relaxed);
        if (peer == NULL) {
            return PERSEUS_OK; /* nothing was ever sent there */
        }
    }
    if (orderer->mode->stalls) {
        const struct prs_epochs *epochs = stall_epochs(orderer, peer);
        if (epochs->open > 0) {
            prs_count(peer != NULL ? &peer->counters.fences : &orderer->counters.fences, 1);
        }
        prs_order_stall_begin(orderer, peer);
    } else if (peer != NULL) {
        peer->fence_due = true;
    } else {
        orderer->fences_all++;
    }
    return PERSEUS_OK;
}

/* ---- quiets ---- */

/* Whoever asks is told, as often as it is asked: which threads know already, nobody here does. */
static void quiet_complete(struct prs_orderer *orderer, const struct prs_order_peer *peer,
                           uint32_t token)
{
    enum perseus_status status = peer != NULL ? peer->status : orderer->status;
    if (token != PRS_ORDER_NO_TOKEN && orderer->config.complete != NULL) {
        orderer->config.complete(orderer->config.context, token, status, 0);
    }
}

enum perseus_status prs_orderer_quiet(struct prs_orderer *orderer, uint32_t rank, uint32_t token)
{
    struct prs_order_peer *peer = NULL;
    if (rank != PRS_ORDER_ALL_PEERS) {
        if (rank >= orderer->config.n_peers) {
            return prs_fail(orderer->config.log, PERSEUS_INVALID_ARGUMENT,
                            "quiet toward PE %u: the job has PEs 0 to %u", rank,
                            orderer->config.n_peers - 1);
        }
        peer = atomic_load_explicit(&orderer->peers[rank], memory_order_relaxed);
        if (peer == NULL) {
            if (token != PRS_ORDER_NO_TOKEN && orderer->config.complete != NULL) {
                orderer->config.complete(orderer->config.context, token, PERSEUS_OK, 0);
            }
            return PERSEUS_OK; /* nothing was ever sent there */
        }
    }
    struct prs_epochs *epochs = stall_epochs(orderer, peer);
    if (orderer->quiets_count == orderer->config.pools.quiets) {
        return PERSEUS_AGAIN;
    }
    uint64_t after = prs_epochs_end(epochs);
    if (peer != NULL) {
        prs_order_seal(orderer, peer);
    }
    if (prs_epochs_passed(epochs, after)) {
        quiet_complete(orderer, peer, token);
    } else {
        orderer->quiets[orderer->quiets_count++] =
            (struct prs_quiet){.token = token, .after = after, .peer = peer};
    }
    return PERSEUS_OK;
}

bool prs_order_quiets_update(struct prs_orderer *orderer)
{
    bool did = false;
    for (uint32_t i = 0; i < orderer->quiets_count;) {
        struct prs_quiet quiet = orderer->quiets[i];
        if (!prs_epochs_passed(stall_epochs(orderer, quiet.peer), quiet.after)) {
            i++;
            continue;
        }
        orderer->quiets[i] = orderer->quiets[--orderer->quiets_count];
        quiet_complete(orderer, quiet.peer, quiet.token);
        did = true;
    }
    return did;
}
