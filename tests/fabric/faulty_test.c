/* SPDX-License-Identifier: Apache-2.0 */
/* The decorator's own promises: link model, failures, limits, and that a seed repeats. */
#include "memory.h"
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* ---- the link, with a clock that stands still until told ---- */

static const struct row link_row = {
    .name = "link",
    .open = open_faulty,
    .faulty = {.latency_ns = 5000, .bytes_per_second = 1000000000}, /* a byte a nanosecond */
};

static struct world *still_world(const struct row *row)
{
    struct world *world = world_open(row, 1);
    world->tick_ns = 0;
    world->clock_ns = 1000000;
    world->events_per_poll = WORLD_EVENTS;
    memset(world->pe[0].memory, 6, 8192);
    return world;
}

/* Everything that can happen at this time has happened afterwards. */
static void at(struct world *world, uint64_t ns)
{
    world->clock_ns = 1000000 + ns;
    world_steps(world, 8);
}

static void test_round_trip(void **state)
{
    (void)state;
    struct world *world = still_world(&link_row);
    struct prs_op op = world_put(world, 0, 1, 0, WORLD_HALF, 1000, 0);
    world_post(world, 0, &op);
    at(world, 5999);
    assert_true(world_is_filled(world, 1, WORLD_HALF, 1000, 0));
    at(world, 6000); /* 1000 bytes, and the latency */
    assert_true(world_is_filled(world, 1, WORLD_HALF, 1000, 6));
    at(world, 10999);
    assert_int_equal(world->pe[0].completed, 0);
    at(world, 11000); /* and back */
    assert_int_equal(world->pe[0].completed, 1);
    world_close(world);
}

static void test_link_is_shared_per_peer(void **state)
{
    (void)state;
    struct world *world = still_world(&link_row);
    struct prs_op first = world_put(world, 0, 1, 0, WORLD_HALF, 1000, 0);
    struct prs_op second = world_put(world, 0, 1, 0, WORLD_HALF + 4096, 1000, 1);
    struct prs_op other = world_put(world, 0, 2, 0, WORLD_HALF, 1000, 2);
    world_post(world, 0, &first);
    world_post(world, 0, &second);
    world_post(world, 0, &other);
    at(world, 6000);
    assert_true(world_is_filled(world, 1, WORLD_HALF, 1000, 6));
    assert_true(world_is_filled(world, 2, WORLD_HALF, 1000, 6));
    at(world, 6999);
    assert_true(world_is_filled(world, 1, WORLD_HALF + 4096, 1000, 0));
    at(world, 7000);
    assert_true(world_is_filled(world, 1, WORLD_HALF + 4096, 1000, 6));
    world_close(world);
}

/* However late jitter makes the put, the flagged signal is later. */
static void test_fence_waits_for_the_link(void **state)
{
    (void)state;
    struct row row = link_row;
    row.unordered_mask = PRS_ORDER_EVERY_PAIR;
    row.faulty.bytes_per_second = 0;
    row.faulty.jitter_ns = 100000;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct world *world = world_open(&row, seed);
        struct prs_op put = world_put(world, 0, 1, 0, WORLD_HALF, 1000, 0);
        struct prs_op set = world_set(world, 0, 1, WORLD_HALF + 4096, 1, 1);
        set.flags = PRS_OP_FENCE;
        memset(world->pe[0].memory, 6, 1000);
        world_post(world, 0, &put);
        world_post(world, 0, &set);
        while (world_word(world, 1, WORLD_HALF + 4096) == 0) {
            world_step(world);
        }
        world_check(world, world_is_filled(world, 1, WORLD_HALF, 1000, 6), "the fence leaks");
        world_close(world);
    }
}

/* Jitter alone shuffles nothing within a lane, granted order or not. */
static void test_jitter_keeps_order(void **state)
{
    (void)state;
    struct row row = {.name = "jitter",
                      .open = open_faulty,
                      .unordered_mask = PRS_ORDER_EVERY_PAIR,
                      .faulty.jitter_ns = 100000};
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct world *world = world_open(&row, seed);
        for (uint32_t i = 0; i < 8; i++) {
            struct prs_op op = world_set(world, 0, 1, WORLD_HALF + 8ull * i, 1, i);
            world_post(world, 0, &op);
        }
        while (world->pe[0].completed < world->pe[0].posted) {
            world_step(world);
            for (uint32_t i = 1; i < 8; i++) {
                world_check(world,
                            world_word(world, 1, WORLD_HALF + 8ull * i) <=
                                world_word(world, 1, WORLD_HALF + 8ull * (i - 1)),
                            "signal %u was overtaken", i - 1);
            }
        }
        world_close(world);
    }
}

