/* SPDX-License-Identifier: Apache-2.0 */
/* post, flush and poll: what is accepted, what is refused, and what comes back for it. */
#include "suite.h"
#include "world.h"

#include <stdio.h>
#include <string.h>

#define FLOOD_MAX 6000

/* ---- AGAIN ---- */

/* Posts words until the first AGAIN; returns how many were accepted. */
static uint32_t flood(struct world *world)
{
    struct world_pe *pe = &world->pe[0];
    for (uint32_t i = 0; i < FLOOD_MAX; i++) {
        struct prs_op op = world_put(world, 0, 1, 8 * i, WORLD_HALF + 8 * i, 8, i);
        enum perseus_status status = pe->fabric->ops->post(pe->endpoint, &op);
        if (status == PERSEUS_AGAIN) {
            return i;
        }
        world_check(world, status == PERSEUS_OK, "post: %s", perseus_status_name(status));
        pe->posted++;
    }
    return FLOOD_MAX;
}

static void test_again(const struct row *row)
{
    struct prs_caps caps = world_caps(row);
    for (uint64_t seed = 1; seed <= row->seeds / 16 + 1; seed++) {
        struct world *world = world_open(row, seed);
        world->events_per_poll = WORLD_EVENTS;
        memset(world->pe[0].memory, 0x5a, 8 * FLOOD_MAX);
        uint32_t accepted = flood(world);
        world_check(world, caps.inflight_max == 0 || accepted <= caps.inflight_max,
                    "inflight_max is %u, and %u were accepted", caps.inflight_max, accepted);
        world_drain(world);
        world_steps(world, 50);
        world_check(world, world->pe[0].completed == accepted, "a refused post completed");
        uint64_t refused_at = WORLD_HALF + 8 * accepted;
        world_check(world, world_is_filled(world, 1, WORLD_HALF, 8 * accepted, 0x5a), "lost");
        world_check(world, world_word(world, 1, refused_at) == 0, "a refused post moved data");
        struct prs_op op = world_put(world, 0, 1, 8 * accepted, refused_at, 8, accepted);
        if (accepted < FLOOD_MAX) {
            world_post(world, 0, &op);
            world_drain(world);
            world_check(world, world_is_filled(world, 1, refused_at, 8, 0x5a), "lost");
        }
        world_close(world);
    }
}

/* ---- completions ---- */

#define MIXED_OPS 120

static struct prs_op random_op(struct world *world, const struct prs_caps *caps, uint32_t at)
{
    uint32_t to = prs_rng_below(&world->rng, WORLD_PES);
    uint64_t place = WORLD_HALF + 64 * at;
    struct prs_op op;
    switch (prs_rng_below(&world->rng, caps->atomics != 0 ? 4 : 3)) {
    case 0:
        op = world_put(world, 0, to, 64 * at, place, 1 + prs_rng_below(&world->rng, 64), at);
        break;
    case 1:
        op = world_put(world, 0, to, 64 * at, place, 64, at);
        op.kind = PRS_OP_GET;
        break;
    case 2:
        op = world_set(world, 0, to, place, at + 1, at);
        break;
    default:
        op = world_atomic(world, 0, to, place, PERSEUS_ATOMIC_ADD, 1, at);
        break;
    }
    op.lane = (uint8_t)prs_rng_below(&world->rng, caps->lanes_max);
    op.flags |= prs_rng_below(&world->rng, 4) == 0 ? PRS_OP_UNTRACKED : 0;
    op.flags |= prs_rng_below(&world->rng, 4) == 0 ? PRS_OP_MORE : 0;
    op.flags |= prs_rng_below(&world->rng, 8) == 0 && caps->fence_scope != PRS_FENCE_NONE
                    ? PRS_OP_FENCE
                    : 0;
    return op;
}

