/* SPDX-License-Identifier: Apache-2.0 */
/* Puts whose delivery is not asked for one by one: what asks, what proves, what a quiet waits
 * for. */
#include "order/bench.h"

#include <stdarg.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>

#define ALL         PRS_ORDER_ALL_PEERS
#define DEADLINE_NS UINT64_C(30000000000)

static void open_bench(struct bench *bench, enum perseus_ordering ordering,
                       struct prs_order_pools pools)
{
    bench_init_sized(bench, ordering,
                     &(struct bench_sizes){.pools = pools, .completes_early = true});
}

static bool is_early(const struct bench *bench, uint32_t index)
{
    return (bench_post(bench, index)->flags & PRS_OP_EARLY) != 0;
}

static void complete(struct bench *bench, uint32_t index, enum perseus_status status)
{
    fake_complete(bench->fake, index, status);
    bench_progress(bench);
}

static void test_only_a_put_that_is_waited_for_asks(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, PERSEUS_ORDERING_FIFO, (struct prs_order_pools){0});
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(bench_put_token(&bench, 1, 1), PERSEUS_OK);
    assert_int_equal(bench_add(&bench, 1, 1), PERSEUS_OK);
    assert_int_equal(bench_put(&bench, 2), PERSEUS_OK);
    assert_true(is_early(&bench, 0));
    assert_false(is_early(&bench, 1));
    assert_true(is_early(&bench, 2)); /* its answer says more */
    assert_true(is_early(&bench, 3));
    bench_finish(&bench);
}

static void test_a_quiet_waits_for_a_flush(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, PERSEUS_ORDERING_FIFO, (struct prs_order_pools){0});
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(prs_orderer_quiet(bench.orderer, ALL, 1), PERSEUS_OK);
    complete(&bench, 1, PERSEUS_OK); /* its source is reusable, no more */
    complete(&bench, 0, PERSEUS_OK);
    assert_false(bench.done[1]);
    assert_int_equal(bench_posts(&bench), 3);
    assert_int_equal(bench_post(&bench, 2)->bytes, 8);
    assert_false(is_early(&bench, 2));
    complete(&bench, 2, PERSEUS_OK);
    assert_true(bench.done[1]);
    assert_int_equal(bench.status[1], PERSEUS_OK);
    assert_true(prs_orderer_is_idle(bench.orderer));
    bench_finish(&bench);
}

static void test_a_later_delivery_proves_the_earlier(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, PERSEUS_ORDERING_FIFO, (struct prs_order_pools){0});
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(bench_put_token(&bench, 1, 1), PERSEUS_OK);
    fake_complete_all(bench.fake);
    bool did;
    assert_int_equal(prs_orderer_progress(bench.orderer, 64, &did), PERSEUS_OK);
    assert_true(bench.done[1]);
    assert_true(prs_orderer_is_idle(bench.orderer));
    assert_int_equal(bench_posts(&bench), 3); /* no flush */
    bench_finish(&bench);
}

/* While a record behind them waits for its answer nothing else is sent; and it proves what is in
 * front of it, no more. */
static void test_an_answer_proves_what_is_in_front_of_it(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, PERSEUS_ORDERING_FIFO, (struct prs_order_pools){0});
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(bench_add(&bench, 1, 1), PERSEUS_OK);
    assert_int_equal(prs_orderer_quiet(bench.orderer, 1, 1), PERSEUS_OK);
    fake_complete_all(bench.fake);
    bench_progress(&bench);
    bench_progress(&bench);
    assert_int_equal(bench_posts(&bench), 2); /* no flush */
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(prs_orderer_quiet(bench.orderer, 1, 2), PERSEUS_OK);
    fake_complete_all(bench.fake);
    bench_acknowledge(&bench, 1, 1);
    bench_progress(&bench);
    assert_true(bench.done[1]);
    assert_false(bench.done[2]);
    assert_int_equal(bench_posts(&bench), 4); /* a flush for the put behind it */
    complete(&bench, 3, PERSEUS_OK);
    assert_true(bench.done[2]);
    bench_finish(&bench);
}

