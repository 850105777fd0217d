/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging beyond the contract: slots and counts that no PE writes, a peer that goes at every step,
 * what staging cannot stand on, and mutants: a slot sent before its copy, a slot counted before
 * its copy, and copies that overtake each other. PE 0 sends to PE 1; PE 2 lives on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/staged/internal.h"
#include "memory.h"
#include "world.h"

#define DATA_AT    (WORLD_HALF + 4096)
#define DATA_BYTES 1536

static enum perseus_status open_tight(const struct row *row, uint64_t seed,
                                      const struct prs_log *log, struct prs_clock clock,
                                      struct prs_fabric **out)
{
    const struct prs_staged_config config = {
        .ring_bytes = PRS_STAGED_RING_BYTES_MIN, .log = log, .clock = clock};
    struct prs_fabric *inside;
    enum perseus_status status = open_loopback(row, seed, log, clock, &inside);
    status = status == PERSEUS_OK ? prs_staged_wrap(inside, &config, out) : status;
    if (status == PERSEUS_OK) {
        prs_staged_place(*out, (uint32_t)(seed % WORLD_PES), WORLD_PES);
    }
    return status;
}

static const struct row tight = {.name = "staged", .open = open_tight, .memory = PRS_MEMORY_CUDA};

static struct prs_staged_endpoint *endpoint_of(const struct world *world, uint32_t pe)
{
    return (struct prs_staged_endpoint *)world->pe[pe].endpoint;
}

/* ---- what no PE writes ---- */

/* PE 0's rings and counts at PE 1. */
static unsigned char *ring_at(const struct prs_staged_endpoint *self, enum prs_staged_way way)
{
    return self->arena + prs_staged_counts_bytes(self->fabric) +
           prs_staged_ring_offset(self->fabric, 0, way);
}

static void write_count(struct prs_staged_endpoint *self, enum prs_staged_way way,
                        enum prs_staged_what what, uint64_t value, uint64_t inverse)
{
    struct prs_staged_count *count =
        (struct prs_staged_count *)(uintptr_t)prs_staged_count(self, 0, way, what);
    atomic_store(&count->value, value);
    atomic_store(&count->inverse, inverse);
}

#define HALF_SPAN 128

struct bad_slot {
    const char *what;
    enum prs_staged_way way;
    struct prs_staged_slot slot; /* position, span and region: added to what is right */
    int64_t readable;            /* of the count, likewise */
};

static const struct bad_slot bad_slots[] = {
    {"another position", 0, {.position = 64, .kind = PRS_STAGED_SET}, 0},
    {"no span", 0, {.span = (uint32_t)-HALF_SPAN, .kind = PRS_STAGED_SET}, 0},
    {"a crooked span", 0, {.span = 8, .kind = PRS_STAGED_SET}, 8},
    {"a span beyond the count", 0, {.span = 64, .kind = PRS_STAGED_SET}, 0},
    {"a span beyond the lap",
     0,
     {.span = PRS_STAGED_RING_BYTES_MIN - HALF_SPAN, .kind = PRS_STAGED_SET},
     PRS_STAGED_RING_BYTES_MIN - HALF_SPAN},
    {"a count beyond the ring", 0, {.kind = PRS_STAGED_SET}, PRS_STAGED_RING_BYTES_MIN},
    {"no kind", 0, {.kind = 0}, 0},
    {"an unknown kind", 0, {.kind = 99}, 0},
    {"padding amid the lap", 0, {.kind = PRS_STAGED_PADDING}, 0},
    {"payload beyond the slot", 0, {.kind = PRS_STAGED_PUT, .bytes = 65}, 0},
    {"much more payload", 0, {.kind = PRS_STAGED_PUT, .bytes = UINT64_MAX}, 0},
    {"an unknown region", 0, {.kind = PRS_STAGED_PUT, .bytes = 64, .region = 7}, 0},
    {"a region far off", 0, {.kind = PRS_STAGED_PUT, .bytes = 64, .region = 1u << 30}, 0},
    {"a region of before", 0, {.kind = PRS_STAGED_PUT, .bytes = 64, .generation = 1}, 0},
    {"a place behind the region",
     0,
     {.kind = PRS_STAGED_PUT, .bytes = 64, .offset = WORLD_BYTES - 63},
     0},
    {"a place far behind", 0, {.kind = PRS_STAGED_PUT, .bytes = 64, .offset = UINT64_MAX - 7}, 0},
    {"a crooked word", 0, {.kind = PRS_STAGED_SET, .offset = 4}, 0},
    {"a word behind the region", 0, {.kind = PRS_STAGED_SET, .offset = WORLD_BYTES}, 0},
    {"a get of nothing", 0, {.kind = PRS_STAGED_GET}, 0},
    {"a get of too much", 0, {.kind = PRS_STAGED_GET, .bytes = 4096}, 0},
    {"a get from behind", 0, {.kind = PRS_STAGED_GET, .bytes = 64, .offset = WORLD_BYTES - 8}, 0},
    {"an answer among requests", 0, {.kind = PRS_STAGED_ANSWER, .bytes = 64}, 0},
    {"an answer to nothing", PRS_STAGED_REPLY, {.kind = PRS_STAGED_ANSWER, .bytes = 64}, 0},
    {"an answer to nobody",
     PRS_STAGED_REPLY,
     {.kind = PRS_STAGED_ANSWER, .bytes = 64, .request = UINT64_MAX},
     0},
    {"a request among answers", PRS_STAGED_REPLY, {.kind = PRS_STAGED_PUT, .bytes = 64}, 0},
    {"a long address", 0, {.kind = PRS_STAGED_HELLO, .bytes = 64}, 0},
};

