/* SPDX-License-Identifier: Apache-2.0 */
#include "ring/tickets.h"

#include <stdatomic.h>
#include <stdlib.h>

#define PRS_TICKET_LINE 64
#define PRS_TICKET_NONE UINT32_MAX

/*
 *   FREE --take--> TAKEN --complete--> DONE --poll--> FREE
 *                    |  \--give back--> FREE
 *                    \--abandon--> ABANDONED --complete--> FREE
 *
 * The taker and the proxy race only in TAKEN; one compare-exchange decides who frees the ticket.
 */
enum prs_ticket_state { PRS_TICKET_FREE, PRS_TICKET_TAKEN, PRS_TICKET_DONE, PRS_TICKET_ABANDONED };

struct prs_ticket {
    _Alignas(PRS_TICKET_LINE) _Atomic uint32_t state;
    _Atomic uint32_t next;      /* in the free list */
    enum perseus_status status; /* the proxy's until DONE, then the taker's */
    uint64_t result;
};

/* Free tickets are a stack. Its top is a count of changes (high half) and a ticket (low half): the
 * count makes a compare-exchange fail when the same ticket came back in between. */
struct prs_tickets {
    uint32_t count;
    _Alignas(2 * PRS_TICKET_LINE) _Atomic uint64_t top;
    _Alignas(2 * PRS_TICKET_LINE) struct prs_ticket tickets[];
};

static uint64_t top_with(uint64_t before, uint32_t ticket)
{
    return ((before >> 32) + 1) << 32 | ticket;
}

static void free_ticket(struct prs_tickets *tickets, uint32_t index)
{
    struct prs_ticket *ticket = &tickets->tickets[index];
    atomic_store_explicit(&ticket->state, PRS_TICKET_FREE, memory_order_relaxed);
    uint64_t top = atomic_load_explicit(&tickets->top, memory_order_relaxed);
    do {
        atomic_store_explicit(&ticket->next, (uint32_t)top, memory_order_relaxed);
        /* Release: with prs_ticket_take, which reuses the slot. */
    } while (!atomic_compare_exchange_weak_explicit(&tickets->top, &top, top_with(top, index),
                                                    memory_order_release, memory_order_relaxed));
}

enum perseus_status prs_tickets_create(uint32_t count, struct prs_tickets **out)
{
    if (count == 0 || count == PRS_TICKET_NONE) {
        return PERSEUS_INVALID_ARGUMENT;
    }
    size_t bytes = sizeof(struct prs_tickets) + (count + (size_t)1) / 2 * 2 * PRS_TICKET_LINE;
    struct prs_tickets *tickets = aligned_alloc(2 * PRS_TICKET_LINE, bytes);
    if (tickets == NULL) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    tickets->count = count;
    atomic_init(&tickets->top, PRS_TICKET_NONE);
    for (uint32_t i = count; i-- > 0;) {
        atomic_init(&tickets->tickets[i].state, PRS_TICKET_FREE);
        free_ticket(tickets, i);
    }
    *out = tickets;
    return PERSEUS_OK;
}

void prs_tickets_destroy(struct prs_tickets *tickets)
{
    free(tickets);
}

uint32_t prs_tickets_count(const struct prs_tickets *tickets)
{
    return tickets->count;
}

enum perseus_status prs_ticket_take(struct prs_tickets *tickets, uint32_t *out)
{
    /* Acquire, here and on failure: with free_ticket, for `next`; the slot's last user is done
     * with it. */
    uint64_t top = atomic_load_explicit(&tickets->top, memory_order_acquire);
    uint32_t index;
    uint32_t next;
    do {
        index = (uint32_t)top;
        if (index == PRS_TICKET_NONE) {
            return PERSEUS_AGAIN;
        }
        next = atomic_load_explicit(&tickets->tickets[index].next, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak_explicit(&tickets->top, &top, top_with(top, next),
                                                    memory_order_acquire, memory_order_acquire));
    /* Release: with pending_ticket. */
    atomic_store_explicit(&tickets->tickets[index].state, PRS_TICKET_TAKEN, memory_order_release);
    *out = index;
    return PERSEUS_OK;
}

bool prs_ticket_poll(struct prs_tickets *tickets, uint32_t index, enum perseus_status *out_status,
                     uint64_t *out_result)
{
    struct prs_ticket *ticket = &tickets->tickets[index];
    /* Acquire: with prs_ticket_complete. */
    if (atomic_load_explicit(&ticket->state, memory_order_acquire) != PRS_TICKET_DONE) {
        return false;
    }
    if (out_status != NULL) {
        *out_status = ticket->status;
    }
    if (out_result != NULL) {
        *out_result = ticket->result;
    }
    free_ticket(tickets, index);
    return true;
}

void prs_ticket_abandon(struct prs_tickets *tickets, uint32_t index)
{
    uint32_t state = PRS_TICKET_TAKEN;
    /* Acquire, of use on failure only: with prs_ticket_complete, which has written the slot that is
     * freed here. */
    if (!atomic_compare_exchange_strong_explicit(&tickets->tickets[index].state, &state,
                                                 PRS_TICKET_ABANDONED, memory_order_acquire,
                                                 memory_order_acquire)) {
        free_ticket(tickets, index);
    }
}

void prs_ticket_give_back(struct prs_tickets *tickets, uint32_t index)
{
    free_ticket(tickets, index);
}

/* The ticket, if it is one that the proxy may write to: a descriptor can carry any number. */
static struct prs_ticket *pending_ticket(struct prs_tickets *tickets, uint32_t index)
{
    if (index >= tickets->count) {
        return NULL;
    }
    struct prs_ticket *ticket = &tickets->tickets[index];
    /* Acquire: with prs_ticket_take. */
    uint32_t state = atomic_load_explicit(&ticket->state, memory_order_acquire);
    return state == PRS_TICKET_TAKEN || state == PRS_TICKET_ABANDONED ? ticket : NULL;
}

void prs_ticket_complete(struct prs_tickets *tickets, uint32_t index, enum perseus_status status,
                         uint64_t result)
{
    struct prs_ticket *ticket = pending_ticket(tickets, index);
    if (ticket == NULL) {
        return;
    }
    ticket->status = status;
    ticket->result = result;
    uint32_t state = PRS_TICKET_TAKEN;
    /* Release: with prs_ticket_poll and the failing exchange of prs_ticket_abandon. Relaxed on
     * failure: the ring has carried all that the taker wrote to the slot. */
    if (!atomic_compare_exchange_strong_explicit(&ticket->state, &state, PRS_TICKET_DONE,
                                                 memory_order_release, memory_order_relaxed)) {
        free_ticket(tickets, index);
    }
}

void prs_tickets_cancel(struct prs_tickets *tickets, enum perseus_status status)
{
    for (uint32_t i = 0; i < tickets->count; i++) {
        prs_ticket_complete(tickets, i, status, 0);
    }
}