static void test_doorbell(void **state)
{
    (void)state;
    struct row row = {.name = "free", .open = open_faulty};
    struct world *world = still_world(&row);
    struct prs_op op = world_put(world, 0, 1, 0, WORLD_HALF, 64, 0);
    op.flags = PRS_OP_MORE;
    world_post(world, 0, &op);
    at(world, 1000);
    assert_int_equal(world->pe[0].completed, 0); /* nobody has rung */
    assert_int_equal(world->pe[0].fabric->ops->flush(world->pe[0].endpoint), PERSEUS_OK);
    at(world, 2000);
    assert_int_equal(world->pe[0].completed, 1);
    world_close(world);
}

/* ---- the adversary ---- */

static const struct row shuffled_row = {
    .name = "shuffled",
    .open = open_faulty,
    .unordered_mask = PRS_ORDER_EVERY_PAIR,
    .faulty = {.reorder = true, .again_probability = 0.25, .jitter_ns = 2000},
};

struct trace {
    uint64_t cookies[64];
    uint32_t n;
};

static void trace_completion(struct world_pe *pe, uint64_t cookie)
{
    struct trace *trace = pe->context;
    trace->cookies[trace->n++] = cookie;
}

static struct trace run_trace(uint64_t seed)
{
    struct trace trace = {.n = 0};
    struct world *world = world_open(&shuffled_row, seed);
    world->pe[0].context = &trace;
    world->pe[0].on_completion = trace_completion;
    for (uint32_t i = 0; i < 64; i++) {
        struct prs_op op = world_put(world, 0, 1 + i % 2, 0, WORLD_HALF, 64, i);
        world_post(world, 0, &op);
    }
    world_drain(world);
    world_close(world);
    return trace;
}

static void test_seed_repeats(void **state)
{
    (void)state;
    uint32_t differing = 0, unordered = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct trace first = run_trace(seed), again = run_trace(seed),
                     other = run_trace(seed + 100);
        assert_memory_equal(first.cookies, again.cookies, sizeof first.cookies);
        differing += memcmp(first.cookies, other.cookies, sizeof first.cookies) != 0;
        for (uint32_t i = 1; i < 64; i++) {
            unordered += first.cookies[i] < first.cookies[i - 1];
        }
    }
    assert_true(differing >= 19);
    assert_true(unordered > 100);
}

/* What is behind a flagged operation may pass it once the way is free: no caller may rely on it. */
static void test_flagged_can_be_overtaken(void **state)
{
    (void)state;
    uint32_t overtakes = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct world *world = world_open(&shuffled_row, seed);
        struct prs_op put = world_put(world, 0, 1, 0, WORLD_HALF, 64, 0);
        struct prs_op flagged = world_set(world, 0, 1, WORLD_HALF + 64, 1, 1);
        struct prs_op behind = world_set(world, 0, 1, WORLD_HALF + 72, 1, 2);
        flagged.flags = PRS_OP_FENCE;
        world_post(world, 0, &put);
        world_post(world, 0, &flagged);
        world_post(world, 0, &behind);
        while (world_word(world, 1, WORLD_HALF + 64) == 0 &&
               world_word(world, 1, WORLD_HALF + 72) == 0) {
            world_step(world);
        }
        overtakes += world_word(world, 1, WORLD_HALF + 64) == 0;
        world_close(world);
    }
    assert_in_range(overtakes, 5, 95);
}

static void test_again_share(void **state)
{
    (void)state;
    struct row row = {.name = "again", .open = open_faulty, .faulty.again_probability = 0.5};
    struct world *world = still_world(&row);
    uint32_t refused = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        struct prs_op op = world_put(world, 0, 1, 0, WORLD_HALF, 64, i);
        enum perseus_status status = world->pe[0].fabric->ops->post(world->pe[0].endpoint, &op);
        assert_true(status == PERSEUS_OK || status == PERSEUS_AGAIN);
        refused += status == PERSEUS_AGAIN;
        world->pe[0].posted += status == PERSEUS_OK;
    }
    assert_in_range(refused, 400, 600);
    world_drain(world);
    world_close(world);
}

