/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy/sources.h: who hands descriptors to a proxy, and who hears of their completion.
 *
 * Source 0 are the threads of the PE, with a ring they reach and tickets. Each further one is a
 * GPU, with a ring whose producers are out of reach, which therefore cannot wake the proxy, and
 * answers. Sources come and go while the proxy runs; each is one FIFO and they do not hold each
 * other up.
 */
#ifndef PRS_PROXY_SOURCES_H
#define PRS_PROXY_SOURCES_H

#include "ring/answers.h"
#include "ring/ring.h"
#include "ring/tickets.h"

#define PRS_SOURCES_MAX 8 /* a token has 8 bits for the source */

struct prs_source;
struct prs_sources;

/* Rings, tickets and answers are the caller's and outlive their source. */
enum perseus_status prs_sources_create(struct prs_ring *ring, struct prs_tickets *tickets,
                                       struct prs_sources **out);
/* After the proxy and the orderer that complete into them. NULL allowed. */
void prs_sources_destroy(struct prs_sources *sources);

/* Adds a GPU's. Any thread, one at a time; LIMIT when there are PRS_SOURCES_MAX. *ring is
 * copied. */
enum perseus_status prs_sources_add(struct prs_sources *sources, const struct prs_ring *ring,
                                    struct prs_answers *answers, uint32_t *out_number);
/* The same threads. AGAIN until the proxy has answered what it took of this source; from the first
 * call on it takes no more. */
enum perseus_status prs_sources_remove(struct prs_sources *sources, uint32_t number);

/* The orderer's completion callback, with the sources as context. */
void prs_sources_complete(void *sources, uint32_t token, enum perseus_status status,
                          uint64_t result);

/* ---- the proxy's side, its thread only ---- */

/* Sources of this number and above have never been added. */
uint32_t prs_sources_used(const struct prs_sources *sources);
/* The source if descriptors are to be taken from it now, or NULL. */
struct prs_source *prs_source_at(struct prs_sources *sources, uint32_t number);
/* Whether every source wakes the proxy after a push. */
bool prs_sources_can_wake(const struct prs_sources *sources);

struct prs_ring *prs_source_ring(struct prs_source *source);
bool prs_source_ticket_valid(const struct prs_source *source, uint32_t ticket);
/* The orderer's token for a ticket of this source. */
uint32_t prs_source_token(const struct prs_source *source, uint32_t ticket);
/* The orderer has taken a request with this ticket: it will complete it. */
void prs_source_taken(struct prs_source *source, uint32_t ticket);
/* A request ended before the orderer took it. */
void prs_source_settle(struct prs_source *source, uint32_t ticket, enum perseus_status status);

/* What the proxy remembers of a source between two steps. */
struct prs_source_place {
    bool held;         /* the ring's head got AGAIN in the last step */
    bool skips_values; /* the vector before the ring's head was malformed */
};
struct prs_source_place *prs_source_place(struct prs_source *source);

#endif
