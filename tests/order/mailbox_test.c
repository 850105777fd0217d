/* SPDX-License-Identifier: Apache-2.0 */
/* Records, counted puts and immediates: what goes out, and what arrivals in any order lead to. */
#include "order/bench.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#define ALL    PRS_ORDER_ALL_PEERS
#define SENDER 2u

static struct prs_immediate decode(const struct bench *bench, uint32_t post)
{
    struct prs_immediate what;
    const struct prs_op *op = bench_post(bench, post);
    assert_true((op->flags & PRS_OP_IMMEDIATE) != 0);
    assert_true(prs_immediate_decode(&bench->orderer->immediate, op->immediate, &what));
    return what;
}

static void arrive(struct bench *bench, enum prs_immediate_kind kind, uint32_t epoch)
{
    struct prs_immediate what = {.kind = kind, .sender = SENDER, .epoch = epoch};
    fake_arrive(bench->fake, prs_immediate_encode(&bench->orderer->immediate, &what));
}

/* Puts a record of SENDER into this PE's mailbox, as its fabric would. */
static void arrive_record(struct bench *bench, uint32_t number, uint32_t puts, uint64_t value)
{
    struct prs_orderer *orderer = bench->orderer;
    struct prs_record *mail =
        (struct prs_record *)(void *)(orderer->control + orderer->control_layout.mail);
    mail[SENDER * PRS_MAIL_SLOTS + number % PRS_MAIL_SLOTS] =
        (struct prs_record){.number = number,
                            .puts = puts,
                            .kind = PRS_RECORD_ATOMIC,
                            .atomic = PERSEUS_ATOMIC_SET,
                            .count = 8,
                            .offset = 16,
                            .value = value};
    arrive(bench, PRS_IMMEDIATE_RECORD, number % PRS_IMMEDIATE_EPOCHS);
}

/* The target acknowledges records up to `acked`. */
static void acknowledge(struct bench *bench, uint32_t peer, uint64_t acked)
{
    struct prs_orderer *orderer = bench->orderer;
    memcpy(orderer->control + orderer->control_layout.acks + peer * 8, &acked, 8);
    struct prs_immediate what = {.kind = PRS_IMMEDIATE_ACK, .sender = peer};
    fake_arrive(bench->fake, prs_immediate_encode(&orderer->immediate, &what));
    bench_progress(bench);
}

static void test_puts_carry_the_number_of_the_next_record(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_COUNTED, NULL, NULL);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(prs_orderer_fence(bench.orderer, 1), PERSEUS_OK);
    assert_int_equal(bench_signal(&bench, 1, 7), PERSEUS_OK); /* nobody waits */
    assert_int_equal(bench_posts(&bench), 3);
    assert_int_equal(decode(&bench, 1).epoch, 0);
    assert_int_equal(decode(&bench, 2).kind, PRS_IMMEDIATE_RECORD);
    const struct prs_record *record = (const void *)bench.fake->posts[2].data;
    assert_int_equal(record->number, 0);
    assert_int_equal(record->puts, 2);
    assert_int_equal(record->value, 7);
    acknowledge(&bench, 1, 0);
    fake_complete_all(bench.fake);
    bench_progress(&bench);
    assert_false(prs_orderer_is_idle(bench.orderer)); /* delivered, but not applied */
    acknowledge(&bench, 1, 1);
    assert_true(prs_orderer_is_idle(bench.orderer));
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(decode(&bench, 3).epoch, 1);
    bench_finish(&bench);
}

static void test_a_single_payload_carries_its_signal(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_COUNTED, NULL, NULL);
    assert_int_equal(bench_put_signal(&bench, 1, 7), PERSEUS_OK);
    assert_int_equal(bench_posts(&bench), 1);
    struct prs_immediate what = decode(&bench, 0);
    assert_int_equal(what.kind, PRS_IMMEDIATE_SIGNAL);
    assert_int_equal(what.value, 7);
    assert_int_equal(what.slot, 2);
    assert_int_equal(bench_put_signal(&bench, 1, UINT64_MAX), PERSEUS_OK); /* does not fit */
    assert_int_equal(bench_posts(&bench), 3);
    assert_int_equal(bench_stats(&bench, 1).signals, 2);
    assert_int_equal(bench_stats(&bench, 1).signal_messages, 1);
    bench_finish(&bench);
}

/* Found by the adversary: a signal that rides on a put which is itself parked was not flushed by a
 * fence. */
