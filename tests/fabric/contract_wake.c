/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeping: who has been told that it may sleep is woken by everything that its poll would move,
 * and by nothing else. PE 1 sleeps, as a progress thread does; PE 0 works. */
#include "suite.h"
#include "world.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#define ROUNDS      40
#define ROUND_BYTES 2048
#define NAP_MS      1 /* of the sleeper, between two turns of PE 0, which shares its thread */
#define QUIET_MS    20

#define SLEEPER 1u

static bool is_readable(const struct world *world, int for_ms)
{
    const struct world_pe *pe = &world->pe[SLEEPER];
    struct pollfd watched = {.fd = pe->fabric->ops->wait_fd(pe->endpoint), .events = POLLIN};
    world_check(world, watched.fd >= 0, "wait_fd: %d", watched.fd);
    return poll(&watched, 1, for_ms) == 1;
}

/* Polls the sleeper until it may sleep. Returns how long, at most. */
static uint64_t fall_asleep(struct world *world)
{
    struct world_pe *pe = &world->pe[SLEEPER];
    uint64_t limit_ns = 0;
    enum perseus_status status = PERSEUS_AGAIN;
    while (status == PERSEUS_AGAIN) {
        while (world_poll(world, SLEEPER) > 0) {
        }
        status = pe->fabric->ops->arm(pe->endpoint, &limit_ns);
        world_poll(world, 0); /* whom it may be waiting for */
        world_check_time(world);
    }
    world_check(world, status == PERSEUS_OK, "arm: %s", perseus_status_name(status));
    return limit_ns;
}

typedef bool arrived_fn(const struct world *world, uint32_t round);

/* Lives as a progress thread: polls only when it is woken, or when its sleep was to end. What
 * others put into its memory while it slept must have woken it, too. */
static void sleep_until(struct world *world, arrived_fn *arrived, bool at_sleeper, uint32_t round)
{
    while (!arrived(world, round)) {
        uint64_t limit_ns = fall_asleep(world);
        bool before = arrived(world, round); /* moved by its own look */
        while (!is_readable(world, NAP_MS) && limit_ns == UINT64_MAX && !arrived(world, round)) {
            world_poll(world, 0);
            world_check_time(world);
        }
        world_check(world,
                    before || !at_sleeper || limit_ns != UINT64_MAX || is_readable(world, NAP_MS),
                    "round %u arrived and woke nobody", round);
        world_poll(world, SLEEPER);
        world_poll(world, 0);
    }
}

static void settle(struct world *world)
{
    world_drain(world);
    world_steps(world, 20);
}

/* AGAIN: perhaps a connection is being made, for which the sleeper must be woken. */
static void post_from(struct world *world, uint32_t from, const struct prs_op *op)
{
    struct world_pe *pe = &world->pe[from];
    enum perseus_status status = PERSEUS_AGAIN;
    while ((status = pe->fabric->ops->post(pe->endpoint, op)) == PERSEUS_AGAIN) {
        world_poll(world, 0);
        if (from == SLEEPER) {
            world_poll(world, SLEEPER);
        } else if (is_readable(world, NAP_MS)) {
            fall_asleep(world);
        }
        world_check_time(world);
    }
    world_check(world, status == PERSEUS_OK, "post: %s", perseus_status_name(status));
    pe->posted++;
}

static bool expect(struct world_pe *pe, uint32_t peer, uint64_t immediate)
{
    (void)pe, (void)peer, (void)immediate;
    return true;
}

static struct world *open_for(const struct row *row)
{
    struct world *world = world_open(row, 1);
    world->events_per_poll = WORLD_EVENTS;
    for (uint32_t i = 0; i < WORLD_PES; i++) {
        world->pe[i].on_immediate = expect;
    }
    return world;
}

/* ---- what wakes ---- */

static bool put_arrived(const struct world *world, uint32_t round)
{
    const unsigned char *at =
        world->pe[SLEEPER].memory + WORLD_HALF + (uint64_t)round * ROUND_BYTES;
    return world_is_drawn(at, ROUND_BYTES, (unsigned char)(round + 1));
}

static bool nothing_left(const struct world *world, uint32_t round)
{
    (void)round;
    return world->pe[SLEEPER].completed == world->pe[SLEEPER].posted;
}

static bool other_has_it(const struct world *world, uint32_t round)
{
    (void)round;
    return world->pe[0].completed == world->pe[0].posted;
}

static struct prs_op put_of_round(struct world *world, uint32_t from, uint32_t to, uint32_t round)
{
    uint64_t at = (uint64_t)round * ROUND_BYTES;
    world_draw(world->pe[from].memory + at, ROUND_BYTES, (unsigned char)(round + 1));
    return world_put(world, from, to, at, WORLD_HALF + at, ROUND_BYTES, round);
}

static void test_wakes(const struct row *row)
{
    struct prs_caps caps = world_caps(row);
    if (!caps.wakes) {
        return;
    }
    struct world *world = open_for(row);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct prs_op op;
        switch (prs_rng_below(&world->rng, 4)) {
        case 0: /* bytes alone */
            fall_asleep(world);
            op = put_of_round(world, 0, SLEEPER, round);
            post_from(world, 0, &op);
            sleep_until(world, put_arrived, !caps.bytes_are_silent, round);
            break;
        case 1: /* an event, where there are any */
            fall_asleep(world);
            op = put_of_round(world, 0, SLEEPER, round);
            op.flags |= caps.immediate_bits > 0 ? PRS_OP_IMMEDIATE : 0;
            post_from(world, 0, &op);
            sleep_until(world, put_arrived, !caps.bytes_are_silent || caps.immediate_bits > 0,
                        round);
            break;
        case 2: /* the completion of its own operation */
            op = put_of_round(world, SLEEPER, 0, round);
            post_from(world, SLEEPER, &op);
            sleep_until(world, nothing_left, false, round);
            break;
        default: /* somebody reads from it */
            fall_asleep(world);
            op = put_of_round(world, 0, SLEEPER, round);
            op.kind = PRS_OP_GET;
            post_from(world, 0, &op);
            sleep_until(world, other_has_it, false, round);
            break;
        }
        settle(world);
    }
    world_close(world);
}

/* ---- what does not ---- */

/* What is still under way when all is settled, such as a handshake's message that was sent twice,
 * may wake it, now and then. */
#define WAKES_MAX 8

static bool sleeps_at_last(struct world *world)
{
    for (uint32_t wakes = 0; wakes < WAKES_MAX; wakes++) {
        fall_asleep(world);
        if (!is_readable(world, QUIET_MS)) {
            return true;
        }
        settle(world);
    }
    return false;
}

static void test_lets_sleep(const struct row *row)
{
    struct prs_caps caps = world_caps(row);
    if (!caps.wakes) {
        return;
    }
    struct world *world = open_for(row);
    for (uint32_t round = 0; round < 3; round++) {
        struct prs_op op = put_of_round(world, round % 2, 1 - round % 2, round);
        op.flags |= caps.immediate_bits > 0 ? PRS_OP_IMMEDIATE : 0;
        world_post(world, round % 2, &op);
        settle(world);
        world_check(world, sleeps_at_last(world), "woken by nothing, again and again, in round %u",
                    round);
    }
    world_close(world);
}

const struct contract_case contract_wake_cases[] = {
    {"wakes", test_wakes}, {"lets_sleep", test_lets_sleep}, {0}};
