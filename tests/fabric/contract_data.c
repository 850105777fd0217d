/* SPDX-License-Identifier: Apache-2.0 */
/* What arrives, and that it is there when the fabric says so. */
#include "suite.h"
#include "world.h"

#include <string.h>

#define SLOT_BYTES 4096
#define SLOTS      24

/* ---- a completion means: delivered, and the source is free ---- */

struct delivery {
    struct world *world;
    uint32_t bytes[SLOTS], shift[SLOTS];
    bool is_delivered_promised;
};

static uint64_t slot_at(const struct delivery *delivery, uint64_t slot)
{
    return slot * SLOT_BYTES + delivery->shift[slot];
}

static void check_delivery(struct world_pe *pe, uint64_t slot)
{
    struct delivery *delivery = pe->context;
    uint64_t at = slot_at(delivery, slot);
    unsigned char value = (unsigned char)(slot + 1);
    world_check(delivery->world,
                !delivery->is_delivered_promised ||
                    world_is_drawn(delivery->world->pe[1].memory + WORLD_HALF + at,
                                   delivery->bytes[slot], value),
                "put %u completed before its data was there", (unsigned)slot);
    memset(pe->memory + at, 0xee, delivery->bytes[slot]); /* the source is ours again */
}

/* Any size anywhere, or a few aligned words. */
static void choose_shape(struct delivery *delivery, uint32_t slot)
{
    struct prs_rng *rng = &delivery->world->rng;
    bool is_words = prs_rng_below(rng, 2) == 0;
    delivery->shift[slot] = is_words ? 0 : prs_rng_below(rng, 9);
    delivery->bytes[slot] =
        is_words ? 8 * (1 + prs_rng_below(rng, 160)) : 1 + prs_rng_below(rng, SLOT_BYTES - 16);
}

static void test_delivered(const struct row *row)
{
    struct prs_caps caps = world_caps(row);
    for (uint64_t seed = 1; seed <= row->seeds / 4 + 1; seed++) {
        struct world *world = world_open(row, seed);
        struct delivery delivery = {
            .world = world, .is_delivered_promised = caps.completion == PRS_COMPLETION_DELIVERED};
        world->pe[0].context = &delivery;
        world->pe[0].on_completion = check_delivery;
        for (uint32_t i = 0; i < SLOTS; i++) {
            choose_shape(&delivery, i);
            uint64_t at = slot_at(&delivery, i);
            world_draw(world->pe[0].memory + at, delivery.bytes[i], (unsigned char)(i + 1));
            struct prs_op op = world_put(world, 0, 1, at, WORLD_HALF + at, delivery.bytes[i], i);
            op.lane = (uint8_t)prs_rng_below(&world->rng, caps.lanes_max);
            world_post(world, 0, &op);
        }
        world_drain(world);
        world_steps(world, 20);
        for (uint32_t i = 0; i < SLOTS; i++) {
            world_check(world,
                        world_is_drawn(world->pe[1].memory + WORLD_HALF + slot_at(&delivery, i),
                                       delivery.bytes[i], (unsigned char)(i + 1)),
                        "put %u took its source after it had completed", i);
        }
        world_close(world);
    }
}

static void test_get(const struct row *row)
{
    world_caps(row);
    for (uint64_t seed = 1; seed <= row->seeds / 8 + 1; seed++) {
        struct world *world = world_open(row, seed);
        for (uint32_t i = 0; i < SLOTS; i++) {
            uint32_t bytes = 1 + prs_rng_below(&world->rng, SLOT_BYTES);
            bytes = i % 2 == 0 ? bytes : 8 * (1 + bytes % 160); /* words, too */
            world_draw(world->pe[1].memory + i * SLOT_BYTES, bytes, (unsigned char)(i + 1));
            struct prs_op op =
                world_put(world, 0, 1, WORLD_HALF + i * SLOT_BYTES, i * SLOT_BYTES, bytes, i);
            op.kind = PRS_OP_GET;
            world_post(world, 0, &op);
            world_drain(world);
            world_check(world,
                        world_is_drawn(world->pe[0].memory + WORLD_HALF + i * SLOT_BYTES, bytes,
                                       (unsigned char)(i + 1)),
                        "get of %u bytes", bytes);
        }
        world_close(world);
    }
}

/* ---- immediates ---- */

#define IMMEDIATES 40

struct arrivals {
    struct world *world;
    uint64_t base; /* immediates are base + 2 * slot + sender */
    uint32_t seen[2][IMMEDIATES];
    uint32_t count;
};

static uint64_t immediate_bytes(uint64_t slot)
{
    return slot % 4 == 0 ? 0 : 40 * slot; /* some carry nothing else */
}

static bool check_arrival(struct world_pe *pe, uint32_t peer, uint64_t immediate)
{
    struct arrivals *arrivals = pe->context;
    uint64_t number = immediate - arrivals->base;
    if (number >= 2 * IMMEDIATES) {
        return false;
    }
    uint32_t sender = (uint32_t)(number % 2), slot = (uint32_t)(number / 2);
    arrivals->seen[sender][slot]++;
    arrivals->count++;
    uint64_t at = WORLD_HALF + (sender * IMMEDIATES + slot) * 1600;
    world_check(arrivals->world,
                world_is_drawn(pe->memory + at, immediate_bytes(slot), (unsigned char)(slot + 1)),
                "immediate %u came before its data", slot);
    return arrivals->seen[sender][slot] == 1 &&
           (peer == PRS_PEER_UNKNOWN || peer == pe->peer[sender]);
}