static void test_a_fence_flushes_signals_that_ride_on_parked_puts(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_COUNTED, NULL, NULL);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(prs_orderer_fence(bench.orderer, 1), PERSEUS_OK);
    assert_int_equal(bench_put_signal(&bench, 1, 7), PERSEUS_OK); /* parked behind the fence */
    assert_int_equal(prs_orderer_fence(bench.orderer, 1), PERSEUS_OK);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(bench_posts(&bench), 1);
    fake_complete_all(bench.fake);
    bench_progress(&bench);
    assert_int_equal(bench_posts(&bench), 3); /* put with its signal, then the flush */
    assert_int_equal(decode(&bench, 1).kind, PRS_IMMEDIATE_SIGNAL);
    assert_int_equal(decode(&bench, 2).kind, PRS_IMMEDIATE_RECORD);
    fake_complete_all(bench.fake);
    bench_progress(&bench);
    assert_int_equal(bench_posts(&bench), 3); /* delivered is not applied */
    acknowledge(&bench, 1, 1);
    assert_int_equal(bench_posts(&bench), 4);
    bench_finish(&bench);
}

static void test_quiet_waits_until_riding_signals_are_applied(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_COUNTED, NULL, NULL);
    assert_int_equal(bench_put_signal(&bench, 1, 7), PERSEUS_OK);
    assert_int_equal(prs_orderer_quiet(bench.orderer, ALL, 1), PERSEUS_OK);
    fake_complete_all(bench.fake);
    bench_progress(&bench);
    assert_false(bench.done[1]);
    acknowledge(&bench, 1, 1);
    assert_true(bench.done[1]);
    bench_finish(&bench);
}

static void test_arrivals_are_counted_per_epoch(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_COUNTED, NULL, NULL);
    arrive_record(&bench, 1, 1, 200); /* the second record before the first */
    arrive(&bench, PRS_IMMEDIATE_PUT, 1);
    arrive(&bench, PRS_IMMEDIATE_PUT, 0);
    arrive_record(&bench, 0, 2, 100);
    bench_progress(&bench);
    assert_int_equal(bench.memory[2], 0); /* two puts are here, but only one of epoch 0 */
    arrive(&bench, PRS_IMMEDIATE_PUT, 0);
    bench_progress(&bench);
    assert_int_equal(bench.memory[2], 200);
    assert_int_equal(decode(&bench, 0).kind, PRS_IMMEDIATE_ACK);
    uint64_t acked;
    memcpy(&acked, bench.fake->posts[0].data, sizeof acked);
    assert_int_equal(acked, 2);
    bench_finish(&bench);
}

static void test_one_acknowledgement_is_in_flight_at_a_time(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_COUNTED, NULL, NULL);
    arrive_record(&bench, 0, 0, 1);
    bench_progress(&bench);
    assert_int_equal(bench_posts(&bench), 1);
    arrive_record(&bench, 1, 0, 2);
    arrive_record(&bench, 2, 0, 3);
    bench_progress(&bench);
    assert_int_equal(bench_posts(&bench), 1);
    fake_complete_all(bench.fake);
    bench_progress(&bench);
    assert_int_equal(bench_posts(&bench), 2);
    bench_finish(&bench);
}

static void test_a_full_mailbox_parks_and_recovers(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_COUNTED, NULL, NULL);
    uint64_t accepted = 0;
    while (bench_signal(&bench, 1, accepted) == PERSEUS_OK) {
        accepted++;
    }
    assert_int_equal(accepted, PRS_MAIL_SLOTS + 8); /* open records, then parked ones */
    fake_complete_all(bench.fake);
    acknowledge(&bench, 1, PRS_MAIL_SLOTS);
    assert_int_equal(bench_posts(&bench), PRS_MAIL_SLOTS + 8);
    acknowledge(&bench, 1, PRS_MAIL_SLOTS + 200); /* nonsense is ignored */
    assert_false(prs_orderer_is_idle(bench.orderer));
    bench_finish(&bench);
}

static void test_fetch_completes_with_reply_and_acknowledgement(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_DEFERRED, NULL, NULL);
    assert_int_equal(bench_fetch(&bench, 1, 1), PERSEUS_OK);
    const struct prs_record *record = (const void *)bench.fake->posts[0].data;
    struct prs_orderer *orderer = bench.orderer;
    uint64_t old = 41;
    memcpy(orderer->control + orderer->control_layout.replies + record->reply * 8, &old, 8);
    struct prs_immediate reply = {.kind = PRS_IMMEDIATE_REPLY, .sender = 1, .epoch = record->reply};
    fake_arrive(bench.fake, prs_immediate_encode(&orderer->immediate, &reply));
    fake_arrive(bench.fake, prs_immediate_encode(&orderer->immediate, &reply)); /* twice: ignored */
    fake_complete_all(bench.fake);
    bench_progress(&bench);
    assert_false(bench.done[1]);
    acknowledge(&bench, 1, 1);
    assert_true(bench.done[1]);
    assert_int_equal(bench.result[1], 41);
    bench_finish(&bench);
}

