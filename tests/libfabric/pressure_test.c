/* SPDX-License-Identifier: Apache-2.0 */
/* Thousands of posts without mercy: AGAIN loses nothing, every cookie comes back once, what is
 * untracked stays silent, held doorbells ring, and closing in the middle of it is clean. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "libfabric/pair.h"
#include "libfabric/program.h"

#define BYTES (1 << 20)
#define POSTS 4000
#define SLOT  128

static _Alignas(64) unsigned char memory_a[BYTES], memory_b[BYTES];
static unsigned char seen[POSTS];

static void open_pair(struct pair *pair)
{
    memset(memory_b, 0, BYTES);
    pair_open(pair, false, memory_a, memory_b, BYTES);
}

/* Reads what there is; each good completion must be new. Returns how many. */
static uint32_t reap(struct pair *pair)
{
    struct prs_event events[8];
    assert_int_equal(side_poll(&pair->b, events, 8), 0);
    uint32_t n = side_poll(&pair->a, events, 8);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(events[i].kind, PRS_EVENT_COMPLETION);
        assert_int_equal(events[i].status, PERSEUS_OK);
        assert_int_equal(events[i].peer, pair->a.peer);
        assert_in_range(events[i].cookie, 0, POSTS - 1);
        assert_int_equal(seen[events[i].cookie], 0);
        seen[events[i].cookie] = 1;
    }
    return n;
}

static void reap_until(struct pair *pair, uint32_t *done, uint32_t wanted)
{
    uint64_t deadline = side_now_ms() + 20000;
    while (*done < wanted) {
        *done += reap(pair);
        if (side_now_ms() > deadline) {
            side_fail("%u of %u completions", *done, wanted);
        }
    }
}

/* Post number i: mixed kinds, each with a place and a content of its own. */
static struct prs_op numbered(const struct pair *pair, uint32_t i, struct prs_rng *rng)
{
    uint64_t place = (uint64_t)i * SLOT;
    struct prs_op op;
    if (i % 3 == 0) {
        op = side_set(&pair->a, place, i + 1);
    } else {
        op = side_put(&pair->a, place, place, 8 + prs_rng_below(rng, SLOT - 8));
        if (i % 3 == 1) {
            op.flags |= PRS_OP_INLINE;
            op.inline_source = memory_a + place;
        }
    }
    op.cookie = i;
    return op;
}

static void fill_sources(void)
{
    for (uint64_t i = 0; i < POSTS; i++) {
        uint64_t value = i + 1;
        memcpy(memory_a + i * SLOT, &value, sizeof value);
    }
}

static void check_arrivals(void)
{
    for (uint64_t i = 0; i < POSTS; i++) {
        uint64_t value = i + 1;
        assert_memory_equal(memory_b + i * SLOT, &value, sizeof value);
    }
}

static void again_loses_nothing(void **state)
{
    (void)state;
    struct pair pair;
    open_pair(&pair);
    fill_sources();
    memset(seen, 0, sizeof seen);
    struct prs_rng rng = prs_rng_seeded(1);
    uint32_t done = 0, refused = 0;
    for (uint32_t i = 0; i < POSTS; i++) {
        const struct prs_op op = numbered(&pair, i, &rng);
        enum perseus_status status;
        /* Polls only when refused: the worst a caller can do. */
        while ((status = pair.a.fabric->ops->post(pair.a.endpoint, &op)) == PERSEUS_AGAIN) {
            refused++;
            done += reap(&pair);
        }
        assert_int_equal(status, PERSEUS_OK);
    }
    reap_until(&pair, &done, POSTS);
    check_arrivals();
    assert_int_not_equal(refused, 0); /* or this tested nothing */
    assert_int_equal(pair.a.log_text.errors, 0);
    pair_close(&pair);
}

static void in_flight_is_bounded(void **state)
{
    (void)state;
    struct pair pair;
    open_pair(&pair);
    uint32_t most = pair.a.fabric->caps.inflight_max;
    struct prs_op op = side_set(&pair.a, 0, 1);
    uint32_t posted = 0;
    while (pair.a.fabric->ops->post(pair.a.endpoint, &op) == PERSEUS_OK) {
        op.cookie = ++posted;
        assert_true(posted <= most);
    }
    memset(seen, 0, sizeof seen);
    uint32_t done = 0;
    if (posted > 0) {
        reap_until(&pair, &done, posted);
    }
    pair_close(&pair);
}

