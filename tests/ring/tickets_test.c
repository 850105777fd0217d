/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets: each free again exactly once, whoever wins the race between completing and giving up. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "ring/ring.h"
#include "ring/tickets.h"

#define TAKERS          4
#define ROUNDS          20000
#define JUGGLES         200000
#define CONTENDED_COUNT 6 /* fewer than the takers hold at times: abandoned ones linger */

static struct prs_tickets *tickets_of(uint32_t count)
{
    struct prs_tickets *tickets = NULL;
    assert_int_equal(prs_tickets_create(count, &tickets), PERSEUS_OK);
    assert_int_equal(prs_tickets_count(tickets), count);
    return tickets;
}

static uint32_t take(struct prs_tickets *tickets)
{
    uint32_t ticket = UINT32_MAX;
    assert_int_equal(prs_ticket_take(tickets, &ticket), PERSEUS_OK);
    return ticket;
}

/* Exactly `count` distinct tickets can be taken. Leaves them taken. */
static void assert_free(struct prs_tickets *tickets, uint32_t count)
{
    bool seen[64] = {false};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t ticket = take(tickets);
        assert_true(ticket < prs_tickets_count(tickets));
        assert_false(seen[ticket]);
        seen[ticket] = true;
    }
    uint32_t none = 12345;
    assert_int_equal(prs_ticket_take(tickets, &none), PERSEUS_AGAIN);
    assert_int_equal(none, 12345);
}

static void create_refuses_no_tickets(void **state)
{
    (void)state;
    struct prs_tickets *tickets = NULL;
    assert_int_equal(prs_tickets_create(0, &tickets), PERSEUS_INVALID_ARGUMENT);
    assert_int_equal(prs_tickets_create(UINT32_MAX, &tickets), PERSEUS_INVALID_ARGUMENT);
    assert_null(tickets);
    prs_tickets_destroy(NULL);
}

static void a_completed_ticket_tells_once_and_is_free(void **state)
{
    (void)state;
    struct prs_tickets *tickets = tickets_of(3);
    uint32_t ticket = take(tickets);
    enum perseus_status status = PERSEUS_INTERNAL;
    uint64_t result = 5;
    assert_false(prs_ticket_poll(tickets, ticket, &status, &result));
    assert_int_equal(status, PERSEUS_INTERNAL);
    prs_ticket_complete(tickets, ticket, PERSEUS_IO, 77);
    assert_true(prs_ticket_poll(tickets, ticket, &status, &result));
    assert_int_equal(status, PERSEUS_IO);
    assert_int_equal(result, 77);
    assert_free(tickets, 3);
    prs_tickets_destroy(tickets);
}

static void every_way_back_frees_once(void **state)
{
    (void)state;
    struct prs_tickets *tickets = tickets_of(5);
    uint32_t given_back = take(tickets), polled = take(tickets);
    uint32_t abandoned_before = take(tickets), abandoned_after = take(tickets);
    prs_ticket_give_back(tickets, given_back);
    prs_ticket_complete(tickets, polled, PERSEUS_OK, 0);
    assert_true(prs_ticket_poll(tickets, polled, NULL, NULL));
    prs_ticket_abandon(tickets, abandoned_before);
    assert_free(tickets, 3); /* neither of the other two is free yet */
    prs_ticket_complete(tickets, abandoned_before, PERSEUS_OK, 0);
    assert_int_equal(take(tickets), abandoned_before);
    prs_ticket_complete(tickets, abandoned_after, PERSEUS_OK, 0);
    prs_ticket_abandon(tickets, abandoned_after);
    assert_int_equal(take(tickets), abandoned_after);
    assert_free(tickets, 0);
    prs_tickets_destroy(tickets);
}

