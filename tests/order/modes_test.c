/* SPDX-License-Identifier: Apache-2.0 */
/* Each ordering mode as a state machine: what is posted, flagged, parked or refused, by steps. */
#include "order/bench.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#define ALL PRS_ORDER_ALL_PEERS

static bool flagged(const struct bench *bench, uint32_t index)
{
    return (bench_post(bench, index)->flags & PRS_OP_FENCE) != 0;
}

/* ---- drain, drain-peer ---- */

static void test_drain_waits_for_every_peer(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_DRAIN, NULL, NULL);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(bench_put(&bench, 2), PERSEUS_OK);
    assert_int_equal(prs_orderer_fence(bench.orderer, 1), PERSEUS_OK);
    assert_int_equal(bench_signal(&bench, 1, 7), PERSEUS_AGAIN);
    assert_int_equal(bench_put(&bench, 3), PERSEUS_AGAIN); /* everybody waits */
    fake_complete(bench.fake, 0, PERSEUS_OK);
    bench_progress(&bench);
    assert_int_equal(bench_signal(&bench, 1, 7), PERSEUS_AGAIN); /* PE 2's put is still out */
    bench.fake->now_ns = 500;
    fake_complete(bench.fake, 1, PERSEUS_OK);
    bench_progress(&bench);
    assert_int_equal(bench_signal(&bench, 1, 7), PERSEUS_OK);
    struct perseus_stats stats = bench_stats(&bench, ALL);
    assert_int_equal(stats.drains, 1);
    assert_int_equal(stats.drain_ns, 500);
    assert_int_equal(stats.fences, 1);
    bench_finish(&bench);
}

static void test_drain_put_signal_stops_the_channel(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_DRAIN, NULL, NULL);
    assert_int_equal(bench_put(&bench, 2), PERSEUS_OK);
    assert_int_equal(bench_put_signal(&bench, 1, 7), PERSEUS_OK);
    assert_int_equal(bench_posts(&bench), 2); /* both puts, no signal */
    assert_int_equal(bench_put(&bench, 2), PERSEUS_AGAIN);
    fake_complete(bench.fake, 1, PERSEUS_OK);
    bench_progress(&bench);
    assert_int_equal(bench_posts(&bench), 2);
    fake_complete(bench.fake, 0, PERSEUS_OK);
    bench_progress(&bench);
    assert_int_equal(bench_posts(&bench), 3);
    assert_int_equal(bench_post(&bench, 2)->kind, PRS_OP_SIGNAL_SET);
    assert_int_equal(bench_put(&bench, 2), PERSEUS_OK);
    bench_finish(&bench);
}

/* A fence that comes while a put_signal drains must also hold what follows behind that signal. */
static void test_drain_fence_behind_a_draining_put_signal(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_DRAIN, NULL, NULL);
    assert_int_equal(bench_put_signal(&bench, 1, 7), PERSEUS_OK);
    assert_int_equal(prs_orderer_fence(bench.orderer, ALL), PERSEUS_OK);
    fake_complete(bench.fake, 0, PERSEUS_OK);
    bench_progress(&bench);
    assert_int_equal(bench_posts(&bench), 2);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_AGAIN); /* the signal is still out */
    fake_complete(bench.fake, 1, PERSEUS_OK);
    bench_progress(&bench);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(bench_stats(&bench, ALL).drains, 2);
    bench_finish(&bench);
}

static void test_drain_peer_waits_for_one_peer(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_DRAIN_PEER, NULL, NULL);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(bench_put(&bench, 2), PERSEUS_OK);
    assert_int_equal(prs_orderer_fence(bench.orderer, 1), PERSEUS_OK);
    assert_int_equal(bench_signal(&bench, 1, 7), PERSEUS_AGAIN);
    fake_complete(bench.fake, 0, PERSEUS_OK);
    bench_progress(&bench);
    assert_int_equal(bench_signal(&bench, 1, 7), PERSEUS_OK); /* PE 2's put does not matter */
    assert_int_equal(bench_stats(&bench, 1).drains, 1);
    bench_finish(&bench);
}

static void test_fence_without_operations_drains_nothing(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_DRAIN, NULL, NULL);
    assert_int_equal(prs_orderer_fence(bench.orderer, ALL), PERSEUS_OK);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    fake_complete_all(bench.fake);
    bench_progress(&bench);
    assert_int_equal(prs_orderer_fence(bench.orderer, ALL), PERSEUS_OK);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(bench_stats(&bench, ALL).drains, 0);
    assert_int_equal(bench_stats(&bench, ALL).fences, 0);
    bench_finish(&bench);
}