/* What PE 0 would write next to PE 1 if it were bad. */
static void plant(struct world *world, const struct bad_slot *bad)
{
    struct prs_staged_endpoint *self = endpoint_of(world, 1);
    const struct prs_staged_in *in = &self->contacts[0]->in[bad->way];
    const struct prs_staged_region *region = (const struct prs_staged_region *)world->pe[1].region;
    uint64_t ring_bytes = prs_staged_ring_bytes(self->fabric, bad->way);
    struct prs_staged_slot slot = bad->slot;
    slot.position += in->head;
    slot.value = UINT64_MAX; /* shows where it gets to */
    slot.span += HALF_SPAN;
    slot.region += region->number;
    slot.generation += region->generation;
    memset(ring_at(self, bad->way) + in->head % ring_bytes, 0xee, HALF_SPAN);
    memcpy(ring_at(self, bad->way) + in->head % ring_bytes, &slot, sizeof slot);
    uint64_t tail = in->head + HALF_SPAN + (uint64_t)bad->readable;
    write_count(self, bad->way, PRS_STAGED_TAIL, tail, ~tail);
}

/* PE 0 is told, and both say so; PE 2 is as good as before for both. */
static void check_ended(struct world *world, const char *what)
{
    struct prs_op op = world_put(world, 1, 0, 0, DATA_AT, 64, 1);
    world_check(world, strstr(world->message, "PE 0 sent") != NULL, "%s: not noticed", what);
    world_check(world,
                world->pe[1].fabric->ops->post(world->pe[1].endpoint, &op) == PERSEUS_PEER_LOST,
                "%s: still there for PE 1", what);
    struct prs_op last = world_put(world, 0, 1, 0, DATA_AT, 64, 2);
    enum perseus_status status = PERSEUS_OK;
    while (status == PERSEUS_OK || status == PERSEUS_AGAIN) {
        status = world->pe[0].fabric->ops->post(world->pe[0].endpoint, &last);
        world->pe[0].posted += status == PERSEUS_OK;
        last.cookie++;
        world_step(world);
    }
    world_check(world, status == PERSEUS_PEER_LOST, "%s: PE 0 was not told: %s", what,
                perseus_status_name(status));
    world_drain(world);
    for (uint32_t from = 0; from < 2; from++) {
        op = world_put(world, from, 2, 0, DATA_AT, 64, WORLD_COOKIES - 1);
        world_post(world, from, &op);
        world_drain(world);
        world_check(world, world->pe[from].status[WORLD_COOKIES - 1] == PERSEUS_OK, "%s: PE 2",
                    what);
    }
}