static void untracked_is_silent_and_leaks_no_context(void **state)
{
    (void)state;
    struct pair pair;
    open_pair(&pair);
    memset(seen, 0, sizeof seen);
    uint32_t done = 0, tracked = 0;
    for (uint32_t i = 0; i < POSTS; i++) {
        struct prs_op op = side_set(&pair.a, (uint64_t)i * SLOT, i + 1);
        op.cookie = i;
        op.flags = i % 100 == 99 ? 0 : PRS_OP_UNTRACKED;
        tracked += op.flags == 0;
        enum perseus_status status;
        while ((status = pair.a.fabric->ops->post(pair.a.endpoint, &op)) == PERSEUS_AGAIN) {
            done += reap(&pair);
        }
        assert_int_equal(status, PERSEUS_OK);
    }
    reap_until(&pair, &done, tracked);
    uint64_t deadline = side_now_ms() + 10000;
    const uint64_t last = POSTS;
    while (memcmp(memory_b + (POSTS - 1) * SLOT, &last, 8) != 0 && side_now_ms() < deadline) {
        assert_int_equal(reap(&pair), 0);
    }
    assert_int_equal(done, tracked);
    check_arrivals();
    pair_close(&pair);
}

/* Providers with a doorbell need hardware; the path through it does not. */
static void held_operations_keep_their_place_and_flush_rings(void **state)
{
    (void)state;
    struct pair pair;
    open_pair(&pair);
    pair.a.fabric->caps.batching = true;
    fill_sources();
    memset(seen, 0, sizeof seen);
    struct prs_rng rng = prs_rng_seeded(2);
    uint32_t done = 0;
    for (uint32_t i = 0; i < POSTS; i++) {
        struct prs_op op = numbered(&pair, i, &rng);
        op.flags |= i % 5 != 4 ? PRS_OP_MORE : 0;
        enum perseus_status status;
        while ((status = pair.a.fabric->ops->post(pair.a.endpoint, &op)) == PERSEUS_AGAIN) {
            done += reap(&pair);
        }
        assert_int_equal(status, PERSEUS_OK);
    }
    struct prs_op last = side_set(&pair.a, 0, 77);
    last.flags = PRS_OP_MORE | PRS_OP_UNTRACKED;
    uint32_t none = 0;
    reap_until(&pair, &done, POSTS);
    check_arrivals();
    assert_int_equal(side_post(&pair.a, &pair.b, &last, &none), PERSEUS_OK);
    while (pair.a.fabric->ops->flush(pair.a.endpoint) == PERSEUS_AGAIN) {
        reap(&pair);
    }
    const uint64_t rung = 77;
    uint64_t deadline = side_now_ms() + 10000;
    while (memcmp(memory_b, &rung, 8) != 0) {
        assert_int_equal(reap(&pair), 0);
        assert_true(side_now_ms() < deadline);
    }
    pair_close(&pair);
}

static void closes_in_mid_flight(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        struct pair pair;
        open_pair(&pair);
        uint32_t none = 0;
        struct prs_op op = side_put(&pair.a, 0, 0, 3000);
        if (round % 2 == 0) { /* with a connection; without, closing finds it half open */
            assert_int_equal(side_post(&pair.a, &pair.b, &op, &none), PERSEUS_OK);
            side_wait(&pair.a, &pair.b, &none, 1);
        }
        for (int i = 0; i < 200; i++) {
            op.kind = i % 4 == 3 ? PRS_OP_GET : PRS_OP_PUT;
            pair.a.fabric->ops->post(pair.a.endpoint, &op);
        }
        if (round % 4 < 2) {
            pair_close(&pair);
        } else {
            side_close(&pair.b);
            side_close(&pair.a);
        }
    }
}

int main(int argc, char **argv)
{
    int code = 0;
    if (!program_start(argc, argv, &code)) {
        return code;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(again_loses_nothing),
        cmocka_unit_test(in_flight_is_bounded),
        cmocka_unit_test(untracked_is_silent_and_leaks_no_context),
        cmocka_unit_test(held_operations_keep_their_place_and_flush_rings),
        cmocka_unit_test(closes_in_mid_flight),
    };
    return cmocka_run_group_tests(tests, NULL, program_check_leftovers);
}