/* ---- deferred ---- */

static void test_deferred_parks_one_peer_and_serves_the_others(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_DEFERRED, NULL, NULL);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(prs_orderer_fence(bench.orderer, 1), PERSEUS_OK);
    assert_int_equal(bench_signal(&bench, 1, 7), PERSEUS_OK);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK); /* a put behind the fence waits too */
    assert_int_equal(bench_posts(&bench), 1);
    assert_int_equal(bench_put(&bench, 2), PERSEUS_OK);
    assert_int_equal(bench_posts(&bench), 2);
    fake_complete(bench.fake, 0, PERSEUS_OK);
    bench_progress(&bench);
    assert_int_equal(bench_posts(&bench), 4);
    assert_int_equal(bench_post(&bench, 2)->kind, PRS_OP_SIGNAL_SET);
    assert_int_equal(bench_post(&bench, 3)->kind, PRS_OP_PUT);
    assert_int_equal(bench_stats(&bench, 1).deferred, 2);
    bench_finish(&bench);
}

static void test_deferred_put_signals_stream(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_DEFERRED, NULL, NULL);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(bench_put_signal(&bench, 1, i), PERSEUS_OK);
    }
    assert_int_equal(bench_posts(&bench), 3); /* no user fence: all puts go at once */
    fake_complete(bench.fake, 2, PERSEUS_OK);
    fake_complete(bench.fake, 1, PERSEUS_OK);
    bench_progress(&bench);
    assert_int_equal(bench_posts(&bench), 3); /* the first signal waits for the first put */
    fake_complete(bench.fake, 0, PERSEUS_OK);
    bench_progress(&bench);
    assert_int_equal(bench_posts(&bench), 4); /* signals in order: the next waits for this one */
    assert_int_equal(bench_post(&bench, 3)->value, 0);
    fake_complete(bench.fake, 3, PERSEUS_OK);
    bench_progress(&bench);
    assert_int_equal(bench_post(&bench, 4)->value, 1);
    bench_finish(&bench);
}

static void test_deferred_put_never_passes_its_own_fence(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_DEFERRED, NULL, NULL);
    assert_int_equal(bench_put_signal(&bench, 1, 1), PERSEUS_OK); /* put out, signal parked */
    assert_int_equal(prs_orderer_fence(bench.orderer, ALL), PERSEUS_OK);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(bench_posts(&bench), 1);
    fake_complete(bench.fake, 0, PERSEUS_OK);
    bench_progress(&bench);
    assert_int_equal(bench_posts(&bench), 2); /* the signal; the put must be after it as well */
    fake_complete(bench.fake, 1, PERSEUS_OK);
    bench_progress(&bench);
    assert_int_equal(bench_posts(&bench), 3);
    bench_finish(&bench);
}

static void test_deferred_full_queue_is_back_pressure(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_DEFERRED, NULL, NULL);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(prs_orderer_fence(bench.orderer, 1), PERSEUS_OK);
    for (uint64_t i = 0; i < 8; i++) {
        assert_int_equal(bench_signal(&bench, 1, i), PERSEUS_OK);
    }
    assert_int_equal(bench_signal(&bench, 1, 8), PERSEUS_AGAIN);
    assert_int_equal(bench_put_signal(&bench, 1, 8), PERSEUS_AGAIN);
    assert_int_equal(bench_signal(&bench, 2, 0), PERSEUS_OK);
    fake_complete(bench.fake, 0, PERSEUS_OK);
    bench_progress(&bench);
    assert_int_equal(bench_signal(&bench, 1, 8), PERSEUS_OK);
    assert_int_equal(bench_posts(&bench), 11);
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(bench_post(&bench, i < 8 ? 2 + i : 10)->value, i);
    }
    bench_finish(&bench);
}

/* ---- nic-fence ---- */

static void test_nic_fence_flags_the_next_operation_of_any_kind(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_NIC_FENCE, NULL, NULL);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(bench_put(&bench, 2), PERSEUS_OK);
    assert_int_equal(prs_orderer_fence(bench.orderer, 1), PERSEUS_OK);
    assert_int_equal(bench_put(&bench, 2), PERSEUS_OK);
    assert_false(flagged(&bench, 2)); /* another peer's operation does not take the flag */
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_true(flagged(&bench, 3)); /* a put is ordered too */
    assert_int_equal(bench_signal(&bench, 1, 7), PERSEUS_OK);
    assert_false(flagged(&bench, 4)); /* one flag a fence */
    assert_int_equal(bench_stats(&bench, 1).fence_flags, 1);
    bench_finish(&bench);
}