/* Where a written word may be seen half, the target's CPU writes signals; order is the wire's as before. */
static void test_signals_that_would_tear_are_records(void **state)
{
    (void)state;
    struct fake_fabric *fake = fake_fabric_create();
    struct prs_caps caps = fake->fabric.caps;
    fake_fabric_destroy(fake);
    caps.signals_tear = true;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_FIFO, &caps, NULL);
    assert_int_equal(bench_put_signal(&bench, 1, 300), PERSEUS_OK);
    assert_int_equal(bench_posts(&bench), 2);
    assert_int_equal(bench_post(&bench, 0)->flags & PRS_OP_IMMEDIATE, 0); /* puts are not counted */
    assert_int_equal(decode(&bench, 1).kind, PRS_IMMEDIATE_RECORD);
    assert_int_equal(prs_orderer_fence(bench.orderer, 1), PERSEUS_OK);
    assert_int_equal(bench_signal(&bench, 1, 301), PERSEUS_OK);
    assert_int_equal(bench_posts(&bench), 3); /* records keep their order: none waits for another */
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(bench_posts(&bench),
                     3); /* a put behind the fence waits until they are applied */
    fake_complete_all(bench.fake);
    acknowledge(&bench, 1, 2);
    assert_int_equal(bench_posts(&bench), 4);
    assert_int_equal(prs_orderer_vector_max(bench.orderer), PRS_RECORD_VALUES_MAX);
    bench_finish(&bench);
}

static void test_malformed_arrivals_are_ignored(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_COUNTED, NULL, NULL);
    for (uint64_t bits = 0; bits < 4096; bits++) {
        fake_arrive(bench.fake, bits << 52 | bits % 7);
        bench_progress(&bench);
        bench.fake->posts_count = 0;
    }
    bench_finish(&bench);
}

static void test_codec_round_trips(void **state)
{
    (void)state;
    static const uint32_t widths[] = {32, 40, 64};
    static const uint32_t sizes[] = {2, 16, 1000, 100000};
    for (size_t w = 0; w < 3; w++) {
        for (size_t s = 0; s < 4; s++) {
            struct prs_immediate_layout layout;
            assert_true(prs_immediate_layout(widths[w], sizes[s], &layout));
            uint64_t value = (UINT64_C(1) << layout.value_bits) - 1;
            uint64_t slot = (UINT64_C(1) << layout.slot_bits) - 1;
            assert_int_equal(prs_immediate_fits(&layout, value, slot), layout.slot_bits > 0);
            assert_false(prs_immediate_fits(&layout, value + 1, slot));
            struct prs_immediate in = {.kind = PRS_IMMEDIATE_SIGNAL,
                                       .sender = sizes[s] - 1,
                                       .epoch = 63,
                                       .op = PERSEUS_SIGNAL_ADD,
                                       .value = layout.slot_bits > 0 ? value : 0,
                                       .slot = layout.slot_bits > 0 ? slot : 0};
            struct prs_immediate out;
            uint64_t bits = prs_immediate_encode(&layout, &in);
            assert_true(widths[w] == 64 || bits < UINT64_C(1) << widths[w]);
            assert_true(prs_immediate_decode(&layout, bits, &out));
            assert_int_equal(out.sender, in.sender);
            assert_int_equal(out.epoch, in.epoch);
            assert_int_equal(out.value, in.value);
            assert_int_equal(out.slot, in.slot);
            assert_true(layout.slot_bits == 0 || out.op == in.op);
        }
    }
    struct prs_immediate_layout none;
    assert_false(prs_immediate_layout(0, 2, &none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_puts_carry_the_number_of_the_next_record),
        cmocka_unit_test(test_a_single_payload_carries_its_signal),
        cmocka_unit_test(test_a_fence_flushes_signals_that_ride_on_parked_puts),
        cmocka_unit_test(test_quiet_waits_until_riding_signals_are_applied),
        cmocka_unit_test(test_arrivals_are_counted_per_epoch),
        cmocka_unit_test(test_one_acknowledgement_is_in_flight_at_a_time),
        cmocka_unit_test(test_a_full_mailbox_parks_and_recovers),
        cmocka_unit_test(test_fetch_completes_with_reply_and_acknowledgement),
        cmocka_unit_test(test_signals_that_would_tear_are_records),
        cmocka_unit_test(test_malformed_arrivals_are_ignored),
        cmocka_unit_test(test_codec_round_trips),
    };
    return cmocka_run_group_tests_name("mailboxes", tests, NULL, NULL);
}