static void a_bad_slot_ends_its_peer_and_moves_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_slots / sizeof bad_slots[0]; i++) {
        struct world *world = world_open(&tight, 1);
        struct prs_op op = world_put(world, 0, 1, 0, DATA_AT, 8, 0);
        world_post(world, 0, &op);
        world_drain(world);
        world_steps(world, 50);
        plant(world, &bad_slots[i]);
        world_poll(world, 1);
        check_ended(world, bad_slots[i].what);
        world_check(world, world_is_filled(world, 1, 0, WORLD_BYTES, 0), "%s: it moved data",
                    bad_slots[i].what);
        world_close(world);
    }
}

/* PE 1 asks `asked` for 8 bytes, which it has not seen yet, when PE 0 answers with `bytes` to that
 * request, or to the one so much before. */
static void answer_wrongly(uint32_t asked, uint64_t before, uint64_t bytes)
{
    struct world *world = world_open(&tight, 1);
    struct prs_op op = world_put(world, 1, asked, DATA_AT, 0, 8, 0);
    op.kind = PRS_OP_GET;
    struct prs_staged_endpoint *self = endpoint_of(world, 1);
    enum perseus_status status = world->pe[1].fabric->ops->post(world->pe[1].endpoint, &op);
    world_check(world, status == PERSEUS_OK, "post");
    world->pe[1].posted++;
    world_poll(world, 1);
    struct bad_slot bad = {"an answer", PRS_STAGED_REPLY, {.kind = PRS_STAGED_ANSWER}, 0};
    for (uint64_t i = 0; i < PRS_STAGED_OPS; i++) {
        self->pool[i].serial += self->pool[i].state == PRS_STAGED_SENT ? before : 0;
        if (self->pool[i].state == PRS_STAGED_SENT) {
            bad.slot.request = (self->pool[i].serial - before) * PRS_STAGED_OPS + i;
        }
    }
    bad.slot.bytes = bytes;
    plant(world, &bad);
    world_poll(world, 1);
    world_check(world, strstr(world->message, "PE 0 sent") != NULL, "it was taken");
    world_drain(world);
    world_check(world, asked != 0 || world->pe[1].status[0] == PERSEUS_PEER_LOST, "it was taken");
    world_check(world, world_is_filled(world, 1, DATA_AT, 64, 0), "it moved data");
    world_close(world);
}

static void an_answer_brings_what_was_asked_for(void **state)
{
    (void)state;
    answer_wrongly(0, 0, 16);
    answer_wrongly(0, 1, 8);
}

static void nobody_answers_for_another(void **state)
{
    (void)state;
    answer_wrongly(2, 0, 8);
}

static void a_count_of_what_was_not_sent_ends_its_peer(void **state)
{
    (void)state;
    struct world *world = world_open(&tight, 1);
    struct prs_op op = world_put(world, 1, 0, 0, DATA_AT, 8, 0);
    world_post(world, 1, &op);
    world_drain(world);
    write_count(endpoint_of(world, 1), PRS_STAGED_REQUEST, PRS_STAGED_DONE, 4096, ~UINT64_C(4096));
    world_poll(world, 1);
    check_ended(world, "a count of what was not sent");
    world_close(world);
}

/* Half a count, or an old one once more, is none. */
static void a_count_in_pieces_is_not_taken(void **state)
{
    (void)state;
    struct world *world = world_open(&tight, 1);
    struct prs_op op = world_put(world, 0, 1, 0, DATA_AT, 8, 0);
    world_post(world, 0, &op);
    world_drain(world);
    struct prs_staged_endpoint *self = endpoint_of(world, 1);
    write_count(self, PRS_STAGED_REQUEST, PRS_STAGED_TAIL, 1 << 20, ~UINT64_C(64));
    world_steps(world, 10);
    write_count(self, PRS_STAGED_REQUEST, PRS_STAGED_TAIL, 64, ~UINT64_C(64));
    world_steps(world, 10);
    op.cookie = 1;
    world_post(world, 0, &op);
    world_drain(world);
    world_check(world, world->pe[0].status[1] == PERSEUS_OK, "lost");
    world_close(world);
}

