/* SPDX-License-Identifier: Apache-2.0 */
/* park.c: operations that wait in their peer's queue, and the peers whose queues may move. */
#include "order/engine.h"

#define TRIES_A_STEP 2u /* peers that turn out to have to wait on, in one step */

bool prs_order_can_park(const struct prs_orderer *orderer, const struct prs_order_peer *peer)
{
    return peer->parked_count < orderer->config.parked_max;
}

struct prs_pending *prs_order_parked_head(struct prs_orderer *orderer,
                                          const struct prs_order_peer *peer)
{
    return peer->parked_count == 0 ? NULL : &orderer->pools.pendings[peer->parked_first];
}

struct prs_pending *prs_order_parked_tail(struct prs_orderer *orderer,
                                          const struct prs_order_peer *peer)
{
    return peer->parked_count == 0 ? NULL : &orderer->pools.pendings[peer->parked_last];
}

void prs_order_park(struct prs_orderer *orderer, struct prs_order_peer *peer,
                    struct prs_pending *pending)
{
    uint32_t index = prs_pending_index(orderer, pending);
    pending->next = PRS_NONE;
    if (peer->parked_count == 0) {
        peer->parked_first = index;
    } else {
        orderer->pools.pendings[peer->parked_last].next = index;
    }
    peer->parked_last = index;
    peer->parked_count++;
}

void prs_order_seal(struct prs_orderer *orderer, const struct prs_order_peer *peer)
{
    struct prs_pending *tail = prs_order_parked_tail(orderer, peer);
    if (tail != NULL) {
        tail->gathers = false;
    }
}

void prs_order_unpark(struct prs_orderer *orderer, struct prs_order_peer *peer)
{
    peer->parked_first = orderer->pools.pendings[peer->parked_first].next;
    peer->parked_count--;
}

static void append_ready(struct prs_orderer *orderer, struct prs_order_peer *peer)
{
    struct prs_peer_list *ready = &orderer->ready;
    peer->ready_listed = true;
    peer->ready_next = NULL;
    if (ready->first == NULL) {
        ready->first = peer;
    } else {
        ready->last->ready_next = peer;
    }
    ready->last = peer;
}

void prs_order_wake(struct prs_orderer *orderer, struct prs_order_peer *peer)
{
    if (peer->parked_count > 0 && !peer->ready_listed) {
        append_ready(orderer, peer);
    }
}

/* Posts what may go. Returns whether its head must be tried again without an event of its own: the
 * fabric refused it, or a drain holds it, which other peers end. */
static bool pump_peer(struct prs_orderer *orderer, struct prs_order_peer *peer, bool *did)
{
    struct prs_pending *head;
    while ((head = prs_order_parked_head(orderer, peer)) != NULL) {
        uint32_t behind = head->next;
        bool wait;
        enum perseus_status status = prs_order_try(orderer, peer, head, &wait);
        if (status == PERSEUS_AGAIN) {
            peer->refused = !wait;
            return !wait || orderer->stall.active;
        }
        *did = true;
        if (status != PERSEUS_OK) {
            return false; /* the peer failed, and with it all that was parked */
        }
        peer->parked_first = behind; /* posted, it stands in other lists */
        peer->parked_count--;
        peer->refused = false;
    }
    return false;
}

bool prs_order_pump_parked(struct prs_orderer *orderer)
{
    struct prs_peer_list *ready = &orderer->ready;
    struct prs_order_peer *last = ready->last;
    bool did = false;
    for (uint32_t tries = 0; ready->first != NULL && tries < TRIES_A_STEP;) {
        struct prs_order_peer *peer = ready->first;
        ready->first = peer->ready_next;
        peer->ready_listed = false;
        if (pump_peer(orderer, peer, &did) && !peer->ready_listed) {
            append_ready(orderer, peer);
            tries++;
        }
        if (peer == last) {
            break;
        }
    }
    return did;
}