static void numbers_that_nobody_holds_are_ignored(void **state)
{
    (void)state;
    struct prs_tickets *tickets = tickets_of(2);
    prs_ticket_complete(tickets, 2, PERSEUS_OK, 0);
    prs_ticket_complete(tickets, UINT32_MAX, PERSEUS_OK, 0);
    prs_ticket_complete(tickets, 0, PERSEUS_OK, 0); /* free */
    uint32_t ticket = take(tickets);
    prs_ticket_complete(tickets, ticket, PERSEUS_OK, 1);
    prs_ticket_complete(tickets, ticket, PERSEUS_IO, 2); /* complete already */
    enum perseus_status status = PERSEUS_INTERNAL;
    uint64_t result = 0;
    assert_true(prs_ticket_poll(tickets, ticket, &status, &result));
    assert_int_equal(status, PERSEUS_OK);
    assert_int_equal(result, 1);
    assert_free(tickets, 2);
    prs_tickets_destroy(tickets);
}

static void cancel_completes_what_is_taken(void **state)
{
    (void)state;
    struct prs_tickets *tickets = tickets_of(4);
    uint32_t waiting = take(tickets), done = take(tickets), abandoned = take(tickets);
    prs_ticket_complete(tickets, done, PERSEUS_OK, 3);
    prs_ticket_abandon(tickets, abandoned);
    prs_tickets_cancel(tickets, PERSEUS_CANCELED);
    enum perseus_status status = PERSEUS_INTERNAL;
    assert_true(prs_ticket_poll(tickets, waiting, &status, NULL));
    assert_int_equal(status, PERSEUS_CANCELED);
    assert_true(prs_ticket_poll(tickets, done, &status, NULL));
    assert_int_equal(status, PERSEUS_OK);
    assert_free(tickets, 4);
    prs_tickets_destroy(tickets);
}

/* ---- races ---- */

struct race {
    struct prs_ring *ring;
    struct prs_tickets *tickets;
    atomic_uint running;
};

struct taker {
    struct race *race;
    uint64_t seed;
    pthread_t thread;
};

/* The taker's failure ends the program: the others wait for it. */
static void race_failed(const char *what, uint64_t seed)
{
    fprintf(stderr, "%s (seed %llu)\n", what, (unsigned long long)seed);
    _exit(1);
}

static uint32_t race_take(struct race *race)
{
    uint32_t ticket = 0;
    while (prs_ticket_take(race->tickets, &ticket) != PERSEUS_OK) {
        sched_yield();
    }
    return ticket;
}

/* Polls up to `patience` times, then abandons. */
static void race_wait(struct race *race, uint32_t ticket, uint32_t patience, uint64_t nonce,
                      uint64_t seed)
{
    enum perseus_status status = PERSEUS_INTERNAL;
    uint64_t result = 0;
    for (uint32_t i = 0; i < patience; i++) {
        if (prs_ticket_poll(race->tickets, ticket, &status, &result)) {
            if (result != nonce || status != (enum perseus_status)(nonce % 3)) {
                race_failed("a ticket told another request's result", seed);
            }
            return;
        }
        sched_yield();
    }
    prs_ticket_abandon(race->tickets, ticket);
}

static void *race_taker(void *context)
{
    struct taker *taker = context;
    struct race *race = taker->race;
    struct prs_rng rng = prs_rng_seeded(taker->seed);
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t ticket = race_take(race);
        if (prs_rng_below(&rng, 8) == 0) {
            prs_ticket_give_back(race->tickets, ticket);
            continue;
        }
        uint64_t nonce = prs_rng_next(&rng);
        struct prs_desc desc = {.kind = PRS_DESC_QUIET, .ticket = ticket, .value = nonce};
        while (prs_ring_push(race->ring, &desc, NULL) != PERSEUS_OK) {
            sched_yield();
        }
        uint32_t patience = prs_rng_below(&rng, 2) == 0 ? UINT32_MAX : prs_rng_below(&rng, 4);
        race_wait(race, ticket, patience, nonce, taker->seed);
    }
    atomic_fetch_sub_explicit(&race->running, 1, memory_order_release);
    return NULL;
}

