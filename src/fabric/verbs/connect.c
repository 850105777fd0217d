/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "fabric/verbs/internal.h"

#define FIRST_PAUSE_NS UINT64_C(10000000) /* between a request and the next; doubles */
#define PAUSE_MAX_NS   UINT64_C(500000000)
#define CONNECT_MAX_NS UINT64_C(60000000000) /* callers have shorter deadlines of their own */
#define RETURN_NS      UINT64_C(500000000)   /* an ended peer's acknowledgments are here then */
#define GOODBYE_POLLS  100000u
#define LOOKS_A_POLL   8u
#define PSN_MASK       0xffffffu
#define RIGHTS         (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static uint64_t now_ns(const struct prs_verbs_endpoint *endpoint)
{
    return prs_clock_now_ns(&prs_verbs_of(endpoint)->clock);
}

static void set_timed(struct prs_verbs_endpoint *endpoint, struct prs_verbs_peer *peer,
                      bool is_timed)
{
    endpoint->timed_count += is_timed;
    endpoint->timed_count -= peer->is_timed;
    peer->is_timed = is_timed;
}

static void stop_queues(const struct prs_verbs_endpoint *endpoint, struct prs_verbs_peer *peer)
{
    for (uint32_t i = 0; i < endpoint->base.fabric->caps.lanes_max; i++) {
        prs_verbs_queue_stop(peer->queues[i]);
    }
}

static uint32_t in_flight(const struct prs_verbs_endpoint *endpoint,
                          const struct prs_verbs_peer *peer)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < endpoint->base.fabric->caps.lanes_max; i++) {
        n += peer->queues[i]->posted - peer->queues[i]->reported;
    }
    return (uint32_t)n;
}

void prs_verbs_peer_lose(struct prs_verbs_endpoint *endpoint, struct prs_verbs_peer *peer,
                         const char *why)
{
    if (peer->state == PRS_VERBS_LOST) {
        return;
    }
    const struct prs_verbs_fabric *fabric = prs_verbs_of(endpoint);
    prs_log(fabric->log, fabric->loss_level, "peer %u is lost: %s (%s); nothing more is sent to it",
            peer->number, why, fabric->base.caps.provider);
    bool was_ready = peer->state == PRS_VERBS_READY;
    peer->state = PRS_VERBS_LOST;
    stop_queues(endpoint, peer);
    set_timed(endpoint, peer, false);
    for (uint32_t i = 0; was_ready && i < fabric->base.caps.lanes_max; i++) {
        prs_verbs_queue_break(endpoint, peer->queues[i]);
    }
}

/* ---- who connects ---- */

static struct prs_verbs_message request_of(const struct prs_verbs_endpoint *endpoint,
                                           const struct prs_verbs_peer *peer)
{
    const struct prs_verbs_fabric *fabric = prs_verbs_of(endpoint);
    struct prs_verbs_message message = {
        .magic = PRS_VERBS_MAGIC,
        .kind = PRS_VERBS_REQUEST,
        .lanes = (uint8_t)fabric->base.caps.lanes_max,
        .mtu = (uint8_t)fabric->device.mtu,
        .rd_atomic = (uint8_t)fabric->device.attr.max_qp_init_rd_atom,
        .from = endpoint->id,
        .to = peer->address.id,
        .peer = peer->number,
        .psn = peer->psn,
        .route = prs_verbs_route(endpoint),
    };
    for (uint32_t i = 0; i < message.lanes; i++) {
        message.qp[i] = peer->queues[i]->qp->qp_num;
    }
    return message;
}

static void send_request(struct prs_verbs_endpoint *endpoint, struct prs_verbs_peer *peer)
{
    struct prs_verbs_message message = request_of(endpoint, peer);
    prs_verbs_message_sign(&message, peer->address.key);
    prs_verbs_datagram_send(endpoint, &peer->address.route, &message);
}

static enum perseus_status check_address(const struct prs_verbs_endpoint *endpoint,
                                         const void *bytes, size_t n, struct prs_verbs_address *out)
{
    const struct prs_verbs_fabric *fabric = prs_verbs_of(endpoint);
    if (n == sizeof *out) {
        memcpy(out, bytes, n);
        if (out->magic == PRS_VERBS_MAGIC && out->route.is_ethernet == fabric->device.is_ethernet) {
            return PERSEUS_OK;
        }
    }
    return prs_fail(fabric->log, PERSEUS_PROTOCOL,
                    "what a peer sent as its address is not one of %s's: give every PE the same "
                    "Perseus, and devices of one kind (PERSEUS_IB_HCA)",
                    fabric->base.caps.provider);
}