/* What the fabric refuses for now is parked in its peer: nobody else waits for it. */
static void test_nic_fence_flag_survives_again(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_NIC_FENCE, NULL, NULL);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(prs_orderer_fence(bench.orderer, 1), PERSEUS_OK);
    bench.fake->refuse = 2; /* as it is submitted, and at the end of its batch */
    assert_int_equal(bench_signal(&bench, 1, 7), PERSEUS_OK);
    assert_int_equal(bench_posts(&bench), 1);
    bench_progress(&bench);
    assert_true(flagged(&bench, 1));
    assert_int_equal(bench_stats(&bench, 1).again, 2);
    bench_finish(&bench);
}

static void test_nic_fence_put_signal_parks_when_refused_and_keeps_its_flag(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_NIC_FENCE, NULL, NULL);
    assert_int_equal(bench_put_signal(&bench, 1, 1), PERSEUS_OK);
    assert_true(flagged(&bench, 1));
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(bench_posts(&bench), 3);
    bench.fake->refuse = 2;
    assert_int_equal(bench_put_signal(&bench, 1, 2), PERSEUS_OK);
    assert_int_equal(bench_posts(&bench), 3); /* neither leaves: the signal stays behind its put */
    bench_progress(&bench);
    assert_int_equal(bench_posts(&bench), 5);
    assert_int_equal(bench_post(&bench, 3)->kind, PRS_OP_PUT);
    assert_false(flagged(&bench, 3));
    assert_true(flagged(&bench, 4));
    bench_finish(&bench);
}

/* A put that a quiet has waited for is still to be ordered where completed means transmitted. */
static void test_nic_fence_flags_behind_a_quiet_where_completed_is_only_transmitted(void **state)
{
    (void)state;
    struct fake_fabric *fake = fake_fabric_create();
    struct prs_caps caps = fake->fabric.caps;
    fake_fabric_destroy(fake);
    caps.completion = PRS_COMPLETION_TRANSMITTED;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_NIC_FENCE, &caps, NULL);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(prs_orderer_quiet(bench.orderer, 1, 1), PERSEUS_OK);
    fake_complete(bench.fake, 0, PERSEUS_OK);
    bench_progress(&bench);
    assert_true(bench.done[1]);
    assert_int_equal(prs_orderer_fence(bench.orderer, 1), PERSEUS_OK);
    assert_int_equal(bench_signal(&bench, 1, 7), PERSEUS_OK);
    assert_true(flagged(&bench, 1));
    assert_int_equal(prs_orderer_fence(bench.orderer, 1), PERSEUS_OK);
    assert_int_equal(bench_signal(&bench, 1, 8), PERSEUS_OK);
    assert_true(flagged(&bench, 2));
    bench_finish(&bench);
}

static void test_nic_fence_spends_no_flag_on_delivered_operations(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_NIC_FENCE, NULL, NULL);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(prs_orderer_fence(bench.orderer, 1), PERSEUS_OK);
    fake_complete(bench.fake, 0, PERSEUS_OK);
    bench_progress(&bench);
    assert_int_equal(bench_signal(&bench, 1, 7), PERSEUS_OK);
    assert_false(flagged(&bench, 1));
    bench_finish(&bench);

    /* Where completed only means transmitted, it proves nothing. */
    struct fake_fabric *fake = fake_fabric_create();
    struct prs_caps caps = fake->fabric.caps;
    fake_fabric_destroy(fake);
    caps.completion = PRS_COMPLETION_TRANSMITTED;
    bench_init(&bench, PERSEUS_ORDERING_NIC_FENCE, &caps, NULL);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(prs_orderer_fence(bench.orderer, 1), PERSEUS_OK);
    fake_complete(bench.fake, 0, PERSEUS_OK);
    bench_progress(&bench);
    assert_int_equal(bench_signal(&bench, 1, 7), PERSEUS_OK);
    assert_true(flagged(&bench, 1));
    bench_finish(&bench);
}

