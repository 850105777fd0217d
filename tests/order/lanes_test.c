/* SPDX-License-Identifier: Apache-2.0 */
/* Which lane each operation takes, and what becomes of large ones. */
#include "order/bench.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static void init_lanes(struct bench *bench, enum perseus_ordering ordering)
{
    struct fake_fabric *fake = fake_fabric_create();
    struct prs_caps caps = fake->fabric.caps;
    fake_fabric_destroy(fake);
    caps.lanes_max = 4;
    caps.lanes_useful = 3;
    bench_init(bench, ordering, &caps, NULL);
}

static void test_fifo_keeps_a_peer_on_one_lane(void **state)
{
    (void)state;
    struct bench bench;
    init_lanes(&bench, PERSEUS_ORDERING_FIFO);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(bench_put_signal(&bench, 1 + i % 2, i), PERSEUS_OK);
    }
    for (uint32_t i = 0; i < bench_posts(&bench); i++) {
        assert_int_equal(bench_post(&bench, i)->lane, bench_post(&bench, i)->peer);
    }
    assert_int_equal(bench_put(&bench, 3), PERSEUS_OK);
    assert_int_equal(bench_post(&bench, bench_posts(&bench) - 1)->lane, 0); /* 3 modulo 3 */
    bench_finish(&bench);
}

static void test_counted_spreads_puts_and_no_records(void **state)
{
    (void)state;
    struct bench bench;
    init_lanes(&bench, PERSEUS_ORDERING_COUNTED);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
        assert_int_equal(bench_post(&bench, i)->lane, i % 3);
    }
    assert_int_equal(bench_add(&bench, 1, 7), PERSEUS_OK);
    assert_int_equal(bench_posts(&bench), 5);
    assert_int_equal(bench_post(&bench, 4)->lane, 1);
    bench_finish(&bench);
}

static void test_a_refused_put_tries_the_next_lane(void **state)
{
    (void)state;
    struct bench bench;
    init_lanes(&bench, PERSEUS_ORDERING_DEFERRED);
    bench.fake->refuse = 1;
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK); /* parked, until its batch ends */
    assert_int_equal(bench_posts(&bench), 1);
    assert_int_equal(bench_post(&bench, 0)->lane, 1);
    bench_finish(&bench);
}

static enum perseus_status put_large(struct bench *bench, uint64_t bytes)
{
    const struct prs_request request = {.kind = PRS_REQUEST_PUT,
                                        .peer = 1,
                                        .token = PRS_ORDER_NO_TOKEN,
                                        .local = prs_window_region(bench->window),
                                        .local_offset = 8,
                                        .remote = bench->remotes[1],
                                        .remote_offset = 24,
                                        .bytes = bytes};
    return prs_orderer_submit(bench->orderer, &request);
}

/* Posts from `first` on are one transfer, each on the lane behind the last one's. */
static void check_pieces(const struct bench *bench, uint32_t first, uint64_t bytes)
{
    uint64_t at = 0;
    for (uint32_t i = first; i < bench_posts(bench); i++) {
        const struct prs_op *op = bench_post(bench, i);
        assert_int_equal(op->local_offset, 8 + at);
        assert_int_equal(op->remote_offset, 24 + at);
        assert_int_equal(op->lane, i % 3);
        at += op->bytes;
    }
    assert_int_equal(at, bytes);
}

static void test_a_large_put_takes_every_lane(void **state)
{
    (void)state;
    const struct {
        uint64_t bytes;
        uint32_t pieces;
    } cases[] = {{32768, 1}, {40000, 2}, {70000, 3}, {100000, 2}, {1 << 20, 3}};
    struct bench bench;
    init_lanes(&bench, PERSEUS_ORDERING_COUNTED);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t before = bench_posts(&bench);
        assert_int_equal(put_large(&bench, cases[i].bytes), PERSEUS_OK);
        assert_int_equal(bench_posts(&bench) - before, cases[i].pieces);
        check_pieces(&bench, before, cases[i].bytes);
    }
    assert_int_equal(bench_add(&bench, 1, 7), PERSEUS_OK);
    assert_int_equal(bench_record(&bench, bench_posts(&bench) - 1)->puts, bench_posts(&bench) - 1);
    bench_finish(&bench);
    init_lanes(&bench, PERSEUS_ORDERING_FIFO); /* its lane orders it */
    assert_int_equal(put_large(&bench, 1 << 20), PERSEUS_OK);
    assert_int_equal(bench_posts(&bench), 1);
    bench_finish(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fifo_keeps_a_peer_on_one_lane),
        cmocka_unit_test(test_counted_spreads_puts_and_no_records),
        cmocka_unit_test(test_a_refused_put_tries_the_next_lane),
        cmocka_unit_test(test_a_large_put_takes_every_lane),
    };
    return cmocka_run_group_tests_name("lanes", tests, NULL, NULL);
}