/* Room for one more peer and its queues, so that what follows cannot fail for want of it. */
static bool make_room(struct prs_verbs_endpoint *endpoint, uint32_t lanes)
{
    if (endpoint->peer_count == endpoint->peer_room) {
        uint32_t room = endpoint->peer_room == 0 ? 8 : 2 * endpoint->peer_room;
        void *peers = realloc((void *)endpoint->peers, room * sizeof *endpoint->peers);
        if (peers == NULL) {
            return false;
        }
        endpoint->peers = peers;
        endpoint->peer_room = room;
    }
    if (endpoint->queue_count + lanes > endpoint->queue_room) {
        uint32_t room = 2 * (endpoint->queue_room + lanes);
        void *queues = realloc((void *)endpoint->queues, room * sizeof *endpoint->queues);
        if (queues == NULL) {
            return false;
        }
        endpoint->queues = queues;
        endpoint->queue_room = room;
    }
    return true;
}

static void free_peer(struct prs_verbs_endpoint *endpoint, struct prs_verbs_peer *peer)
{
    for (uint32_t i = 0; i < PRS_VERBS_LANES_MAX; i++) {
        prs_verbs_queue_close(endpoint, peer->queues[i]);
    }
    free(peer);
}

enum perseus_status prs_verbs_connect(struct prs_endpoint *base, const void *address, size_t bytes,
                                      uint32_t *out_peer)
{
    struct prs_verbs_endpoint *endpoint = (struct prs_verbs_endpoint *)base;
    const struct prs_log *log = prs_verbs_of(endpoint)->log;
    uint32_t lanes = base->fabric->caps.lanes_max;
    struct prs_verbs_address theirs;
    enum perseus_status status = check_address(endpoint, address, bytes, &theirs);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_verbs_peer *peer = calloc(1, sizeof *peer);
    if (peer == NULL || !make_room(endpoint, lanes) ||
        !prs_random_fill(&peer->psn, sizeof peer->psn)) {
        free(peer);
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for peer %u", endpoint->peer_count);
    }
    peer->address = theirs;
    peer->psn &= PSN_MASK;
    peer->number = endpoint->peer_count;
    for (uint8_t i = 0; i < lanes && status == PERSEUS_OK; i++) {
        status = prs_verbs_queue_open(endpoint, peer, i, &peer->queues[i]);
    }
    if (status != PERSEUS_OK) {
        free_peer(endpoint, peer);
        return status;
    }
    for (uint32_t i = 0; i < lanes; i++) {
        prs_verbs_queue_enter(peer->queues[i], endpoint->queue_count);
        endpoint->queues[endpoint->queue_count++] = peer->queues[i];
    }
    endpoint->peers[endpoint->peer_count++] = peer;
    peer->since_ns = now_ns(endpoint);
    peer->pause_ns = FIRST_PAUSE_NS;
    peer->next_ns = peer->since_ns + peer->pause_ns;
    set_timed(endpoint, peer, true);
    send_request(endpoint, peer);
    *out_peer = peer->number;
    return PERSEUS_OK;
}

/* Their queue pairs are ready: ours may send. */
static void hear_accept(struct prs_verbs_endpoint *endpoint,
                        const struct prs_verbs_message *message)
{
    const struct prs_verbs_fabric *fabric = prs_verbs_of(endpoint);
    uint32_t lanes = fabric->base.caps.lanes_max;
    struct prs_verbs_peer *peer = endpoint->peers[message->peer];
    if (peer->state != PRS_VERBS_CONNECTING || message->lanes != lanes) {
        return; /* an answer that was sent twice */
    }
    uint32_t mine = (uint32_t)fabric->device.attr.max_qp_init_rd_atom;
    uint8_t rd_atomic = (uint8_t)(message->rd_atomic < mine ? message->rd_atomic : mine);
    int error = 0;
    for (uint32_t i = 0; i < lanes && error == 0; i++) {
        struct ibv_qp *qp = peer->queues[i]->qp;
        error = prs_verbs_qp_receive(endpoint, qp, &message->route, message->qp[i], message->psn,
                                     message->mtu, 0);
        error = error == 0 ? prs_verbs_qp_send(endpoint, qp, peer->psn, rd_atomic) : error;
    }
    if (error != 0) {
        char why[128];
        snprintf(why, sizeof why, "no connection: %s", strerror(error));
        prs_verbs_peer_lose(endpoint, peer, why);
        return;
    }
    peer->state = PRS_VERBS_READY;
    for (uint32_t i = 0; i < lanes && !peer->ended; i++) {
        prs_verbs_queue_start(peer->queues[i]);
    }
    set_timed(endpoint, peer, false);
}

