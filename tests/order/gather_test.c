/* SPDX-License-Identifier: Apache-2.0 */
/* Signals of one batch that become one record: what joins, what does not, and what covers it. */
#include "order/bench.h"

#include <stdarg.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>

#define ALL PRS_ORDER_ALL_PEERS

/* Signals of one batch to words that follow each other are one message; not across a fence, another
 * operation, a gap, or the most that a vector holds. */
static void test_signals_of_a_batch_join(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_COUNTED, NULL, NULL);
    for (uint64_t i = 0; i < 40; i++) {
        assert_int_equal(bench_batch_signal(&bench, 1, 8 * i, 100 + i), PERSEUS_OK);
    }
    assert_int_equal(bench_posts(&bench), 0);
    assert_int_equal(prs_orderer_flush(bench.orderer), PERSEUS_OK);
    assert_int_equal(bench_posts(&bench), 2);
    const struct prs_record *record = bench_record(&bench, 0);
    assert_int_equal(record->kind, PRS_RECORD_VECTOR);
    assert_int_equal(record->count, PRS_RECORD_VALUES_MAX);
    for (uint64_t i = 0; i < PRS_RECORD_VALUES_MAX; i++) {
        assert_int_equal(record->values[i], 100 + i);
    }
    assert_int_equal(bench_record(&bench, 1)->count, 40 - PRS_RECORD_VALUES_MAX);
    assert_int_equal(bench_stats(&bench, 1).signals, 40);
    assert_int_equal(bench_stats(&bench, 1).signal_messages, 2);

    assert_int_equal(bench_batch_signal(&bench, 1, 0, 1), PERSEUS_OK);
    assert_int_equal(prs_orderer_fence(bench.orderer, 1), PERSEUS_OK);
    assert_int_equal(bench_batch_signal(&bench, 1, 8, 2), PERSEUS_OK);  /* behind a fence */
    assert_int_equal(bench_batch_signal(&bench, 1, 24, 3), PERSEUS_OK); /* a gap */
    assert_int_equal(bench_batch_signal(&bench, 2, 32, 4), PERSEUS_OK); /* another peer */
    assert_int_equal(prs_orderer_flush(bench.orderer), PERSEUS_OK);
    assert_int_equal(bench_posts(&bench), 6);
    fake_complete_all(bench.fake);
    bench_acknowledge(&bench, 1, 5);
    bench_acknowledge(&bench, 2, 1);
    assert_true(prs_orderer_is_idle(bench.orderer));
    bench_finish(&bench);
}

/* In fifo, on a fabric on which puts of a batch share messages and signals are records. */
static void init_gathering(struct bench *bench)
{
    struct fake_fabric *fake = fake_fabric_create();
    struct prs_caps caps = fake->fabric.caps;
    fake_fabric_destroy(fake);
    caps.signals_tear = true;
    caps.batching = true;
    bench_init(bench, PERSEUS_ORDERING_FIFO, &caps, NULL);
}

/* Small put_signals whose words are neighbours: where puts of a batch share messages, so do their
 * signals, behind all of them. */
static void test_neighbours_do_not_ride_but_join(void **state)
{
    (void)state;
    struct bench bench;
    init_gathering(&bench);
    for (uint64_t i = 0; i < 6; i++) {
        assert_int_equal(bench_batch_put_signal(&bench, 1, 64 + 8 * i, 100 + i), PERSEUS_OK);
    }
    assert_int_equal(bench_posts(&bench), 6); /* the first has no neighbour, and rides */
    assert_int_equal(bench_decode(&bench, 0).kind, PRS_IMMEDIATE_RIDING);
    for (uint32_t i = 1; i < 6; i++) {
        assert_int_equal(bench_post(&bench, i)->flags & PRS_OP_IMMEDIATE, 0);
    }
    assert_int_equal(prs_orderer_flush(bench.orderer), PERSEUS_OK);
    assert_int_equal(bench_posts(&bench), 7);
    const struct prs_record *record = bench_record(&bench, 6);
    assert_int_equal(record->kind, PRS_RECORD_VECTOR);
    assert_int_equal(record->count, 5);
    assert_int_equal(record->offset, 72);
    for (uint64_t i = 0; i < 5; i++) {
        assert_int_equal(record->values[i], 101 + i);
    }
    assert_int_equal(bench_stats(&bench, 1).signals, 6);
    fake_complete_all(bench.fake);
    bench_acknowledge(&bench, 1, 2);
    assert_true(prs_orderer_is_idle(bench.orderer));
    bench_finish(&bench);
}

