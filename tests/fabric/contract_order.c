/* SPDX-License-Identifier: Apache-2.0 */
/* What may be seen before what: granted order, fence flags, and that an adversary breaks all the
 * rest. The target is looked at after every single event. */
#include "suite.h"
#include "world.h"

#include <string.h>

#define ROUNDS     2
#define SIGNAL_AT  WORLD_HALF
#define DATA_AT    (WORLD_HALF + 4096)
#define DATA_BYTES 1536 /* more than any back end writes word by word */
#define PUTS_MAX   6

/* ---- two operations on one lane ---- */

#define NO_BIT (1u << 31) /* never granted */
struct pair {
    enum prs_op_kind earlier, later;
    uint32_t granted_by; /* all of these order bits */
};

static void fill_sources(struct world *world, unsigned char value)
{
    memset(world->pe[0].memory, value, (PUTS_MAX + 1) * DATA_BYTES);
}

static void clear_target(struct world *world, uint32_t pe)
{
    memset(world->pe[pe].memory + WORLD_HALF, 0, 4096 + (PUTS_MAX + 2) * DATA_BYTES);
}

/* The operation number `at` of a pair or a fenced group; its effect is `value` at its own place. */
static struct prs_op make_op(const struct world *world, enum prs_op_kind kind, uint32_t to,
                             uint32_t at, unsigned char value)
{
    uint64_t cookie = world->pe[0].posted;
    if (kind == PRS_OP_PUT) {
        return world_put(world, 0, to, at * DATA_BYTES, DATA_AT + at * DATA_BYTES, DATA_BYTES,
                         cookie);
    }
    uint64_t offset = SIGNAL_AT + 8 * at;
    if (kind == PRS_OP_SIGNAL_SET) {
        return world_set(world, 0, to, offset, value, cookie);
    }
    return world_atomic(world, 0, to, offset, PERSEUS_ATOMIC_ADD, value, cookie);
}

static bool is_visible(const struct world *world, enum prs_op_kind kind, uint32_t to, uint32_t at,
                       unsigned char value)
{
    if (kind == PRS_OP_PUT) {
        return world_is_filled(world, to, DATA_AT + at * DATA_BYTES, DATA_BYTES, value);
    }
    return world_word(world, to, SIGNAL_AT + 8 * at) == value;
}

static const struct pair pairs[] = {
    {PRS_OP_PUT, PRS_OP_PUT, PRS_ORDER_PUT_PUT},
    {PRS_OP_PUT, PRS_OP_SIGNAL_SET, PRS_ORDER_PUT_SET},
    {PRS_OP_PUT, PRS_OP_ATOMIC, PRS_ORDER_PUT_ATOMIC},
    {PRS_OP_SIGNAL_SET, PRS_OP_SIGNAL_SET, PRS_ORDER_SET_SET},
    {PRS_OP_SIGNAL_SET, PRS_OP_PUT, PRS_ORDER_SET_SET},
    {PRS_OP_SIGNAL_SET, PRS_OP_ATOMIC, PRS_ORDER_SET_SET | PRS_ORDER_PUT_ATOMIC},
    {PRS_OP_ATOMIC, PRS_OP_ATOMIC, PRS_ORDER_SET_SET | PRS_ORDER_PUT_ATOMIC},
    {PRS_OP_ATOMIC, PRS_OP_PUT, NO_BIT},
    {PRS_OP_ATOMIC, PRS_OP_SIGNAL_SET, NO_BIT},
};
#define PAIRS (sizeof pairs / sizeof pairs[0])

static bool is_possible(const struct pair *pair, const struct prs_caps *caps)
{
    return caps->atomics != 0 || (pair->earlier != PRS_OP_ATOMIC && pair->later != PRS_OP_ATOMIC);
}

static bool is_granted(const struct pair *pair, const struct prs_caps *caps)
{
    return (caps->order & pair->granted_by) == pair->granted_by;
}

/* Whether the later one was ever seen without the earlier one. */
static bool run_pair(struct world *world, const struct pair *pair, unsigned char value)
{
    fill_sources(world, value);
    struct prs_op earlier = make_op(world, pair->earlier, 1, 0, value);
    world_post(world, 0, &earlier);
    struct prs_op later = make_op(world, pair->later, 1, 1, value);
    world_post(world, 0, &later);
    bool is_overtaken = false;
    while (world->pe[0].completed < world->pe[0].posted) {
        world_step(world);
        is_overtaken |= is_visible(world, pair->later, 1, 1, value) &&
                        !is_visible(world, pair->earlier, 1, 0, value);
    }
    clear_target(world, 1);
    return is_overtaken;
}