/* ---- who is connected to ---- */

static struct prs_verbs_guest *find_guest(const struct prs_verbs_endpoint *endpoint,
                                          const struct prs_verbs_message *message)
{
    struct prs_verbs_guest *guest = endpoint->guests;
    while (guest != NULL && (guest->from != message->from || guest->peer != message->peer)) {
        guest = guest->next;
    }
    return guest;
}

static void close_guest(struct prs_verbs_endpoint *endpoint, struct prs_verbs_guest *guest)
{
    for (uint32_t i = 0; i < PRS_VERBS_LANES_MAX; i++) {
        if (guest->qps[i] != NULL) {
            prs_verbs_of(endpoint)->library->destroy_qp(guest->qps[i]);
            guest->qps[i] = NULL;
        }
    }
}

/* One queue pair for one of theirs, ready to receive. */
static int open_guest_lane(struct prs_verbs_endpoint *endpoint, struct prs_verbs_guest *guest,
                           const struct prs_verbs_message *message, uint32_t lane)
{
    const struct prs_verbs_fabric *fabric = prs_verbs_of(endpoint);
    struct ibv_qp_init_attr attr = {
        .send_cq = endpoint->sends,
        .recv_cq = endpoint->arrivals,
        .srq = endpoint->srq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 1, .max_send_sge = 1},
    };
    struct ibv_qp *qp = fabric->library->create_qp(fabric->pd, &attr);
    if (qp == NULL) {
        return errno;
    }
    guest->qps[lane] = qp;
    guest->accept.qp[lane] = qp->qp_num;
    int error = prs_verbs_qp_init(endpoint, qp, RIGHTS);
    return error != 0 ? error
                      : prs_verbs_qp_receive(endpoint, qp, &message->route, message->qp[lane],
                                             message->psn, message->mtu, guest->accept.rd_atomic);
}

static struct prs_verbs_guest *open_guest(struct prs_verbs_endpoint *endpoint,
                                          const struct prs_verbs_message *message)
{
    const struct prs_verbs_fabric *fabric = prs_verbs_of(endpoint);
    struct prs_verbs_guest *guest = calloc(1, sizeof *guest);
    int error = guest == NULL ? ENOMEM : 0;
    if (error == 0) {
        guest->from = message->from;
        guest->peer = message->peer;
        guest->route = message->route;
        guest->accept = *message;
        guest->accept.kind = PRS_VERBS_ACCEPT;
        guest->accept.mtu = (uint8_t)fabric->device.mtu;
        guest->accept.rd_atomic = (uint8_t)fabric->device.attr.max_qp_rd_atom;
        guest->accept.route = prs_verbs_route(endpoint);
    }
    for (uint32_t i = 0; i < message->lanes && error == 0; i++) {
        error = open_guest_lane(endpoint, guest, message, i);
    }
    if (error != 0) {
        prs_log(fabric->log, PERSEUS_LOG_ERROR,
                "%s cannot make a queue pair for a peer that connects: %s; it will ask again",
                fabric->device.name, strerror(error));
        if (guest != NULL) {
            close_guest(endpoint, guest);
            free(guest);
        }
        return NULL;
    }
    prs_verbs_message_sign(&guest->accept, endpoint->key);
    guest->next = endpoint->guests;
    endpoint->guests = guest;
    return guest;
}

static void hear_request(struct prs_verbs_endpoint *endpoint,
                         const struct prs_verbs_message *message)
{
    struct prs_verbs_guest *guest = find_guest(endpoint, message);
    if (guest == NULL) {
        guest = open_guest(endpoint, message);
    }
    if (guest != NULL && guest->qps[0] != NULL) {
        prs_verbs_datagram_send(endpoint, &guest->route, &guest->accept);
    }
}

/* ---- both ---- */

static void hear_bye(struct prs_verbs_endpoint *endpoint, const struct prs_verbs_message *message)
{
    if (!message->of_accepter) {
        struct prs_verbs_guest *guest = find_guest(endpoint, message);
        if (guest != NULL) {
            close_guest(endpoint, guest); /* it stays, so that no request opens it again */
        }
        return;
    }
    struct prs_verbs_peer *peer = endpoint->peers[message->peer];
    if (!peer->ended && peer->state != PRS_VERBS_LOST) {
        peer->ended = true;
        stop_queues(endpoint, peer);
        peer->since_ns = now_ns(endpoint);
        /* Without business between us its end is none of ours: it may have finished before us. */
        set_timed(endpoint, peer, in_flight(endpoint, peer) > 0);
    }
}

