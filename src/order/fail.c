/* SPDX-License-Identifier: Apache-2.0 */
/* fail.c: how a peer fails, and how long it may owe something without moving. */
#include "order/engine.h"

#define LOOKS_A_STEP     8u
#define LOOKS_TO_GIVE_UP 16u
#define PROBE_NS         UINT64_C(20000000)

enum perseus_status prs_order_peer_check(const struct prs_order_peer *peer)
{
    switch (peer->status) {
    case PERSEUS_IO:
    case PERSEUS_CANCELED:
    case PERSEUS_TIMEOUT:
        return PERSEUS_PEER_LOST;
    default:
        return peer->status;
    }
}

static void log_failure(const struct prs_orderer *orderer, const struct prs_order_peer *peer,
                        enum perseus_status why)
{
    if (prs_order_peer_check(peer) == PERSEUS_PEER_LOST) {
        prs_log(orderer->config.log, PERSEUS_LOG_ERROR,
                "peer PE %u is lost (%s): its outstanding operations end with an error; other "
                "peers go on. Look at that PE's own output for the cause",
                peer->rank, perseus_status_string(why));
        return;
    }
    prs_log(orderer->config.log, PERSEUS_LOG_ERROR,
            "an operation toward PE %u was refused (%s): nothing that came behind it is sent, and "
            "every later call toward that PE fails; other peers go on",
            peer->rank, perseus_status_string(why));
}

void prs_order_peer_fail(struct prs_orderer *orderer, struct prs_order_peer *peer,
                         enum perseus_status why)
{
    if (peer->status != PERSEUS_OK) {
        return;
    }
    peer->status = why;
    if (orderer->status == PERSEUS_OK) {
        orderer->status = why;
    }
    log_failure(orderer, peer, why);
    enum perseus_status told = prs_order_peer_check(peer);
    struct prs_pending *pending;
    while ((pending = prs_order_parked_head(orderer, peer)) != NULL) {
        prs_order_unpark(orderer, peer);
        prs_pending_give_up(orderer, pending, told);
    }
    prs_order_disprove(orderer, peer, told);
    uint32_t index = peer->mail_out.first_open;
    peer->mail_out.first_open = PRS_NONE;
    while (index != PRS_NONE) {
        pending = &orderer->pools.pendings[index];
        index = pending->next;
        prs_pending_clear(orderer, pending, PRS_WAIT_ANSWER, told);
    }
}

void prs_orderer_refuse(struct prs_orderer *orderer, uint32_t rank, enum perseus_status why)
{
    struct prs_order_peer *peer;
    if (rank < orderer->config.n_peers && prs_order_peer_get(orderer, rank, &peer) == PERSEUS_OK) {
        prs_order_peer_fail(orderer, peer, why);
    }
    orderer->status = orderer->status == PERSEUS_OK ? why : orderer->status;
}

/* ---- the deadline ---- */

/* A peer is held to the time in which this PE looked: one that was stopped, stood in a debugger or
 * slept with its host has seen nothing of what came meanwhile. So the clock goes on by at most a
 * share of the deadline between two looks. */
void prs_order_watch_clock(struct prs_orderer *orderer)
{
    uint64_t now_ns = prs_clock_now_ns(&orderer->config.clock);
    uint64_t step_ns = now_ns - orderer->looked_ns;
    uint64_t most_ns = orderer->config.timeout_ns / LOOKS_TO_GIVE_UP;
    orderer->looked_ns = now_ns;
    orderer->now_ns += step_ns < most_ns ? step_ns : most_ns;
}

static bool owes(const struct prs_orderer *orderer, const struct prs_order_peer *peer)
{
    const struct prs_mail_in *in = orderer->mail_in[peer->rank];
    return peer->epochs.open > peer->parked_count || (peer->refused && peer->parked_count > 0) ||
           peer->flush_sequence != 0 || (in != NULL && in->answer_in_flight);
}

static void append_watched(struct prs_orderer *orderer, struct prs_order_peer *peer)
{
    struct prs_peer_list *watched = &orderer->watched;
    peer->watch_listed = true;
    peer->watch_next = NULL;
    peer->watched_ns = peer->moved_ns;
    if (watched->first == NULL) {
        watched->first = peer;
    } else {
        watched->last->watch_next = peer;
    }
    watched->last = peer;
}