/* ---- ends ---- */

static struct prs_op any_op(struct world *world, uint32_t to, uint32_t at)
{
    struct prs_op op = world_put(world, 0, to, 0, DATA_AT, 1 + 97 * (at % 16), at);
    switch (at % 3) {
    case 0:
        return world_set(world, 0, to, WORLD_HALF, at, at);
    case 1:
        op.kind = PRS_OP_GET;
        op.local_offset = DATA_AT;
        op.remote_offset = 0;
        return op;
    default:
        return op;
    }
}

/* Whoever goes, at whatever step: all that the other had under way comes back, once. */
static void a_peer_may_go_at_every_step(void **state)
{
    (void)state;
    for (uint32_t steps = 0; steps < 80; steps++) {
        struct world *world = world_open(&tight, steps);
        world->tick_ns = 100000;
        uint32_t n = 0;
        for (; n < 60; n++) {
            struct prs_op op = any_op(world, 1 + n % 2, n);
            enum perseus_status status = world->pe[0].fabric->ops->post(world->pe[0].endpoint, &op);
            world_check(world, status == PERSEUS_OK, "post: %s", perseus_status_name(status));
            world->pe[0].posted++;
        }
        world_steps(world, steps);
        world_close_pe(world, 1);
        world_drain(world);
        for (uint32_t i = 0; i < n; i++) {
            world_check(world,
                        world->pe[0].status[i] == PERSEUS_OK ||
                            (i % 2 == 0 && world->pe[0].status[i] == PERSEUS_PEER_LOST),
                        "gone after %u steps, operation %u: %d", steps, i, world->pe[0].status[i]);
        }
        world_close(world);
    }
}

/* Memory goes while a peer still writes to it: that ends the peer, and nobody touches it after. */
static void a_region_may_go_at_every_step(void **state)
{
    (void)state;
    for (uint32_t steps = 0; steps < 40; steps++) {
        struct world *world = world_open(&tight, steps);
        for (uint32_t i = 0; i < 30; i++) {
            struct prs_op op = any_op(world, 1, i);
            world_post(world, 0, &op);
        }
        world_steps(world, steps);
        struct world_pe *pe = &world->pe[1];
        pe->fabric->ops->region_close(pe->region);
        pe->region = NULL;
        free(pe->memory); /* the sanitizers watch */
        pe->memory = NULL;
        world_drain(world);
        world_close(world);
    }
}

/* ---- what staging stands on ---- */

static void what_does_not_suffice_is_refused(void **state)
{
    (void)state;
    struct world world = {.row = &tight};
    const struct prs_log log = {.fn = NULL};
    const struct prs_staged_config config = {.ring_bytes = PRS_STAGED_RING_BYTES_MIN, .log = &log};
    const struct row bare = {.unordered_mask = PRS_ORDER_EVERY_PAIR,
                             .ungranted_mask = PRS_UNGRANT_DELIVERED};
    struct prs_fabric *inside = NULL, *out = NULL;
    assert_int_equal(open_loopback(&bare, 1, &log, prs_clock_monotonic(), &inside), PERSEUS_OK);
    world_check(&world, prs_staged_wrap(inside, &config, &out) == PERSEUS_NOT_SUPPORTED,
                "neither order nor delivery");
    assert_int_equal(open_loopback(&tight, 1, &log, prs_clock_monotonic(), &inside), PERSEUS_OK);
    inside->caps.inline_bytes = 8;
    world_check(&world, prs_staged_wrap(inside, &config, &out) == PERSEUS_NOT_SUPPORTED,
                "no inline puts");
    assert_int_equal(open_loopback(&tight, 1, &log, prs_clock_monotonic(), &inside), PERSEUS_OK);
    const struct prs_staged_config elsewhere = {
        .gpu = 9, .ring_bytes = PRS_STAGED_RING_BYTES_MIN, .log = &log};
    world_check(&world, prs_staged_wrap(inside, &elsewhere, &out) == PERSEUS_NOT_FOUND, "no GPU 9");
}