void prs_verbs_connect_hear(struct prs_verbs_endpoint *endpoint,
                            const struct prs_verbs_message *message)
{
    bool is_answer = message->kind == PRS_VERBS_ACCEPT ||
                     (message->kind == PRS_VERBS_BYE && message->of_accepter != 0);
    const unsigned char *key = endpoint->key;
    if (is_answer) {
        if (message->from != endpoint->id || message->peer >= endpoint->peer_count ||
            endpoint->peers[message->peer]->address.id != message->to) {
            return;
        }
        key = endpoint->peers[message->peer]->address.key;
    } else if (message->to != endpoint->id) {
        return;
    }
    if (!prs_verbs_message_is_genuine(message, key)) {
        return;
    }
    switch ((enum prs_verbs_message_kind)message->kind) {
    case PRS_VERBS_REQUEST:
        hear_request(endpoint, message);
        break;
    case PRS_VERBS_ACCEPT:
        hear_accept(endpoint, message);
        break;
    case PRS_VERBS_BYE:
        hear_bye(endpoint, message);
        break;
    }
}

static void look_at(struct prs_verbs_endpoint *endpoint, struct prs_verbs_peer *peer, uint64_t now)
{
    if (peer->ended) {
        if (peer->state == PRS_VERBS_CONNECTING || now - peer->since_ns >= RETURN_NS) {
            prs_verbs_peer_lose(endpoint, peer, "it has closed its endpoint");
        }
        return;
    }
    if (now - peer->since_ns >= CONNECT_MAX_NS) {
        prs_verbs_peer_lose(endpoint, peer, "it has not answered for 60 seconds");
    } else if (now >= peer->next_ns) {
        peer->pause_ns = 2 * peer->pause_ns < PAUSE_MAX_NS ? 2 * peer->pause_ns : PAUSE_MAX_NS;
        peer->next_ns = now + peer->pause_ns;
        send_request(endpoint, peer);
    }
}

void prs_verbs_connect_pump(struct prs_verbs_endpoint *endpoint)
{
    uint64_t now = now_ns(endpoint);
    for (uint32_t i = 0; i < LOOKS_A_POLL && i < endpoint->peer_count; i++) {
        struct prs_verbs_peer *peer =
            endpoint->peers[endpoint->timed_next++ % endpoint->peer_count];
        if (peer->is_timed) {
            look_at(endpoint, peer, now);
        }
    }
}

/* ---- the end ---- */

static void say_bye(struct prs_verbs_endpoint *endpoint, const struct prs_verbs_route *route,
                    struct prs_verbs_message message, bool of_accepter, const unsigned char *key)
{
    message.kind = PRS_VERBS_BYE;
    message.of_accepter = of_accepter;
    prs_verbs_message_sign(&message, key);
    prs_verbs_datagram_send(endpoint, route, &message);
    prs_verbs_arrivals_read(endpoint, NULL, 1); /* makes room for the next */
}

static bool is_talking(const struct prs_verbs_endpoint *endpoint)
{
    bool busy = false;
    for (uint32_t i = 0; i < PRS_VERBS_DATAGRAMS; i++) {
        busy |= endpoint->talk->sent[i].ah != NULL;
    }
    return busy;
}

void prs_verbs_connections_close(struct prs_verbs_endpoint *endpoint)
{
    for (uint32_t i = 0; i < endpoint->peer_count; i++) {
        struct prs_verbs_peer *peer = endpoint->peers[i];
        if (!peer->ended) {
            say_bye(endpoint, &peer->address.route, request_of(endpoint, peer), false,
                    peer->address.key);
        }
    }
    for (struct prs_verbs_guest *guest = endpoint->guests; guest != NULL; guest = guest->next) {
        if (guest->qps[0] != NULL) {
            say_bye(endpoint, &guest->route, guest->accept, true, endpoint->key);
        }
    }
    /* They are gone with the queue pair: the last ones get a moment to leave. */
    for (uint32_t i = 0; endpoint->peer_count > 0 && i < GOODBYE_POLLS && is_talking(endpoint);
         i++) {
        prs_verbs_arrivals_read(endpoint, NULL, 1);
    }
    for (uint32_t i = 0; i < endpoint->peer_count; i++) {
        free_peer(endpoint, endpoint->peers[i]);
    }
    while (endpoint->guests != NULL) {
        struct prs_verbs_guest *guest = endpoint->guests;
        endpoint->guests = guest->next;
        close_guest(endpoint, guest);
        free(guest);
    }
    free((void *)endpoint->peers);
    free((void *)endpoint->queues);
}
