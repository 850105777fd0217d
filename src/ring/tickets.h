/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring/tickets.h: completion slots through which a waiting producer hears from the proxy.
 *
 * A producer takes a ticket, puts its number in a descriptor, and polls it; the proxy completes it.
 * A producer that gives up (deadline) abandons the ticket: the proxy's completion then returns it
 * to the pool, so a late completion never touches freed memory.
 */
#ifndef PRS_RING_TICKETS_H
#define PRS_RING_TICKETS_H

#include <stdbool.h>
#include <stdint.h>

#include <perseus/status.h>

struct prs_tickets;

enum perseus_status prs_tickets_create(uint32_t count, struct prs_tickets **out);
void prs_tickets_destroy(struct prs_tickets *tickets); /* NULL allowed */
uint32_t prs_tickets_count(const struct prs_tickets *tickets);

/* Any thread. AGAIN when all are taken. */
enum perseus_status prs_ticket_take(struct prs_tickets *tickets, uint32_t *out);
/* The taker. Whether the ticket is complete; then *out_status and *out_result (both may be NULL)
 * are set and the ticket is free again. Acquire: what the proxy wrote before completing is
 * readable. */
bool prs_ticket_poll(struct prs_tickets *tickets, uint32_t ticket, enum perseus_status *out_status,
                     uint64_t *out_result);
/* The taker, instead of polling on: the ticket frees itself when completed. */
void prs_ticket_abandon(struct prs_tickets *tickets, uint32_t ticket);
/* The taker, when the descriptor was never pushed. */
void prs_ticket_give_back(struct prs_tickets *tickets, uint32_t ticket);
/* The proxy, once per taken ticket. A number that no taker holds is ignored: a descriptor can carry
 * any. */
void prs_ticket_complete(struct prs_tickets *tickets, uint32_t ticket, enum perseus_status status,
                         uint64_t result);
/* Owner, after the proxy stopped and while no thread takes or gives back: completes every ticket
 * still taken with `status`. */
void prs_tickets_cancel(struct prs_tickets *tickets, enum perseus_status status);

#endif