/* ---- mutants ---- */

/* Done to PE `pe` before each of its polls. */
typedef void (*mutant_fn)(struct prs_staged_endpoint *self, uint32_t pe);

static void forget(struct prs_staged_marks *marks)
{
    for (uint32_t i = 0; i < PRS_STAGED_MARKS; i++) {
        marks->marks[i].batch = 0;
    }
}

static void none(struct prs_staged_endpoint *self, uint32_t pe)
{
    (void)self, (void)pe;
}

static void sends_before_the_copy(struct prs_staged_endpoint *self, uint32_t pe)
{
    (void)pe;
    forget(&self->copied_out);
}

static void counts_before_the_copy(struct prs_staged_endpoint *self, uint32_t pe)
{
    (void)pe;
    forget(&self->copied_in);
}

static void copies_overtake(struct prs_staged_endpoint *self, uint32_t pe)
{
    (void)pe;
    self->in.is_ordered = false;
}

struct round {
    const struct world *world;
    unsigned char value;
    bool is_broken;
};

static bool is_there(const struct world *world, unsigned char value)
{
    return world_is_filled(world, 1, DATA_AT, DATA_BYTES, value);
}

static void on_completion(struct world_pe *pe, uint64_t cookie)
{
    struct round *round = pe->context;
    (void)cookie;
    round->is_broken |= !is_there(round->world, round->value);
}

/* A put and its signal, again and again: whether the signal, or a completion, was ever there before
 * the payload. */
static bool breaks(mutant_fn mutant, uint64_t seed)
{
    struct world *world = world_open(&tight, seed);
    struct round round = {.world = world};
    world->pe[0].context = &round;
    world->pe[0].on_completion = on_completion;
    for (uint32_t i = 1; i <= 40; i++) {
        round.value = (unsigned char)i;
        memset(world->pe[0].memory, (int)i, DATA_BYTES);
        struct prs_op put = world_put(world, 0, 1, 0, DATA_AT, DATA_BYTES, 2 * i);
        struct prs_op set = world_set(world, 0, 1, WORLD_HALF, i, 2 * i + 1);
        world_post(world, 0, &put);
        world_post(world, 0, &set);
        while (world->pe[0].completed < world->pe[0].posted) {
            for (uint32_t pe = 0; pe < WORLD_PES; pe++) {
                mutant(endpoint_of(world, pe), pe);
                world_poll(world, pe);
                round.is_broken |=
                    world_word(world, 1, WORLD_HALF) == i && !is_there(world, (unsigned char)i);
            }
            world_check_time(world);
        }
    }
    world_close(world);
    return round.is_broken;
}

static void mutants_are_seen(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        mutant_fn mutant;
    } mutants[] = {{"none", none},
                   {"a slot is sent before its copy", sends_before_the_copy},
                   {"a slot is counted before its copy", counts_before_the_copy},
                   {"copies overtake each other", copies_overtake}};
    for (size_t i = 0; i < sizeof mutants / sizeof mutants[0]; i++) {
        uint32_t broken = 0;
        for (uint64_t seed = 1; seed <= 10; seed++) {
            broken += breaks(mutants[i].mutant, seed) ? 1 : 0;
        }
        if ((broken == 0) != (mutants[i].mutant == none)) {
            fail_msg("%s: %u of 10 runs broken", mutants[i].name, broken);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bad_slot_ends_its_peer_and_moves_nothing),
        cmocka_unit_test(an_answer_brings_what_was_asked_for),
        cmocka_unit_test(nobody_answers_for_another),
        cmocka_unit_test(a_count_of_what_was_not_sent_ends_its_peer),
        cmocka_unit_test(a_count_in_pieces_is_not_taken),
        cmocka_unit_test(a_peer_may_go_at_every_step),
        cmocka_unit_test(a_region_may_go_at_every_step),
        cmocka_unit_test(what_does_not_suffice_is_refused),
        cmocka_unit_test(mutants_are_seen),
    };
    return cmocka_run_group_tests_name("staging", tests, NULL, NULL);
}
