/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/sources.h"

#include <stdatomic.h>
#include <stdlib.h>

#define TOKEN_SOURCE_SHIFT 24

_Static_assert(PRS_DESC_TICKET_END == UINT32_C(1) << TOKEN_SOURCE_SHIFT, "tickets leave room");
_Static_assert(PRS_SOURCES_MAX < 255, "no token of a source is PRS_DESC_NO_TICKET");

/* EMPTY --add--> LIVE --remove--> LEAVING --the proxy has answered all--> GONE --remove--> EMPTY */
enum source_state { EMPTY, LIVE, LEAVING, GONE };

struct prs_source {
    _Atomic uint32_t state; /* enum source_state */
    uint32_t number;
    struct prs_ring *ring, own_view;
    struct prs_tickets *tickets; /* or answers */
    struct prs_answers *answers;
    uint64_t open; /* tickets with the orderer */
    struct prs_source_place place;
};

struct prs_sources {
    struct prs_source at[PRS_SOURCES_MAX];
    _Atomic uint32_t used; /* sources from here on have never been; never falls */
};

enum perseus_status prs_sources_create(struct prs_ring *ring, struct prs_tickets *tickets,
                                       struct prs_sources **out)
{
    if (prs_tickets_count(tickets) > PRS_DESC_TICKET_END) {
        return PERSEUS_INVALID_ARGUMENT;
    }
    struct prs_sources *sources = calloc(1, sizeof *sources);
    if (sources == NULL) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    sources->at[0].ring = ring;
    sources->at[0].tickets = tickets;
    atomic_init(&sources->at[0].state, LIVE);
    atomic_init(&sources->used, 1);
    *out = sources;
    return PERSEUS_OK;
}

void prs_sources_destroy(struct prs_sources *sources)
{
    free(sources);
}

enum perseus_status prs_sources_add(struct prs_sources *sources, const struct prs_ring *ring,
                                    struct prs_answers *answers, uint32_t *out_number)
{
    for (uint32_t i = 1; i < PRS_SOURCES_MAX; i++) {
        struct prs_source *source = &sources->at[i];
        if (atomic_load_explicit(&source->state, memory_order_relaxed) != EMPTY) {
            continue;
        }
        source->number = i;
        source->own_view = *ring;
        source->ring = &source->own_view;
        source->answers = answers;
        source->open = 0;
        source->place = (struct prs_source_place){.held = false};
        /* Release: with prs_source_at. */
        atomic_store_explicit(&source->state, LIVE, memory_order_release);
        if (atomic_load_explicit(&sources->used, memory_order_relaxed) <= i) {
            /* Relaxed: the proxy looks at `state` next, which pairs; a step later will do. */
            atomic_store_explicit(&sources->used, i + 1, memory_order_relaxed);
        }
        *out_number = i;
        return PERSEUS_OK;
    }
    return PERSEUS_LIMIT;
}

enum perseus_status prs_sources_remove(struct prs_sources *sources, uint32_t number)
{
    struct prs_source *source = &sources->at[number];
    /* Acquire: with the GONE of prs_source_at; the proxy touches its ring and answers no more. */
    uint32_t state = atomic_load_explicit(&source->state, memory_order_acquire);
    if (state == LIVE) {
        atomic_store_explicit(&source->state, LEAVING, memory_order_relaxed);
    }
    if (state != GONE) {
        return PERSEUS_AGAIN;
    }
    atomic_store_explicit(&source->state, EMPTY, memory_order_relaxed);
    return PERSEUS_OK;
}

uint32_t prs_sources_used(const struct prs_sources *sources)
{
    return atomic_load_explicit(&sources->used, memory_order_relaxed);
}

struct prs_source *prs_source_at(struct prs_sources *sources, uint32_t number)
{
    struct prs_source *source = &sources->at[number];
    /* Acquire: with prs_sources_add. */
    uint32_t state = atomic_load_explicit(&source->state, memory_order_acquire);
    if (state == LEAVING && source->open == 0) {
        /* Release: with prs_sources_remove. */
        atomic_store_explicit(&source->state, GONE, memory_order_release);
    }
    return state == LIVE ? source : NULL;
}

bool prs_sources_can_wake(const struct prs_sources *sources)
{
    for (uint32_t i = 1; i < PRS_SOURCES_MAX; i++) {
        uint32_t state = atomic_load_explicit(&sources->at[i].state, memory_order_relaxed);
        if (state == LIVE || state == LEAVING) {
            return false;
        }
    }
    return true;
}

static void complete(struct prs_source *source, uint32_t ticket, enum perseus_status status,
                     uint64_t result)
{
    if (source->tickets != NULL) {
        prs_ticket_complete(source->tickets, ticket, status, result);
    } else {
        prs_answer_give(source->answers, ticket, status, result);
    }
}

void prs_sources_complete(void *context, uint32_t token, enum perseus_status status,
                          uint64_t result)
{
    struct prs_sources *sources = context;
    struct prs_source *source = &sources->at[token >> TOKEN_SOURCE_SHIFT];
    source->open--;
    complete(source, token & (PRS_DESC_TICKET_END - 1), status, result);
}

struct prs_ring *prs_source_ring(struct prs_source *source)
{
    return source->ring;
}

bool prs_source_ticket_valid(const struct prs_source *source, uint32_t ticket)
{
    return ticket == PRS_DESC_NO_TICKET ||
           (source->tickets != NULL ? ticket < prs_tickets_count(source->tickets)
                                    : prs_answers_valid(source->answers, ticket));
}

uint32_t prs_source_token(const struct prs_source *source, uint32_t ticket)
{
    return ticket == PRS_DESC_NO_TICKET ? ticket : ticket | source->number << TOKEN_SOURCE_SHIFT;
}

void prs_source_taken(struct prs_source *source, uint32_t ticket)
{
    source->open += ticket != PRS_DESC_NO_TICKET;
}

void prs_source_settle(struct prs_source *source, uint32_t ticket, enum perseus_status status)
{
    if (ticket != PRS_DESC_NO_TICKET) {
        complete(source, ticket, status, 0);
    }
}

struct prs_source_place *prs_source_place(struct prs_source *source)
{
    return &source->place;
}
