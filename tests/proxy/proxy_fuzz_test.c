/* SPDX-License-Identifier: Apache-2.0 */
/* Random descriptors, most of them nonsense, and an orderer that refuses and completes at random:
 * every ticket is told once, the ring drains, nothing is submitted twice or out of order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "proxy/rig.h"

#define SEEDS         1000
#define DESCS         120
#define STEPS_MAX     10000
#define BOUNDARIES    8
#define NO_DESCRIPTOR UINT64_MAX

struct run {
    struct rig *rig;
    struct prs_rng rng;
    uint64_t pushed;         /* stamped into `value` of what is pushed */
    bool waits[RIG_TICKETS]; /* taken and in the ring or the orderer */
    uint64_t last_seen;      /* stamp of the last request the orderer took */
    uint32_t calls_seen;
};

static uint64_t odd_number(struct prs_rng *rng)
{
    const uint64_t edges[BOUNDARIES] = {
        0, 1, 7, 8, 8 * FAKE_VALUES_MAX, 8 * FAKE_VALUES_MAX + 8, UINT32_MAX, UINT64_MAX};
    return prs_rng_below(rng, 2) == 0 ? edges[prs_rng_below(rng, BOUNDARIES)] : prs_rng_next(rng);
}

static uint32_t odd_ticket(struct run *run)
{
    uint32_t ticket = 0;
    switch (prs_rng_below(&run->rng, 6)) {
    case 0:
        return RIG_TICKETS + prs_rng_below(&run->rng, 1000);
    case 1:
    case 2:
        return PRS_DESC_NO_TICKET;
    default:
        return prs_ticket_take(run->rig->tickets, &ticket) == PERSEUS_OK ? ticket
                                                                         : PRS_DESC_NO_TICKET;
    }
}

static struct prs_desc odd_desc(struct run *run)
{
    struct prs_rng *rng = &run->rng;
    struct prs_desc desc = {.kind = (uint8_t)prs_rng_below(rng, PRS_DESC_VALUES + 3),
                            .sub = (uint8_t)prs_rng_below(rng, 13),
                            .local_window = (uint16_t)prs_rng_below(rng, RIG_WINDOWS + 1),
                            .peer = prs_rng_below(rng, FAKE_PEERS + 1),
                            .ticket = odd_ticket(run),
                            .local = odd_number(rng),
                            .remote = odd_number(rng),
                            .bytes = odd_number(rng) & UINT64_C(0xffffffffffff),
                            .signal = odd_number(rng),
                            .value = run->pushed};
    if (prs_rng_below(rng, 20) == 0) {
        desc.peer = PRS_DESC_ALL_PEERS;
    }
    return desc;
}

/* A run of values would hide the ticket of the descriptor it was made from: it has none. */
static void push_odd(struct run *run)
{
    struct prs_desc desc = odd_desc(run);
    if (desc.kind == PRS_DESC_VALUES && desc.ticket < RIG_TICKETS) {
        prs_ticket_give_back(run->rig->tickets, desc.ticket);
        desc.ticket = PRS_DESC_NO_TICKET;
    }
    if (prs_ring_push(run->rig->ring, &desc, NULL) != PERSEUS_OK) {
        if (desc.ticket < RIG_TICKETS) {
            prs_ticket_give_back(run->rig->tickets, desc.ticket);
        }
        return;
    }
    run->pushed++;
    if (desc.ticket < RIG_TICKETS) {
        run->waits[desc.ticket] = true;
    }
}

static void change_script(struct run *run, bool may_refuse)
{
    struct prs_orderer *orderer = run->rig->orderer;
    const enum perseus_status answers[] = {PERSEUS_OK, PERSEUS_OK, PERSEUS_AGAIN, PERSEUS_IO};
    uint32_t choices = may_refuse ? 4 : 1;
    for (uint32_t peer = 0; peer < FAKE_PEERS; peer++) {
        orderer->answer[peer] = answers[prs_rng_below(&run->rng, choices)];
    }
    orderer->fence_answer = answers[prs_rng_below(&run->rng, choices)];
    orderer->quiet_answer = answers[prs_rng_below(&run->rng, choices)];
    orderer->flush_answer = answers[prs_rng_below(&run->rng, choices == 1 ? 1 : 3)];
    orderer->completion = answers[prs_rng_below(&run->rng, choices) & 1 ? 3 : 0];
    orderer->completes_at_once = prs_rng_below(&run->rng, 2) == 0;
}