/* ---- failures ---- */

#define FAIL_POSTS 10
#define FAIL_AT    5

static void check_failures(struct world *world, enum perseus_status status[FAIL_POSTS])
{
    for (uint32_t i = 0; i < FAIL_POSTS; i++) {
        bool is_there = world_is_filled(world, 1, WORLD_HALF + 64 * i, 64, 6);
        world_check(world, is_there == (status[i] == PERSEUS_OK), "%u: status %s, data %d", i,
                    perseus_status_name(status[i]), is_there);
        world_check(world,
                    status[i] == (i < FAIL_AT   ? PERSEUS_OK
                                  : i > FAIL_AT ? PERSEUS_PEER_LOST
                                                : PERSEUS_IO),
                    "%u: status %s", i, perseus_status_name(status[i]));
    }
}

/* In order, so that it is known what was on its way when the operation failed. */
static void test_fail_nth(void **state)
{
    (void)state;
    struct row row = {.name = "fail", .open = open_faulty, .faulty.fail_nth = FAIL_AT + 1};
    struct world *world = still_world(&row);
    for (uint32_t i = 0; i < FAIL_POSTS; i++) {
        struct prs_op op = world_put(world, 0, 1, 64 * i, WORLD_HALF + 64 * i, 64, i);
        op.flags = i == FAIL_AT + 1 ? PRS_OP_UNTRACKED : 0; /* its error comes all the same */
        world_post(world, 0, &op);
    }
    world->pe[0].posted++;
    world_drain(world);
    check_failures(world, world->pe[0].status);
    assert_non_null(strstr(world->message, "injected"));
    struct prs_op op = world_put(world, 0, 1, 0, WORLD_HALF, 64, 50);
    assert_int_equal(world_try(world, 0, &op), PERSEUS_PEER_LOST);
    op = world_put(world, 0, 2, 0, WORLD_HALF, 64, 51);
    world_post(world, 0, &op);
    world_drain(world);
    assert_int_equal(world->pe[0].status[51], PERSEUS_OK);
    world_close(world);
}

/* A signal behind a failed put never arrives, whether order or a flag holds it. */
static void test_no_signal_without_payload(void **state)
{
    (void)state;
    uint32_t arrived = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct row row = shuffled_row;
        row.unordered_mask = seed % 2 == 0 ? 0 : PRS_ORDER_EVERY_PAIR;
        row.faulty.error_probability = 0.3;
        struct world *world = world_open(&row, seed);
        memset(world->pe[0].memory, 6, 64);
        struct prs_op put = world_put(world, 0, 1, 0, WORLD_HALF, 64, 0);
        struct prs_op set = world_set(world, 0, 1, WORLD_HALF + 64, 1, 1);
        set.flags = seed % 2 == 0 ? 0 : PRS_OP_FENCE;
        world_post(world, 0, &put);
        if (world_try(world, 0, &set) == PERSEUS_OK) {
            world_drain(world);
            bool is_seen = world_word(world, 1, WORLD_HALF + 64) == 1;
            arrived += is_seen;
            world_check(world, !is_seen || world_is_filled(world, 1, WORLD_HALF, 64, 6),
                        "a signal without its payload");
        }
        world_close(world);
    }
    assert_in_range(arrived, 50, 150); /* about 0.7 * 0.7 of them */
}

static enum perseus_status reconnect(struct world *world, uint32_t *out_peer)
{
    unsigned char address[PRS_ADDRESS_MAX];
    size_t bytes = sizeof address;
    const struct prs_fabric_ops *ops = world->pe[0].fabric->ops;
    assert_int_equal(ops->endpoint_address(world->pe[1].endpoint, address, &bytes), PERSEUS_OK);
    return ops->connect(world->pe[0].endpoint, address, bytes, out_peer);
}

static void test_fail_permanent(void **state)
{
    (void)state;
    for (int is_permanent = 0; is_permanent < 2; is_permanent++) {
        struct row row = {.name = "permanent",
                          .open = open_faulty,
                          .faulty = {.fail_nth = 1, .fail_permanent = is_permanent}};
        struct world *world = still_world(&row);
        struct prs_op op = world_put(world, 0, 1, 0, WORLD_HALF, 64, 0);
        world_post(world, 0, &op);
        world_drain(world);
        uint32_t peer = 0;
        enum perseus_status status = reconnect(world, &peer);
        assert_int_equal(status, is_permanent ? PERSEUS_PEER_LOST : PERSEUS_OK);
        assert_int_equal(peer, is_permanent ? 0 : WORLD_PES);
        world_close(world);
    }
}