static void test_fence_of_all_peers_is_noticed_by_each(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_NIC_FENCE, NULL, NULL);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(bench_put(&bench, 2), PERSEUS_OK);
    assert_int_equal(prs_orderer_fence(bench.orderer, ALL), PERSEUS_OK);
    assert_int_equal(bench_signal(&bench, 1, 1), PERSEUS_OK);
    assert_int_equal(bench_signal(&bench, 2, 1), PERSEUS_OK);
    assert_int_equal(bench_signal(&bench, 3, 1), PERSEUS_OK);
    assert_true(flagged(&bench, 2));
    assert_true(flagged(&bench, 3));
    assert_false(flagged(&bench, 4)); /* nothing was sent to PE 3 before */
    bench_finish(&bench);
}

/* ---- fifo ---- */

static void test_fifo_does_nothing_but_wait_behind_records(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_FIFO, NULL, NULL);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(prs_orderer_fence(bench.orderer, 1), PERSEUS_OK);
    assert_int_equal(bench_signal(&bench, 1, 7), PERSEUS_OK);
    assert_int_equal(bench_posts(&bench), 2);
    assert_int_equal(bench_post(&bench, 1)->flags & (PRS_OP_FENCE | PRS_OP_IMMEDIATE), 0);
    /* An ADD has no native path here: it is a record, applied by the target's CPU, so the wire's
     * order does not put later writes behind it. */
    assert_int_equal(bench_add(&bench, 1, 3), PERSEUS_OK);
    assert_int_equal(bench_posts(&bench), 3);
    assert_int_equal(bench_signal(&bench, 1, 8), PERSEUS_OK);
    assert_int_equal(bench_posts(&bench), 4); /* no fence between: free to go */
    assert_int_equal(prs_orderer_fence(bench.orderer, 1), PERSEUS_OK);
    assert_int_equal(bench_signal(&bench, 1, 9), PERSEUS_OK);
    assert_int_equal(bench_posts(&bench), 4);
    fake_complete_all(bench.fake);
    bench_progress(&bench);
    assert_int_equal(bench_posts(&bench), 4); /* delivered into the mailbox is not applied */
    bench_finish(&bench);
}

/* ---- quiet, errors ---- */

static void test_quiet_covers_what_came_before_only(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_FIFO, NULL, NULL);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(bench_put(&bench, 2), PERSEUS_OK);
    assert_int_equal(prs_orderer_quiet(bench.orderer, ALL, 1), PERSEUS_OK);
    assert_int_equal(prs_orderer_quiet(bench.orderer, 2, 2), PERSEUS_OK);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    fake_complete(bench.fake, 2, PERSEUS_OK); /* the later one first: it must not count */
    bench_progress(&bench);
    assert_false(bench.done[1]);
    fake_complete(bench.fake, 1, PERSEUS_OK);
    bench_progress(&bench);
    assert_true(bench.done[2]);
    assert_false(bench.done[1]);
    fake_complete(bench.fake, 0, PERSEUS_OK);
    bench_progress(&bench);
    assert_true(bench.done[1]);
    assert_int_equal(prs_orderer_quiet(bench.orderer, ALL, 3), PERSEUS_OK);
    assert_true(bench.done[3]);
    assert_true(prs_orderer_is_idle(bench.orderer));
    bench_finish(&bench);
}

static void test_lost_peer_ends_its_operations_and_no_others(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_DEFERRED, NULL, NULL);
    assert_int_equal(bench_put_token(&bench, 1, 1), PERSEUS_OK);
    assert_int_equal(prs_orderer_fence(bench.orderer, 1), PERSEUS_OK);
    assert_int_equal(bench_put_token(&bench, 1, 2), PERSEUS_OK);
    assert_int_equal(bench_put_token(&bench, 2, 3), PERSEUS_OK);
    assert_int_equal(prs_orderer_quiet(bench.orderer, ALL, 4), PERSEUS_OK);
    fake_complete(bench.fake, 0, PERSEUS_IO);
    bench_progress(&bench);
    assert_int_equal(bench.status[1], PERSEUS_IO);
    assert_true(bench.done[2]);
    assert_int_equal(bench.status[2], PERSEUS_PEER_LOST);
    assert_false(bench.done[3]);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_PEER_LOST);
    fake_complete(bench.fake, 1, PERSEUS_OK);
    bench_progress(&bench);
    assert_int_equal(bench.status[3], PERSEUS_OK);
    assert_true(bench.done[4]);
    assert_int_equal(bench.status[4], PERSEUS_IO);
    bench_finish(&bench);
}