/* Plays the proxy until the takers are gone and the ring is empty. */
static void race_complete_all(struct race *race)
{
    for (;;) {
        bool last = atomic_load_explicit(&race->running, memory_order_acquire) == 0;
        const struct prs_desc *desc = prs_ring_peek(race->ring, 0);
        if (desc != NULL) {
            prs_ticket_complete(race->tickets, desc->ticket, (enum perseus_status)(desc->value % 3),
                                desc->value);
            prs_ring_release(race->ring, 1);
        } else if (last) {
            return;
        } else {
            sched_yield();
        }
    }
}

static void takers_race_with_completions(void **state)
{
    (void)state;
    struct race race = {.tickets = tickets_of(CONTENDED_COUNT), .running = TAKERS};
    assert_int_equal(prs_ring_create(4, &race.ring), PERSEUS_OK);
    struct taker takers[TAKERS];
    for (uint32_t i = 0; i < TAKERS; i++) {
        takers[i] = (struct taker){.race = &race, .seed = 40 + i};
        assert_int_equal(pthread_create(&takers[i].thread, NULL, race_taker, &takers[i]), 0);
    }
    race_complete_all(&race);
    for (uint32_t i = 0; i < TAKERS; i++) {
        pthread_join(takers[i].thread, NULL);
    }
    assert_free(race.tickets, CONTENDED_COUNT);
    prs_ring_destroy(race.ring);
    prs_tickets_destroy(race.tickets);
}

/* Takes one or two and gives them back in either order, so that the same ticket is on top of the
 * free ones again and again with others below it. */
struct juggler {
    struct prs_tickets *tickets;
    atomic_uint *holders; /* per ticket */
    uint64_t seed;
    pthread_t thread;
};

static bool juggle_take(struct juggler *juggler, uint32_t *out)
{
    if (prs_ticket_take(juggler->tickets, out) != PERSEUS_OK) {
        return false;
    }
    if (atomic_fetch_add_explicit(&juggler->holders[*out], 1, memory_order_relaxed) != 0) {
        race_failed("one ticket was taken twice", juggler->seed);
    }
    return true;
}

static void juggle_give_back(struct juggler *juggler, uint32_t ticket)
{
    atomic_fetch_sub_explicit(&juggler->holders[ticket], 1, memory_order_relaxed);
    prs_ticket_give_back(juggler->tickets, ticket);
}

static void *juggle(void *context)
{
    struct juggler *juggler = context;
    struct prs_rng rng = prs_rng_seeded(juggler->seed);
    for (int round = 0; round < JUGGLES; round++) {
        uint32_t held[2] = {0, 0};
        bool first = juggle_take(juggler, &held[0]);
        bool second = first && juggle_take(juggler, &held[1]);
        uint32_t order = prs_rng_below(&rng, 2);
        if (second) {
            juggle_give_back(juggler, held[order]);
        }
        if (first) {
            juggle_give_back(juggler, held[second ? 1 - order : 0]);
        }
    }
    return NULL;
}

static void no_ticket_is_taken_twice(void **state)
{
    (void)state;
    atomic_uint holders[CONTENDED_COUNT] = {0};
    struct prs_tickets *tickets = tickets_of(CONTENDED_COUNT);
    struct juggler jugglers[TAKERS];
    for (uint32_t i = 0; i < TAKERS; i++) {
        jugglers[i] = (struct juggler){.tickets = tickets, .holders = holders, .seed = 80 + i};
        assert_int_equal(pthread_create(&jugglers[i].thread, NULL, juggle, &jugglers[i]), 0);
    }
    for (uint32_t i = 0; i < TAKERS; i++) {
        pthread_join(jugglers[i].thread, NULL);
    }
    assert_free(tickets, CONTENDED_COUNT);
    prs_tickets_destroy(tickets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create_refuses_no_tickets),
        cmocka_unit_test(a_completed_ticket_tells_once_and_is_free),
        cmocka_unit_test(every_way_back_frees_once),
        cmocka_unit_test(numbers_that_nobody_holds_are_ignored),
        cmocka_unit_test(cancel_completes_what_is_taken),
        cmocka_unit_test(takers_race_with_completions),
        cmocka_unit_test(no_ticket_is_taken_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