/* Tickets told are free again; a request that the orderer took is behind the one before. */
static bool is_consistent(struct run *run)
{
    for (uint32_t ticket = 0; ticket < RIG_TICKETS; ticket++) {
        if (run->waits[ticket] && prs_ticket_poll(run->rig->tickets, ticket, NULL, NULL)) {
            run->waits[ticket] = false;
        }
    }
    for (; run->calls_seen < run->rig->orderer->n_calls; run->calls_seen++) {
        const struct fake_call *call = &run->rig->orderer->calls[run->calls_seen];
        if (call->kind != FAKE_SUBMIT) {
            continue;
        }
        if (run->last_seen != NO_DESCRIPTOR && call->request.value <= run->last_seen) {
            return false;
        }
        run->last_seen = call->request.value;
    }
    return true;
}

static bool step_is_consistent(struct run *run)
{
    bool did = false;
    return prs_proxy_step(run->rig->proxy, &did) == PERSEUS_OK && is_consistent(run);
}

static const char *all_is_told(struct run *run)
{
    struct prs_desc last = {
        .kind = PRS_DESC_QUIET, .peer = PRS_DESC_ALL_PEERS, .ticket = PRS_DESC_NO_TICKET};
    bool is_last_pushed = false; /* behind a vector whose values never came */
    for (int step = 0; step < STEPS_MAX; step++) {
        change_script(run, false);
        if (!is_last_pushed) {
            is_last_pushed = prs_ring_push(run->rig->ring, &last, NULL) == PERSEUS_OK;
        }
        if (!step_is_consistent(run)) {
            return "submitted out of order";
        }
        if (is_last_pushed && prs_ring_is_empty(run->rig->ring)) {
            break;
        }
    }
    if (!step_is_consistent(run) || !prs_ring_is_empty(run->rig->ring)) {
        return "the ring does not drain";
    }
    uint32_t ticket;
    for (uint32_t i = 0; i < RIG_TICKETS; i++) {
        if (run->waits[i] || prs_ticket_take(run->rig->tickets, &ticket) != PERSEUS_OK) {
            return "a ticket was never told";
        }
    }
    return prs_ticket_take(run->rig->tickets, &ticket) == PERSEUS_AGAIN
               ? NULL
               : "a ticket was freed twice";
}

static const char *fuzz(struct run *run)
{
    while (run->pushed < DESCS) {
        uint32_t some = prs_rng_below(&run->rng, 6);
        for (uint32_t i = 0; i < some; i++) {
            push_odd(run);
        }
        if (prs_rng_below(&run->rng, 8) == 0) {
            run->pushed +=
                rig_push_vector(run->rig, prs_rng_below(&run->rng, FAKE_PEERS), PRS_DESC_NO_TICKET,
                                1 + prs_rng_below(&run->rng, FAKE_VALUES_MAX), run->pushed);
        }
        change_script(run, true);
        if (!step_is_consistent(run)) {
            return "submitted out of order";
        }
    }
    return all_is_told(run);
}

static void nonsense_loses_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct run run = {.rng = prs_rng_seeded(seed), .last_seen = NO_DESCRIPTOR};
        run.rig = rig_create(4u << prs_rng_below(&run.rng, 4), 1 + prs_rng_below(&run.rng, 9));
        const char *wrong = fuzz(&run);
        rig_destroy(run.rig);
        if (wrong != NULL) {
            fail_msg("%s (seed %llu)", wrong, (unsigned long long)seed);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nonsense_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