/* What completed early has no error of its own: silence makes the engine ask. */
static void test_a_broken_connection_is_found_long_before_the_deadline(void **state)
{
    (void)state;
    struct bench bench;
    bench_init_sized(&bench, PERSEUS_ORDERING_FIFO,
                     &(struct bench_sizes){.completes_early = true, .timeout_ns = DEADLINE_NS});
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(bench_add(&bench, 1, 1), PERSEUS_OK);
    fake_complete_all(bench.fake);
    bench_progress(&bench);
    assert_int_equal(prs_orderer_quiet(bench.orderer, 1, 1), PERSEUS_OK);
    bench.fake->now_ns += DEADLINE_NS / 100;
    bench_progress(&bench);
    bench_progress(&bench); /* once: it is on its way */
    assert_int_equal(bench_posts(&bench), 3);
    assert_false(is_early(&bench, 2));
    complete(&bench, 2, PERSEUS_PEER_LOST);
    bench_progress(&bench);
    assert_true(bench.done[1]);
    assert_int_equal(bench.status[1], PERSEUS_PEER_LOST);
    bench_finish(&bench);
}

static void test_nothing_else_to_do_flushes(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, PERSEUS_ORDERING_FIFO, (struct prs_order_pools){0});
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    fake_complete_all(bench.fake);
    bench_progress(&bench);
    assert_int_equal(bench_posts(&bench), 3);
    complete(&bench, 2, PERSEUS_OK);
    assert_true(prs_orderer_is_idle(bench.orderer));
    bench_finish(&bench);
}

/* Where the lane keeps no order nothing behind a put proves it: only records are early. */
static void test_without_order_only_records_are_early(void **state)
{
    (void)state;
    static const enum perseus_ordering modes[] = {
        PERSEUS_ORDERING_DEFERRED, PERSEUS_ORDERING_NIC_FENCE, PERSEUS_ORDERING_COUNTED};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        struct bench bench;
        open_bench(&bench, modes[i], (struct prs_order_pools){0});
        assert_int_equal(bench_add(&bench, 1, 1), PERSEUS_OK); /* its answer says more */
        assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
        assert_true(is_early(&bench, 0));
        assert_false(is_early(&bench, 1));
        bench_finish(&bench);
    }
}

static void test_a_loss_ends_what_was_not_proven(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, PERSEUS_ORDERING_FIFO, (struct prs_order_pools){0});
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    complete(&bench, 1, PERSEUS_OK);
    assert_int_equal(prs_orderer_quiet(bench.orderer, ALL, 1), PERSEUS_OK);
    complete(&bench, 0, PERSEUS_PEER_LOST);
    fake_complete_all(bench.fake);
    bench_progress(&bench);
    assert_true(bench.done[1]);
    assert_int_equal(bench.status[1], PERSEUS_PEER_LOST);
    assert_true(prs_orderer_is_idle(bench.orderer));
    bench_finish(&bench);
}

/* With no operation left a flush is sent all the same. */
static void test_a_flush_needs_nothing_of_the_pools(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, PERSEUS_ORDERING_FIFO, (struct prs_order_pools){.operations = 2});
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_AGAIN);
    fake_complete_all(bench.fake);
    bench_progress(&bench);
    fake_complete_all(bench.fake);
    bench_progress(&bench);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    bench_finish(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_a_put_that_is_waited_for_asks),
        cmocka_unit_test(test_a_quiet_waits_for_a_flush),
        cmocka_unit_test(test_a_later_delivery_proves_the_earlier),
        cmocka_unit_test(test_an_answer_proves_what_is_in_front_of_it),
        cmocka_unit_test(test_a_broken_connection_is_found_long_before_the_deadline),
        cmocka_unit_test(test_nothing_else_to_do_flushes),
        cmocka_unit_test(test_without_order_only_records_are_early),
        cmocka_unit_test(test_a_loss_ends_what_was_not_proven),
        cmocka_unit_test(test_a_flush_needs_nothing_of_the_pools),
    };
    return cmocka_run_group_tests_name("deliveries proven by later ones", tests, NULL, NULL);
}