static void flush(struct world *world)
{
    struct world_pe *pe = &world->pe[0];
    enum perseus_status status = pe->fabric->ops->flush(pe->endpoint);
    while (status == PERSEUS_AGAIN) {
        world_step(world);
        status = pe->fabric->ops->flush(pe->endpoint);
    }
    world_check(world, status == PERSEUS_OK, "flush: %s", perseus_status_name(status));
}

static void test_one_completion(const struct row *row)
{
    struct prs_caps caps = world_caps(row);
    for (uint64_t seed = 1; seed <= row->seeds / 4 + 1; seed++) {
        struct world *world = world_open(row, seed);
        world->events_per_poll = 1 + prs_rng_below(&world->rng, WORLD_EVENTS);
        uint8_t expected[MIXED_OPS];
        for (uint32_t i = 0; i < MIXED_OPS; i++) {
            struct prs_op op = random_op(world, &caps, i);
            expected[i] = (op.flags & PRS_OP_UNTRACKED) == 0;
            world_post(world, 0, &op);
        }
        flush(world);
        world_drain(world);
        world_steps(world, 100);
        for (uint32_t i = 0; i < MIXED_OPS; i++) {
            world_check(world,
                        world->pe[0].completions[i] == expected[i] &&
                            world->pe[0].status[i] == PERSEUS_OK,
                        "operation %u: %u completions, status %d", i, world->pe[0].completions[i],
                        world->pe[0].status[i]);
        }
        world_close(world);
    }
}

static void test_more_and_flush(const struct row *row)
{
    world_caps(row);
    struct world *world = world_open(row, 1);
    memset(world->pe[0].memory, 0x77, 4096);
    for (uint32_t i = 0; i < 16; i++) {
        struct prs_op op = world_put(world, 0, 1 + i % 2, 64 * i, WORLD_HALF + 64 * i, 64, i);
        op.flags = PRS_OP_MORE;
        world_post(world, 0, &op);
    }
    flush(world);
    world_drain(world);
    for (uint32_t i = 0; i < 16; i++) {
        world_check(world, world_is_filled(world, 1 + i % 2, WORLD_HALF + 64 * i, 64, 0x77),
                    "put %u", i);
    }
    world_close(world);
}

/* ---- the caller's memory and structs ---- */

static void test_inline_is_copied(const struct row *row)
{
    struct prs_caps caps = world_caps(row);
    for (uint64_t seed = 1; seed <= row->seeds / 8 + 1 && caps.inline_bytes > 0; seed++) {
        struct world *world = world_open(row, seed);
        uint32_t bytes = 1 + prs_rng_below(&world->rng, caps.inline_bytes);
        for (uint32_t i = 0; i < 20; i++) {
            unsigned char source[4096];
            world_draw(source, bytes, (unsigned char)(i + 1));
            struct prs_op op =
                world_put(world, 0, 1, 0, WORLD_HALF + i * caps.inline_bytes, bytes, i);
            op.local = NULL;
            op.flags = PRS_OP_INLINE;
            op.inline_source = source;
            world_post(world, 0, &op);
            memset(source, 0xee, sizeof source);
            memset(&op, 0xee, sizeof op);
        }
        world_drain(world);
        for (uint32_t i = 0; i < 20; i++) {
            world_check(world,
                        world_is_drawn(world->pe[1].memory + WORLD_HALF + i * caps.inline_bytes,
                                       bytes, (unsigned char)(i + 1)),
                        "inline put %u of %u bytes", i, bytes);
        }
        world_close(world);
    }
}

/* ---- what caps and regions do not allow ---- */

static void refuse(struct world *world, struct prs_op op, const char *what)
{
    struct world_pe *pe = &world->pe[0];
    world->message[0] = '\0';
    enum perseus_status status = pe->fabric->ops->post(pe->endpoint, &op);
    world_check(world, status == PERSEUS_INVALID_ARGUMENT, "%s: %s", what,
                perseus_status_name(status));
    world_check(world, world->message[0] != '\0', "%s: no message", what);
}