static void send_immediates(struct world *world, const struct prs_caps *caps, uint64_t base)
{
    for (uint32_t i = 0; i < 2 * IMMEDIATES; i++) {
        uint32_t sender = i % 2, slot = i / 2;
        world_draw(world->pe[sender].memory + slot * 1600, 1600, (unsigned char)(slot + 1));
        struct prs_op op = world_put(world, sender, 2, slot * 1600,
                                     WORLD_HALF + (sender * IMMEDIATES + slot) * 1600,
                                     immediate_bytes(slot), slot);
        op.flags = PRS_OP_IMMEDIATE;
        op.immediate = base + i;
        op.lane = (uint8_t)prs_rng_below(&world->rng, caps->lanes_max);
        world_post(world, sender, &op);
    }
}

static void test_immediates(const struct row *row)
{
    struct prs_caps caps = world_caps(row);
    if (caps.immediate_bits < 8) {
        return; /* too narrow to number them; none at all: bad_input checks that it is refused */
    }
    uint64_t highest = caps.immediate_bits == 64 ? UINT64_MAX : (1ull << caps.immediate_bits) - 1;
    for (uint64_t seed = 1; seed <= row->seeds / 4 + 1; seed++) {
        struct world *world = world_open(row, seed);
        struct arrivals arrivals = {.world = world, .base = highest - 2 * IMMEDIATES + 1};
        world->pe[2].context = &arrivals;
        world->pe[2].on_immediate = check_arrival;
        world->events_per_poll = 1 + prs_rng_below(&world->rng, 4);
        send_immediates(world, &caps, arrivals.base);
        world_drain(world);
        while (arrivals.count < 2 * IMMEDIATES) {
            world_step(world);
        }
        world_steps(world, 20); /* one more of them would fail check_arrival */
        world_close(world);
    }
}

/* ---- atomics ---- */

static uint64_t model(enum perseus_atomic atomic, uint64_t old, uint64_t operand, uint64_t compare)
{
    const uint64_t results[] = {
        [PERSEUS_ATOMIC_SET] = operand,
        [PERSEUS_ATOMIC_ADD] = old + operand,
        [PERSEUS_ATOMIC_AND] = old & operand,
        [PERSEUS_ATOMIC_OR] = old | operand,
        [PERSEUS_ATOMIC_XOR] = old ^ operand,
        [PERSEUS_ATOMIC_COMPARE_SWAP] = old == compare ? operand : old,
    };
    return results[atomic];
}

static void test_atomics(const struct row *row)
{
    struct prs_caps caps = world_caps(row);
    for (uint64_t seed = 1; seed <= row->seeds / 8 + 1; seed++) {
        struct world *world = world_open(row, seed);
        uint64_t expected = 0;
        for (uint32_t i = 0; i < 60; i++) {
            enum perseus_atomic atomic = prs_rng_below(&world->rng, 6);
            bool fetches = prs_rng_below(&world->rng, 2) == 0;
            if (((fetches ? caps.atomics_fetch : caps.atomics) >> atomic & 1) == 0) {
                continue;
            }
            uint64_t operand = prs_rng_next(&world->rng);
            struct prs_op op = world_atomic(world, 0, 1, WORLD_HALF, atomic, operand, i);
            op.compare = prs_rng_below(&world->rng, 2) == 0 ? expected : 1;
            if (fetches) {
                op.kind = PRS_OP_ATOMIC_FETCH;
                op.local = world->pe[0].region;
                op.local_offset = 64;
            }
            world_post(world, 0, &op);
            world_drain(world);
            world_check(world, !fetches || world_word(world, 0, 64) == expected,
                        "%u: the old value", i);
            expected = model(atomic, expected, operand, op.compare);
            world_check(world, world_word(world, 1, WORLD_HALF) == expected, "%u: atomic %u", i,
                        atomic);
        }
        world_close(world);
    }
}

/* Two PEs add to one word: nothing is lost, and every old value is fetched once. */
static void test_atomic_sum(const struct row *row)
{
    struct prs_caps caps = world_caps(row);
    if ((caps.atomics_fetch >> PERSEUS_ATOMIC_ADD & 1) == 0) {
        return;
    }
    struct world *world = world_open(row, 1);
    uint8_t seen[400] = {0};
    for (uint32_t i = 0; i < 400; i++) {
        struct prs_op op = world_atomic(world, i % 2, 2, WORLD_HALF, PERSEUS_ATOMIC_ADD, 1, i);
        op.kind = PRS_OP_ATOMIC_FETCH;
        op.local = world->pe[i % 2].region;
        op.local_offset = 8 * i;
        world_post(world, i % 2, &op);
    }
    world_drain(world);
    world_check(world, world_word(world, 2, WORLD_HALF) == 400, "the sum");
    for (uint32_t i = 0; i < 400; i++) {
        uint64_t old = world_word(world, i % 2, 8 * i);
        world_check(world, old < 400 && seen[old]++ == 0, "old value %u", (unsigned)old);
    }
    world_close(world);
}

const struct contract_case contract_data_cases[] = {
    {"delivered", test_delivered},   {"get", test_get},
    {"immediates", test_immediates}, {"atomics", test_atomics},
    {"atomic_sum", test_atomic_sum}, {0},
};
