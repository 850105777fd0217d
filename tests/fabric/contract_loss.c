/* SPDX-License-Identifier: Apache-2.0 */
/* Ends: an endpoint that closes with work in flight, and a peer that goes away. */
#include "suite.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

static void post_some(struct world *world, uint32_t from, uint32_t to, uint32_t n)
{
    struct world_pe *pe = &world->pe[from];
    for (uint32_t i = 0; i < n; i++) {
        struct prs_op op = world_put(world, from, to, 0, WORLD_HALF, 4096, pe->posted);
        op.flags = i % 3 == 0 ? PRS_OP_MORE : 0;
        enum perseus_status status = pe->fabric->ops->post(pe->endpoint, &op);
        world_check(world, status == PERSEUS_OK || status == PERSEUS_AGAIN, "post: %s",
                    perseus_status_name(status));
        pe->posted += status == PERSEUS_OK;
    }
}

/* The initiator closes: nothing of it may be touched any more (the sanitizers watch), and the
 * others go on. */
static void test_close_in_flight(const struct row *row)
{
    world_caps(row);
    for (uint64_t seed = 1; seed <= row->seeds / 8 + 1; seed++) {
        struct world *world = world_open(row, seed);
        post_some(world, 0, 1, 40);
        post_some(world, 0, 2, 40);
        world_steps(world, (uint32_t)(seed % 16));
        world_close_pe(world, 0);
        memset(world->pe[1].memory, 3, 64);
        struct prs_op op = world_put(world, 1, 2, 0, WORLD_HALF + 8192, 64, 0);
        world_post(world, 1, &op);
        world_drain(world);
        world_check(world, world_is_filled(world, 2, WORLD_HALF + 8192, 64, 3), "lost");
        world_close(world);
    }
}

/* Posts until the loss shows at the post itself. */
static void post_until_lost(struct world *world)
{
    enum perseus_status status = PERSEUS_OK;
    uint32_t *posted = &world->pe[0].posted;
    while (status == PERSEUS_OK && *posted < WORLD_COOKIES) {
        struct prs_op op = world_put(world, 0, 1, 0, WORLD_HALF, 64, *posted);
        status = world_try(world, 0, &op);
        world_step(world);
    }
    world_check(world, status == PERSEUS_PEER_LOST, "after the loss: %s",
                perseus_status_name(status));
}

static void test_lost_peer(const struct row *row)
{
    world_caps(row);
    for (uint64_t seed = 1; seed <= row->seeds / 8 + 1 && row->notices_loss; seed++) {
        struct world *world = world_open(row, seed);
        memset(world->pe[0].memory, 4, 4096);
        post_some(world, 0, 1, 20);
        world_steps(world, (uint32_t)(seed % 16));
        world_close_pe(world, 1);
        post_until_lost(world);
        world_drain(world); /* every accepted one comes back, once */
        world_check(world, world->message[0] != '\0', "no message");
        struct prs_op op = world_put(world, 0, 2, 0, WORLD_HALF, 64, WORLD_COOKIES - 1);
        world_post(world, 0, &op);
        world_drain(world);
        world_check(world,
                    world->pe[0].status[WORLD_COOKIES - 1] == PERSEUS_OK &&
                        world_is_filled(world, 2, WORLD_HALF, 64, 4),
                    "the other peer must live on");
        world_close(world);
    }
}

const struct contract_case contract_loss_cases[] = {
    {"close_in_flight", test_close_in_flight}, {"lost_peer", test_lost_peer}, {0}};