static void test_destroy_cancels_tokens(void **state)
{
    (void)state;
    static struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_DEFERRED, NULL, NULL);
    assert_int_equal(bench_put_token(&bench, 1, 1), PERSEUS_OK);
    assert_int_equal(prs_orderer_fence(bench.orderer, 1), PERSEUS_OK);
    assert_int_equal(bench_put_token(&bench, 1, 2), PERSEUS_OK);
    assert_int_equal(bench_fetch(&bench, 2, 4), PERSEUS_OK);
    assert_int_equal(prs_orderer_quiet(bench.orderer, ALL, 3), PERSEUS_OK);
    bench_finish(&bench);
    for (int token = 1; token <= 4; token++) {
        assert_true(bench.done[token]);
        assert_int_equal(bench.status[token], PERSEUS_CANCELED);
    }
}

static void test_again_of_a_put_leaves_nothing_behind(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_DEFERRED, NULL, NULL);
    bench.fake->refuse = UINT32_MAX;
    for (int i = 0; i < 8; i++) {
        assert_int_equal(bench_put(&bench, 1), PERSEUS_OK); /* parked, up to the bound */
    }
    for (int i = 0; i < 10000; i++) { /* far more than any pool holds */
        assert_int_equal(bench_put_token(&bench, 1, 1), PERSEUS_AGAIN);
        assert_int_equal(bench_put_signal(&bench, 1, 1), PERSEUS_AGAIN);
    }
    assert_int_equal(bench_posts(&bench), 0);
    assert_false(bench.done[1]);
    assert_int_equal(bench_stats(&bench, 1).in_flight, 8);
    bench.fake->refuse = 0;
    bench_progress(&bench);
    assert_int_equal(bench_posts(&bench), 8);
    fake_complete_all(bench.fake);
    bench_progress(&bench);
    assert_true(prs_orderer_is_idle(bench.orderer));
    assert_int_equal(bench_stats(&bench, 1).in_flight, 0);
    bench_finish(&bench);
}

static void test_inline_source_is_copied_even_when_parked(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_DEFERRED, NULL, NULL);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(prs_orderer_fence(bench.orderer, 1), PERSEUS_OK);
    for (uint64_t value = 1; value <= 3; value++) {
        assert_int_equal(bench_put_inline(&bench, 1, value), PERSEUS_OK);
    }
    assert_int_equal(bench_posts(&bench), 1);
    fake_complete(bench.fake, 0, PERSEUS_OK);
    bench_progress(&bench);
    assert_int_equal(bench_posts(&bench), 4);
    for (uint64_t value = 1; value <= 3; value++) {
        uint64_t sent;
        memcpy(&sent, bench.fake->posts[value].data, sizeof sent);
        assert_int_equal(sent, value);
    }
    fake_complete_all(bench.fake);
    bench_progress(&bench);
    bench_finish(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drain_waits_for_every_peer),
        cmocka_unit_test(test_drain_put_signal_stops_the_channel),
        cmocka_unit_test(test_drain_fence_behind_a_draining_put_signal),
        cmocka_unit_test(test_drain_peer_waits_for_one_peer),
        cmocka_unit_test(test_fence_without_operations_drains_nothing),
        cmocka_unit_test(test_deferred_parks_one_peer_and_serves_the_others),
        cmocka_unit_test(test_deferred_put_signals_stream),
        cmocka_unit_test(test_deferred_put_never_passes_its_own_fence),
        cmocka_unit_test(test_deferred_full_queue_is_back_pressure),
        cmocka_unit_test(test_nic_fence_flags_the_next_operation_of_any_kind),
        cmocka_unit_test(test_nic_fence_flag_survives_again),
        cmocka_unit_test(test_nic_fence_put_signal_parks_when_refused_and_keeps_its_flag),
        cmocka_unit_test(test_nic_fence_flags_behind_a_quiet_where_completed_is_only_transmitted),
        cmocka_unit_test(test_nic_fence_spends_no_flag_on_delivered_operations),
        cmocka_unit_test(test_fence_of_all_peers_is_noticed_by_each),
        cmocka_unit_test(test_fifo_does_nothing_but_wait_behind_records),
        cmocka_unit_test(test_quiet_covers_what_came_before_only),
        cmocka_unit_test(test_lost_peer_ends_its_operations_and_no_others),
        cmocka_unit_test(test_destroy_cancels_tokens),
        cmocka_unit_test(test_again_of_a_put_leaves_nothing_behind),
        cmocka_unit_test(test_inline_source_is_copied_even_when_parked),
    };
    return cmocka_run_group_tests_name("ordering modes", tests, NULL, NULL);
}
