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

enum perseus_status prs_order_catch_up(struct prs_orderer *orderer, struct prs_order_peer *peer)
{
    if (peer->fences_seen != orderer->fences_all) {
        peer->fences_seen = orderer->fences_all;
        peer->fence_due = true;
    }
    if (!peer->fence_due) {
        return PERSEUS_OK;
    }
    if (prs_mail_needs_flush(&peer->mail_out)) {
        enum perseus_status status = prs_mail_flush(orderer, peer);
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    if (!prs_epochs_can_end(&peer->epochs)) {
        return PERSEUS_AGAIN;
    }
    peer->fence_due = false;
    /* Completed is as good as ordered only where it means delivered. */
    bool delivered = orderer->caps.completion == PRS_COMPLETION_DELIVERED;
    if (peer->epochs.open > 0 || (!delivered && peer->epochs.used)) {
        peer->fence_after = prs_epochs_end(&peer->epochs);
        prs_count(&peer->counters.fences, 1);
    }
    return PERSEUS_OK;
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

static enum perseus_status flush_unacked(struct prs_orderer *orderer, struct prs_order_peer *only)
{
    struct prs_order_peer **link = &orderer->unacked_list;
    while (*link != NULL) {
        struct prs_order_peer *peer = *link;
        if (only != NULL && peer != only) {
            link = &peer->unacked_next;
            continue;
        }
        if (!peer->lost && prs_mail_needs_flush(&peer->mail_out)) {
            enum perseus_status status = prs_mail_flush(orderer, peer);
            if (status != PERSEUS_OK && status != PERSEUS_PEER_LOST) {
                return status;
            }
        }
        peer->unacked_listed = false;
        *link = peer->unacked_next;
    }
    return PERSEUS_OK;
}

static void quiet_complete(struct prs_orderer *orderer, uint32_t token)
{
    enum perseus_status status = orderer->quiet_status;
    orderer->quiet_status = PERSEUS_OK;
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
            quiet_complete(orderer, token);
            return PERSEUS_OK;
        }
    }
    struct prs_epochs *epochs = stall_epochs(orderer, peer);
    if (orderer->quiets_count == PRS_QUIETS_MAX || !prs_epochs_can_end(epochs)) {
        return PERSEUS_AGAIN;
    }
    enum perseus_status status = flush_unacked(orderer, peer);
    if (status != PERSEUS_OK) {
        return status;
    }
    uint64_t after = prs_epochs_end(epochs);
    if (prs_epochs_passed(epochs, after)) {
        quiet_complete(orderer, token);
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
        quiet_complete(orderer, quiet.token);
        did = true;
    }
    return did;
}