/* Refused for good: nothing of it happens, no event comes, and what is posted behind it goes
 * through. */
static void test_a_refused_post_is_nothing(void **state)
{
    (void)state;
    struct row row = {.name = "refusing", .open = open_faulty, .faulty = {.refuse_nth = 2}};
    struct world *world = still_world(&row);
    const struct prs_fabric_ops *ops = world->pe[0].fabric->ops;
    for (uint64_t i = 0; i < 3; i++) {
        struct prs_op op =
            world_put(world, 0, 1, 0, WORLD_HALF + 1000 * i, 1000, world->pe[0].posted);
        enum perseus_status status = ops->post(world->pe[0].endpoint, &op);
        assert_int_equal(status, i == 1 ? PERSEUS_LIMIT : PERSEUS_OK);
        world->pe[0].posted += status == PERSEUS_OK;
    }
    world_drain(world);
    assert_int_equal(world->pe[0].completed, 2);
    assert_true(world_is_filled(world, 1, WORLD_HALF, 1000, 6));
    assert_true(world_is_filled(world, 1, WORLD_HALF + 1000, 1000, 0));
    assert_true(world_is_filled(world, 1, WORLD_HALF + 2000, 1000, 6));
    world_close(world);
}

/* As a peer does that is connecting: AGAIN from the first post on, for a time; others are not. */
static void test_a_busy_peer_says_again_for_a_time(void **state)
{
    (void)state;
    struct row row = {
        .name = "busy", .open = open_faulty, .faulty = {.busy_peer = 1 + 2, .busy_ns = 5000}};
    struct world *world = still_world(&row);
    const struct prs_fabric_ops *ops = world->pe[0].fabric->ops;
    struct prs_op other = world_put(world, 0, 1, 0, WORLD_HALF, 64, 0);
    struct prs_op busy = world_put(world, 0, 2, 0, WORLD_HALF, 64, 0);
    for (uint64_t ns = 1000; ns <= 7000; ns += 1000) {
        at(world, ns);
        other.cookie = world->pe[0].posted;
        world_post(world, 0, &other);
        busy.cookie = world->pe[0].posted;
        enum perseus_status status = ops->post(world->pe[0].endpoint, &busy);
        assert_int_equal(status, ns < 6000 ? PERSEUS_AGAIN : PERSEUS_OK);
        world->pe[0].posted += status == PERSEUS_OK;
    }
    world_close(world);
}

/* ---- limits ---- */

static void test_queue_is_bounded(void **state)
{
    (void)state;
    struct row row = {.name = "far", .open = open_faulty, .faulty.latency_ns = 1000000};
    struct world *world = still_world(&row);
    uint32_t room = world->pe[0].fabric->caps.inflight_max;
    enum perseus_status status = PERSEUS_OK;
    while (status == PERSEUS_OK && world->pe[0].posted <= room) {
        struct prs_op op = world_put(world, 0, 1, 0, WORLD_HALF, 64, world->pe[0].posted);
        status = world->pe[0].fabric->ops->post(world->pe[0].endpoint, &op);
        world->pe[0].posted += status == PERSEUS_OK;
        world_step(world);
    }
    assert_int_equal(status, PERSEUS_AGAIN);
    assert_int_equal(world->pe[0].posted, room);
    world->tick_ns = 1000;
    world_drain(world);
    world_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_link_is_shared_per_peer),
        cmocka_unit_test(test_fence_waits_for_the_link),
        cmocka_unit_test(test_jitter_keeps_order),
        cmocka_unit_test(test_doorbell),
        cmocka_unit_test(test_seed_repeats),
        cmocka_unit_test(test_flagged_can_be_overtaken),
        cmocka_unit_test(test_again_share),
        cmocka_unit_test(test_fail_nth),
        cmocka_unit_test(test_no_signal_without_payload),
        cmocka_unit_test(test_fail_permanent),
        cmocka_unit_test(test_a_refused_post_is_nothing),
        cmocka_unit_test(test_a_busy_peer_says_again_for_a_time),
        cmocka_unit_test(test_queue_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