/* What is behind a fence waits for all that is in front of it: a put_signal's signal neither joins
 * those, nor does a put behind it pass them. */
static void test_no_neighbour_joins_across_a_fence(void **state)
{
    (void)state;
    struct bench bench;
    init_gathering(&bench);
    assert_int_equal(bench_batch_put_signal(&bench, 1, 64, 1), PERSEUS_OK);
    assert_int_equal(bench_batch_put_signal(&bench, 1, 72, 2), PERSEUS_OK); /* a record, parked */
    assert_int_equal(bench_posts(&bench), 2);
    assert_int_equal(prs_orderer_fence(bench.orderer, 1), PERSEUS_OK);
    assert_int_equal(bench_batch_put_signal(&bench, 1, 80, 3), PERSEUS_OK);
    assert_int_equal(bench_batch_signal(&bench, 1, 88, 4), PERSEUS_OK);
    assert_int_equal(bench_posts(&bench), 2); /* its put may not pass the record */
    assert_int_equal(prs_orderer_flush(bench.orderer), PERSEUS_OK);
    assert_int_equal(bench_record(&bench, 2)->kind, PRS_RECORD_SET);
    assert_int_equal(bench_record(&bench, 2)->values[0], 2);
    assert_int_equal(bench_posts(&bench), 3); /* nor leave before its answer */
    fake_complete_all(bench.fake);
    bench_acknowledge(&bench, 1, 2);
    assert_int_equal(prs_orderer_flush(bench.orderer), PERSEUS_OK);
    assert_int_equal(bench_post(&bench, 3)->flags & PRS_OP_IMMEDIATE, 0);
    assert_int_equal(bench_record(&bench, 4)->values[0], 3);
    assert_int_equal(bench_record(&bench, 4)->count, 2); /* these two have no fence between */
    fake_complete_all(bench.fake);
    bench_acknowledge(&bench, 1, 3);
    assert_true(prs_orderer_is_idle(bench.orderer));
    bench_finish(&bench);
}

/* A quiet of one peer covers a signal that still waits for its batch, also when another comes that
 * would join it; one that came after the quiet is not waited for. */
static void test_no_signal_joins_one_that_a_quiet_covers(void **state)
{
    (void)state;
    for (int of_all = 0; of_all < 2; of_all++) {
        for (int with_puts = 0; with_puts < 2; with_puts++) {
            struct bench bench;
            init_gathering(&bench);
            enum perseus_status (*send)(struct bench *, uint32_t, uint64_t, uint64_t) =
                with_puts ? bench_batch_put_signal : bench_batch_signal;
            assert_int_equal(bench_batch_signal(&bench, 1, 64, 1), PERSEUS_OK); /* parked */
            assert_int_equal(prs_orderer_quiet(bench.orderer, of_all ? ALL : 1, 1), PERSEUS_OK);
            assert_int_equal(send(&bench, 1, 72, 2), PERSEUS_OK);
            assert_int_equal(prs_orderer_flush(bench.orderer), PERSEUS_OK);
            fake_complete_all(bench.fake);
            bench_progress(&bench);
            assert_false(bench.done[1]); /* delivered, but not applied */
            bench_acknowledge(&bench, 1, 1);
            assert_true(bench.done[1]);
            bench_acknowledge(&bench, 1, 2);
            assert_true(prs_orderer_is_idle(bench.orderer));
            bench_finish(&bench);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signals_of_a_batch_join),
        cmocka_unit_test(test_neighbours_do_not_ride_but_join),
        cmocka_unit_test(test_no_neighbour_joins_across_a_fence),
        cmocka_unit_test(test_no_signal_joins_one_that_a_quiet_covers),
    };
    return cmocka_run_group_tests_name("gathering", tests, NULL, NULL);
}