static void refuse_places(struct world *world, const struct prs_op *put, const struct prs_op *set)
{
    struct prs_op op = *put;
    op.remote_offset = WORLD_BYTES - 63;
    refuse(world, op, "past the remote region");
    op.remote_offset = UINT64_MAX - 7;
    refuse(world, op, "a remote offset that overflows");
    op = *put;
    op.local_offset = WORLD_BYTES - 63;
    refuse(world, op, "past the local region");
    op.local_offset = UINT64_MAX - 7;
    refuse(world, op, "a local offset that overflows");
    op.kind = PRS_OP_GET;
    refuse(world, op, "a get past the local region");
    op = *put;
    op.local = NULL;
    refuse(world, op, "no local region");
    op = *put;
    op.remote = NULL;
    refuse(world, op, "no remote region");
    op = *put;
    op.remote = world->pe[0].remote[2];
    refuse(world, op, "another peer's region");
    op = *set;
    op.remote_offset = WORLD_BYTES - 4;
    refuse(world, op, "a word past the region");
    op.remote_offset = WORLD_HALF + 4;
    refuse(world, op, "an unaligned word");
}

static void refuse_shapes(struct world *world, const struct prs_op *put,
                          const struct prs_caps *caps)
{
    struct prs_op op = *put;
    op.bytes = 0;
    refuse(world, op, "an empty put without an immediate");
    op.kind = PRS_OP_GET;
    refuse(world, op, "an empty get");
    op = *put;
    op.kind = PRS_OP_KIND_COUNT;
    refuse(world, op, "an unknown kind");
    op = *put;
    op.lane = (uint8_t)caps->lanes_max;
    refuse(world, op, "a lane that is not there");
    op = *put;
    op.peer = WORLD_PES;
    refuse(world, op, "a peer that is not there");
    op = *put;
    op.flags = PRS_OP_INLINE;
    op.inline_source = world->pe[0].memory;
    op.bytes = caps->inline_bytes + 1;
    refuse(world, op, "too much inline");
    if (caps->fence_scope == PRS_FENCE_NONE) {
        op = *put;
        op.flags = PRS_OP_FENCE;
        refuse(world, op, "a fence flag that is not granted");
    }
    if (caps->immediate_bits < 64) {
        op = *put;
        op.flags = PRS_OP_IMMEDIATE;
        op.immediate = UINT64_MAX;
        refuse(world, op, "an immediate that is too wide");
    }
    op = world_atomic(world, 0, 1, WORLD_HALF, PERSEUS_ATOMIC_ADD, 1, 0);
    op.atomic = PERSEUS_ATOMIC_COMPARE_SWAP + 1;
    refuse(world, op, "an unknown atomic");
    if (caps->atomics == 0) {
        op.atomic = PERSEUS_ATOMIC_ADD;
        refuse(world, op, "an atomic that is not granted");
    }
}

static void test_bad_input(const struct row *row)
{
    struct prs_caps caps = world_caps(row);
    struct world *world = world_open(row, 1);
    struct prs_op put = world_put(world, 0, 1, 0, WORLD_HALF, 64, 0);
    struct prs_op set = world_set(world, 0, 1, WORLD_HALF, 1, 0);
    refuse_places(world, &put, &set);
    refuse_shapes(world, &put, &caps);
    world_steps(world, 50);
    world_check(world, world->pe[0].completed == 0, "a refused operation completed");
    world_check(world, world_is_filled(world, 1, 0, WORLD_BYTES, 0), "it moved data");
    memset(world->pe[0].memory, 9, 64);
    world_post(world, 0, &put); /* and the endpoint is as good as before */
    world_drain(world);
    world_check(world, world_is_filled(world, 1, WORLD_HALF, 64, 9), "lost");
    world_close(world);
}

const struct contract_case contract_post_cases[] = {
    {"again", test_again},
    {"one_completion", test_one_completion},
    {"more_and_flush", test_more_and_flush},
    {"inline_is_copied", test_inline_is_copied},
    {"bad_input", test_bad_input},
    {0},
};