void prs_order_peer_watch(struct prs_orderer *orderer, struct prs_order_peer *peer)
{
    bool never = orderer->config.timeout_ns == UINT64_MAX && !orderer->caps.completes_early;
    if (peer->watch_listed || never) {
        return;
    }
    if (orderer->watched.first == NULL) {
        orderer->looked_ns = prs_clock_now_ns(&orderer->config.clock); /* nobody looked till now */
    }
    peer->moved_ns = orderer->now_ns;
    append_watched(orderer, peer);
}

static struct prs_pending *oldest_open(const struct prs_order_peer *peer)
{
    struct prs_epoch_member *oldest = peer->epochs.oldest;
    return oldest == NULL ? NULL : (void *)((char *)oldest - offsetof(struct prs_pending, of_peer));
}

/* It moves, but the oldest that it owes is an answer, and has been for too long: its NIC takes
 * puts, and nobody there applies records, or cannot. */
static bool owes_an_answer_for_long(const struct prs_orderer *orderer, struct prs_order_peer *peer)
{
    const struct prs_pending *oldest = oldest_open(peer);
    uint64_t record = oldest != NULL && oldest->waits == PRS_WAIT_ANSWER ? oldest->number + 1 : 0;
    if (record != peer->owed_record) {
        peer->owed_record = record;
        peer->owed_ns = orderer->now_ns;
    }
    return record != 0 && orderer->now_ns - peer->owed_ns >= orderer->config.timeout_ns;
}

/* Everything of it is told now; the fabric may still have it. */
static void give_up(struct prs_orderer *orderer, struct prs_order_peer *peer)
{
    prs_log(orderer->config.log, PERSEUS_LOG_ERROR,
            "PE %u has not answered for %llu ms: %u operations toward it are given up. See whether "
            "it is alive and polls, or raise PERSEUS_PEER_TIMEOUT_MS",
            peer->rank, (unsigned long long)(orderer->config.timeout_ns / 1000000),
            peer->epochs.open);
    prs_order_peer_fail(orderer, peer, PERSEUS_PEER_LOST);
    struct prs_pending *pending;
    while ((pending = oldest_open(peer)) != NULL) {
        prs_pending_give_up(orderer, pending, prs_order_peer_check(peer));
    }
    peer->flush_sequence = 0;
    struct prs_mail_in *in = orderer->mail_in[peer->rank];
    if (in != NULL) {
        in->answer_in_flight = false;
    }
}

/* Of what completed early no error will tell. So whoever owes something and has been silent for a
 * while is sent what asks for its delivery: its error ends the peer, long before the deadline. */
static void probe_silent(struct prs_orderer *orderer)
{
    struct prs_order_peer *peer = orderer->watched.first;
    for (uint32_t i = 0; i < LOOKS_A_STEP && peer != NULL; i++) {
        struct prs_order_peer *next = peer->watch_next;
        bool silent = peer->moved_ns <= peer->watched_ns &&
                      orderer->now_ns - peer->watched_ns >= PROBE_NS && owes(orderer, peer);
        if (silent && peer->status == PERSEUS_OK && peer->control != NULL &&
            peer->flush_sequence == 0) {
            prs_order_flush_peer(orderer, peer);
        }
        peer = next;
    }
}

bool prs_order_watch(struct prs_orderer *orderer)
{
    struct prs_peer_list *watched = &orderer->watched;
    bool did = false;
    if (orderer->caps.completes_early) {
        probe_silent(orderer);
    }
    for (uint32_t i = 0; i < LOOKS_A_STEP && watched->first != NULL; i++) {
        struct prs_order_peer *peer = watched->first;
        bool late = orderer->now_ns - peer->watched_ns >= orderer->config.timeout_ns;
        if (!late && i > 0) {
            break; /* those behind it have moved since */
        }
        bool moved = peer->moved_ns > peer->watched_ns;
        if (owes(orderer, peer) && !moved && !late) {
            break;
        }
        watched->first = peer->watch_next;
        peer->watch_listed = false;
        bool ends = owes(orderer, peer) && (!moved || owes_an_answer_for_long(orderer, peer));
        if (ends) {
            give_up(orderer, peer);
            did = true;
        } else if (owes(orderer, peer)) {
            append_watched(orderer, peer);
        }
    }
    return did;
}