static void test_lane_order(const struct row *row)
{
    struct prs_caps caps = world_caps(row);
    uint32_t overtakes[PAIRS] = {0};
    for (uint64_t seed = 1; seed <= row->seeds; seed++) {
        struct world *world = world_open(row, seed);
        for (uint32_t value = 1; value <= ROUNDS * PAIRS; value++) {
            uint32_t i = value % PAIRS;
            if (is_possible(&pairs[i], &caps) && run_pair(world, &pairs[i], (unsigned char)value)) {
                world_check(world, !is_granted(&pairs[i], &caps),
                            "round %u: kind %u overtook kind %u", value, pairs[i].later,
                            pairs[i].earlier);
                overtakes[i]++;
            }
        }
        world_close(world);
    }
    for (uint32_t i = 0; i < PAIRS && row->shuffles; i++) {
        struct world world = {.row = row};
        world_check(
            &world,
            overtakes[i] > 0 || is_granted(&pairs[i], &caps) || !is_possible(&pairs[i], &caps),
            "the adversary never let kind %u overtake kind %u", pairs[i].later, pairs[i].earlier);
    }
}

/* ---- fence flags ---- */

struct group_op {
    enum prs_op_kind kind;
    uint32_t to;
    uint8_t lane;
    bool is_ordered; /* within the reach of the fence */
};

static enum prs_op_kind random_kind(struct world *world)
{
    return prs_rng_below(&world->rng, 2) == 0 ? PRS_OP_PUT : PRS_OP_SIGNAL_SET;
}

/* Spreads an operation over the places that `scope` reaches from (PE 1, lane 0), and sometimes
 * beyond. */
static struct group_op random_place(struct world *world, const struct prs_caps *caps)
{
    struct group_op op = {.kind = random_kind(world), .to = 1};
    op.to += prs_rng_below(&world->rng, 2);
    op.lane = (uint8_t)prs_rng_below(&world->rng, caps->lanes_max);
    op.is_ordered = caps->fence_scope == PRS_FENCE_ENDPOINT ||
                    (op.to == 1 && (caps->fence_scope == PRS_FENCE_PEER || op.lane == 0));
    return op;
}

/* Before the flagged operation, the flagged one, and two behind it. */
#define GROUP_OPS (PUTS_MAX + 3)

static void check_group(const struct world *world, const struct group_op *group, uint32_t n,
                        unsigned char value)
{
    bool is_fence_open = true, is_behind_seen = false;
    /* From the last one to the first: a device writes while we look, and what is seen of a later
     * one must be true of those before it from then on. */
    for (uint32_t i = n; i-- > 0;) {
        bool is_seen = is_visible(world, group[i].kind, group[i].to, i, value);
        if (i < PUTS_MAX) {
            is_fence_open &= is_seen || !group[i].is_ordered;
        } else {
            is_behind_seen |= is_seen && group[i].is_ordered;
        }
    }
    world_check(world, is_fence_open || !is_behind_seen, "round %u: the fence leaks", value);
}

static void run_group(struct world *world, const struct prs_caps *caps, unsigned char value)
{
    struct group_op group[GROUP_OPS];
    memset(world->pe[0].memory, value, GROUP_OPS * DATA_BYTES);
    for (uint32_t i = 0; i < GROUP_OPS; i++) {
        group[i] = random_place(world, caps);
        if (i == PUTS_MAX) {
            group[i] = (struct group_op){.kind = random_kind(world), .to = 1, .is_ordered = true};
        }
        struct prs_op op = make_op(world, group[i].kind, group[i].to, i, value);
        op.lane = group[i].lane;
        op.flags = i == PUTS_MAX ? PRS_OP_FENCE : 0;
        world_post(world, 0, &op);
        check_group(world, group, i + 1, value);
    }
    while (world->pe[0].completed < world->pe[0].posted) {
        world_step(world);
        check_group(world, group, GROUP_OPS, value);
    }
    for (uint32_t i = 0; i < GROUP_OPS; i++) {
        world_check(world, is_visible(world, group[i].kind, group[i].to, i, value), "lost");
    }
}

static void test_fence_flag(const struct row *row)
{
    struct prs_caps caps = world_caps(row);
    for (uint64_t seed = 1; seed <= row->seeds && caps.fence_scope != PRS_FENCE_NONE; seed++) {
        struct world *world = world_open(row, seed);
        for (unsigned char value = 1; value <= ROUNDS; value++) {
            run_group(world, &caps, value);
            memset(world->pe[1].memory + WORLD_HALF, 0, 4096 + GROUP_OPS * DATA_BYTES);
            memset(world->pe[2].memory + WORLD_HALF, 0, 4096 + GROUP_OPS * DATA_BYTES);
        }
        world_close(world);
    }
}

const struct contract_case contract_order_cases[] = {
    {"lane_order", test_lane_order}, {"fence_flag", test_fence_flag}, {0}};
