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

/* What the sender of test_a_record_is_applied_as_it_was_checked writes into. */
static struct bench *scribbled;

/* Puts a record of SENDER into this PE's mailbox, as its fabric would: all of one size, in the near
 * ring. */
static void arrive_record(struct bench *bench, uint32_t number, uint32_t puts, uint64_t value)
{
    struct prs_orderer *orderer = bench->orderer;
    struct prs_record record = {.number = number,
                                .puts = puts,
                                .kind = PRS_RECORD_SET,
                                .count = 8,
                                .offset = 16,
                                .values = {value}};
    uint32_t bytes = prs_record_bytes(&record);
    uint32_t at = number * bytes % PRS_MAIL_NEAR_SIZE;
    memcpy(orderer->control + prs_mail_place(&orderer->layout, PRS_MAIL_NEAR, SENDER, at), &record,
           bytes);
    bench_arrive(bench, SENDER, PRS_IMMEDIATE_RECORD, number, 0);
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
    assert_int_equal(bench_decode(&bench, 1).number, 0);
    assert_int_equal(bench_decode(&bench, 2).kind, PRS_IMMEDIATE_RECORD);
    const struct prs_record *record = bench_record(&bench, 2);
    assert_int_equal(record->number, 0);
    assert_int_equal(record->puts, 2);
    assert_int_equal(record->values[0], 7);
    bench_acknowledge(&bench, 1, 0);
    fake_complete_all(bench.fake);
    bench_progress(&bench);
    assert_false(prs_orderer_is_idle(bench.orderer)); /* delivered, but not applied */
    bench_acknowledge(&bench, 1, 1);
    assert_true(prs_orderer_is_idle(bench.orderer));
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(bench_decode(&bench, 3).number, 1);
    bench_finish(&bench);
}

static void test_a_single_payload_carries_its_signal(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_COUNTED, NULL, NULL);
    assert_int_equal(bench_put_signal(&bench, 1, 7), PERSEUS_OK);
    assert_int_equal(bench_posts(&bench), 1);
    struct prs_immediate what = bench_decode(&bench, 0);
    assert_int_equal(what.kind, PRS_IMMEDIATE_RIDING);
    assert_int_equal(what.value, 7); /* as before the first record, from 0 */
    assert_int_equal(what.slot, 2);
    assert_int_equal(bench_put_signal(&bench, 1, UINT64_MAX), PERSEUS_OK); /* does not fit */
    assert_int_equal(bench_posts(&bench), 3);
    assert_int_equal(bench_stats(&bench, 1).signals, 2);
    assert_int_equal(bench_stats(&bench, 1).signal_messages, 1);
    bench_finish(&bench);
}

/* A riding signal is applied by the target's CPU: a put behind a fence waits for its answer. */
static void test_a_put_behind_a_fence_waits_for_riding_signals(void **state)
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
    assert_int_equal(bench_posts(&bench), 2); /* the put with its signal */
    assert_int_equal(bench_decode(&bench, 1).kind, PRS_IMMEDIATE_RIDING);
    fake_complete_all(bench.fake);
    bench_progress(&bench);
    assert_int_equal(bench_posts(&bench), 2); /* delivered is not applied */
    bench_acknowledge(&bench, 1, 1);
    assert_int_equal(bench_posts(&bench), 3);
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
    bench_acknowledge(&bench, 1, 1);
    assert_true(bench.done[1]);
    bench_finish(&bench);
}

static void test_arrivals_are_counted_per_epoch(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_COUNTED, NULL, NULL);
    arrive_record(&bench, 1, 1, 200); /* the second record before the first */
    bench_arrive(&bench, SENDER, PRS_IMMEDIATE_PUT, 1, 0);
    bench_arrive(&bench, SENDER, PRS_IMMEDIATE_PUT, 0, 0);
    arrive_record(&bench, 0, 2, 100);
    bench_progress(&bench);
    assert_int_equal(bench.memory[2], 0); /* two puts are here, but only one of epoch 0 */
    bench_arrive(&bench, SENDER, PRS_IMMEDIATE_PUT, 0, 0);
    bench_progress(&bench);
    assert_int_equal(bench.memory[2], 200);
    assert_int_equal(bench_decode(&bench, 0).kind, PRS_IMMEDIATE_ANSWER);
    assert_int_equal(bench_decode(&bench, 0).number, 2);
    bench_finish(&bench);
}

/* A put's immediate that comes again while its epoch is open: more have arrived than were sent. No
 * count can be right any more, so the record is refused, and its sender told at once. Epochs of
 * more puts than a count holds are no such thing. */
static void test_more_puts_than_were_sent_are_an_error(void **state)
{
    (void)state;
    for (uint32_t puts = 1; puts < 70001; puts += 35000) {
        for (uint32_t surplus = 0; surplus < 3; surplus++) {
            struct bench bench;
            bench_init(&bench, PERSEUS_ORDERING_COUNTED, NULL, NULL);
            for (uint32_t i = 0; i < puts + surplus; i++) {
                bench_arrive(&bench, SENDER, PRS_IMMEDIATE_PUT, 0, 0);
                if (i % 64 == 0) {
                    bench_progress(&bench);
                }
            }
            bench_progress(&bench);
            arrive_record(&bench, 0, puts, 100);
            bench_progress(&bench);
            assert_int_equal(bench.memory[2], surplus == 0 ? 100 : 0);
            assert_int_equal(bench_posts(&bench), 1);
            assert_int_equal(bench_decode(&bench, 0).kind, PRS_IMMEDIATE_ANSWER);
            assert_int_equal(bench_decode(&bench, 0).code,
                             surplus == 0 ? PRS_ANSWER_ACK : PRS_ANSWER_REFUSED);
            bench_finish(&bench);
        }
    }
}

/* The sender writes into its record between check and use: what was checked is applied. */
static bool scribble(const struct prs_mail_in *in, const struct prs_record *record)
{
    static struct prs_record changed;
    (void)in;
    struct bench *bench = scribbled;
    changed = *record;
    changed.offset = 3; /* no word */
    changed.values[0] = 666;
    memcpy(bench->orderer->control +
               prs_mail_place(&bench->orderer->layout, PRS_MAIL_NEAR, SENDER, 0),
           &changed, prs_record_bytes(&changed));
    return true;
}

static void test_a_record_is_applied_as_it_was_checked(void **state)
{
    (void)state;
    struct prs_mode mode = prs_mode_counted;
    mode.may_apply = scribble;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_COUNTED, NULL, &mode);
    scribbled = &bench;
    arrive_record(&bench, 0, 0, 100);
    bench_progress(&bench);
    assert_int_equal(bench.memory[2], 100);
    assert_int_equal(bench_decode(&bench, 0).code, PRS_ANSWER_ACK);
    bench_finish(&bench);
}

/* An immediate that names a record which is not in its mailbox was guessed: told as any other
 * stranger, one log line for each power of two. */
static void test_a_guessed_record_is_a_stranger(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_COUNTED, NULL, NULL);
    for (uint64_t i = 1; i <= 20; i++) {
        bench_arrive(&bench, SENDER, PRS_IMMEDIATE_RECORD, 0, 0);
        bench_progress(&bench);
        assert_int_equal(bench.orderer->strangers, i);
    }
    arrive_record(&bench, 0, 0, 100); /* the true one comes through */
    bench_progress(&bench);
    assert_int_equal(bench.memory[2], 100);
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
    assert_int_equal(accepted, PRS_RECORDS_OPEN_MAX + 8); /* open records, then parked ones */
    fake_complete_all(bench.fake);
    bench_acknowledge(&bench, 1, PRS_RECORDS_OPEN_MAX);
    assert_int_equal(bench_posts(&bench), PRS_RECORDS_OPEN_MAX + 8);
    bench_acknowledge(&bench, 1, PRS_RECORDS_OPEN_MAX + 20); /* more than were sent: ignored */
    assert_false(prs_orderer_is_idle(bench.orderer));
    bench_finish(&bench);
}

/* The value comes back in the put that answers the record. */
static void test_a_fetch_completes_with_its_answer(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_DEFERRED, NULL, NULL);
    assert_int_equal(bench_fetch(&bench, 1, 1), PERSEUS_OK);
    const struct prs_record *record = bench_record(&bench, 0);
    struct prs_orderer *orderer = bench.orderer;
    struct prs_reply *replies = (void *)(orderer->control + orderer->layout.replies);
    fake_complete_all(bench.fake);
    bench_progress(&bench);
    assert_false(bench.done[1]);
    replies[record->reply] = (struct prs_reply){.value = 41, .number = prs_reply_number(1, 0)};
    bench_arrive(&bench, 1, PRS_IMMEDIATE_ANSWER, 1, 1u + record->reply);
    bench_arrive(&bench, 1, PRS_IMMEDIATE_ANSWER, 1, 1u + record->reply); /* twice: ignored */
    bench_progress(&bench);
    assert_true(bench.done[1]);
    assert_int_equal(bench.status[1], PERSEUS_OK);
    assert_int_equal(bench.result[1], 41);
    assert_true(prs_orderer_is_idle(orderer));
    bench_finish(&bench);
}

/* A PE that was given up answers late, into a slot that is in use again: its value is taken for
 * nobody else's. */
static void test_a_late_value_of_another_pe_is_not_taken(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_DEFERRED, NULL, NULL);
    assert_int_equal(bench_fetch(&bench, 1, 1), PERSEUS_OK);
    uint32_t slot = bench_record(&bench, 0)->reply;
    fake_complete(bench.fake, 0, PERSEUS_PEER_LOST);
    bench_progress(&bench);
    assert_int_equal(bench.status[1], PERSEUS_PEER_LOST);
    assert_int_equal(bench_fetch(&bench, 2, 2), PERSEUS_OK);
    assert_int_equal(bench_record(&bench, 1)->reply, slot);
    fake_complete(bench.fake, 1, PERSEUS_OK);
    struct prs_reply *replies = (void *)(bench.orderer->control + bench.orderer->layout.replies);
    replies[slot] = (struct prs_reply){.value = 9, .number = prs_reply_number(1, 0)};
    bench_arrive(&bench, 2, PRS_IMMEDIATE_ANSWER, 1, 1u + slot);
    bench_progress(&bench);
    assert_true(bench.done[2]);
    assert_int_equal(bench.status[2], PERSEUS_PROTOCOL);
    bench_finish(&bench);
}

/* One put carries the old value and says that the record is applied; what follows waits for it. */
static void test_the_target_answers_a_fetch_with_one_put(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_DEFERRED, NULL, NULL);
    struct prs_orderer *orderer = bench.orderer;
    struct prs_record fetch = {.kind = PRS_RECORD_FETCH,
                               .atomic = PERSEUS_ATOMIC_ADD,
                               .count = 8,
                               .reply = 5,
                               .offset = 24,
                               .values = {3}};
    uint32_t bytes = prs_record_bytes(&fetch);
    uint64_t place = prs_mail_place(&orderer->layout, PRS_MAIL_NEAR, SENDER, 0);
    bench.memory[3] = 10;
    for (uint32_t i = 0; i < 2; i++) {
        fetch.number = i;
        memcpy(orderer->control + place + i * bytes, &fetch, bytes);
        bench_arrive(&bench, SENDER, PRS_IMMEDIATE_RECORD, i, 0);
    }
    bench_progress(&bench);
    assert_int_equal(bench.memory[3], 16); /* both are applied: the first value is on its way */
    assert_int_equal(bench_posts(&bench), 1);
    const struct prs_reply *reply = (const void *)bench.fake->posts[0].data;
    assert_int_equal(reply->value, 10);
    assert_int_equal(reply->number, prs_reply_number(0, 0));
    assert_int_equal(bench_decode(&bench, 0).code, 1 + 5);
    assert_int_equal(bench_decode(&bench, 0).number, 1);
    fake_complete_all(bench.fake);
    bench_progress(&bench);
    assert_int_equal(bench_posts(&bench), 2);
    assert_int_equal(bench_decode(&bench, 1).number, 2);
    bench_finish(&bench);
}

/* Where a written word may be seen half, the target's CPU writes signals; order is the wire's as
 * before. */
static void test_signals_that_would_tear_are_records(void **state)
{
    (void)state;
    struct fake_fabric *fake = fake_fabric_create();
    struct prs_caps caps = fake->fabric.caps;
    fake_fabric_destroy(fake);
    caps.signals_tear = true;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_FIFO, &caps, NULL);
    assert_int_equal(bench_put_signal(&bench, 1, 3000), PERSEUS_OK); /* too far to ride */
    assert_int_equal(bench_posts(&bench), 2);
    assert_int_equal(bench_post(&bench, 0)->flags & PRS_OP_IMMEDIATE, 0); /* puts are not counted */
    assert_int_equal(bench_decode(&bench, 1).kind, PRS_IMMEDIATE_RECORD);
    assert_int_equal(bench_put_signal(&bench, 1, 3001), PERSEUS_OK);
    assert_int_equal(bench_posts(&bench), 3);
    assert_int_equal(bench_decode(&bench, 2).kind, PRS_IMMEDIATE_RIDING);
    assert_int_equal(bench_decode(&bench, 2).value, 1);
    assert_int_equal(prs_orderer_fence(bench.orderer, 1), PERSEUS_OK);
    assert_int_equal(bench_signal(&bench, 1, 301), PERSEUS_OK);
    assert_int_equal(bench_posts(&bench), 4); /* records keep their order: none waits for another */
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    assert_int_equal(bench_posts(&bench), 4); /* a put behind the fence waits for their answer */
    fake_complete_all(bench.fake);
    bench_acknowledge(&bench, 1, 3);
    assert_int_equal(bench_posts(&bench), 5);
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
    static const uint32_t sizes[] = {2, 16, 1000, 8000};
    static const unsigned char secret[PRS_SECRET_BYTES] = {1, 2, 3};
    for (size_t w = 0; w < 3; w++) {
        for (size_t s = 0; s < 4; s++) {
            struct prs_immediate_layout layout;
            assert_true(prs_immediate_layout(widths[w], sizes[s], &layout));
            assert_int_equal(layout.rides, widths[w] == 64 && sizes[s] <= 1024);
            for (int kind = PRS_IMMEDIATE_PUT; kind <= PRS_IMMEDIATE_ANSWER + layout.rides;
                 kind++) {
                struct prs_immediate in = {.kind = (enum prs_immediate_kind)kind,
                                           .sender = sizes[s] - 1,
                                           .number = 1000 * PRS_NUMBERS + 63};
                if (kind == PRS_IMMEDIATE_ANSWER) {
                    in.code = PRS_ANSWER_REFUSED;
                } else if (kind == PRS_IMMEDIATE_RIDING) {
                    in.op = PERSEUS_SIGNAL_ADD;
                    in.value = in.slot = 1023;
                }
                struct prs_immediate out;
                uint64_t bits = prs_immediate_encode(&layout, secret, 1, &in);
                assert_true(widths[w] == 64 || bits < UINT64_C(1) << widths[w]);
                prs_immediate_decode(&layout, bits, &out);
                assert_int_equal(prs_number_from(in.number - 5, out.number), in.number);
                out.number = in.number;
                assert_memory_equal(&in, &out, sizeof in);
                assert_true(prs_immediate_is_genuine(&layout, secret, 1, in.number, bits));
            }
        }
    }
    struct prs_immediate_layout none;
    assert_false(prs_immediate_layout(0, 2, &none));
}

/* Every bit counts: flipped, from another number, for another target or under another secret, none
 * is genuine. With 64 bits and few PEs the tag has 30 bits and more. */
static void test_a_tag_covers_everything(void **state)
{
    (void)state;
    static const unsigned char secret[PRS_SECRET_BYTES] = {7}, other[PRS_SECRET_BYTES] = {8};
    struct prs_immediate_layout layout;
    assert_true(prs_immediate_layout(64, 16, &layout));
    for (int kind = PRS_IMMEDIATE_PUT; kind <= PRS_IMMEDIATE_RIDING; kind++) {
        struct prs_immediate what = {
            .kind = (enum prs_immediate_kind)kind, .sender = 3, .number = 5};
        uint64_t bits = prs_immediate_encode(&layout, secret, 2, &what);
        assert_true(prs_immediate_is_genuine(&layout, secret, 2, 5, bits));
        assert_false(prs_immediate_is_genuine(&layout, secret, 1, 5, bits));
        assert_false(prs_immediate_is_genuine(&layout, other, 2, 5, bits));
        assert_false(prs_immediate_is_genuine(&layout, secret, 2, 5 + PRS_NUMBERS, bits));
        for (uint32_t bit = 0; bit < 64; bit++) {
            assert_false(
                prs_immediate_is_genuine(&layout, secret, 2, 5, bits ^ UINT64_C(1) << bit));
        }
    }
}

static void test_riding_counts_from_the_base(void **state)
{
    (void)state;
    struct prs_riding_base base = {.value = 5000, .slot = 700};
    struct prs_immediate what;
    for (uint64_t slot = 188; slot < 188 + 1024; slot++) {
        uint64_t value = 5000 + slot % 1024, out_value, out_slot;
        assert_true(prs_riding_fits(&base, value, slot));
        prs_riding_encode(&base, value, slot, &what);
        prs_riding_decode(&base, &what, &out_value, &out_slot);
        assert_int_equal(out_value, value);
        assert_int_equal(out_slot, slot);
    }
    assert_false(prs_riding_fits(&base, 5000, 187));
    assert_false(prs_riding_fits(&base, 5000, 188 + 1024));
    assert_false(prs_riding_fits(&base, 4999, 700));
    assert_false(prs_riding_fits(&base, 5000 + 1024, 700));
    base = (struct prs_riding_base){0};
    assert_true(prs_riding_fits(&base, 1, 0)); /* before the first record, too */
    assert_false(prs_riding_fits(&base, 1, UINT64_MAX));
}

/* Nobody waits for the delivery of an answer: its 16 bytes are free when it has left. */
static void test_answers_do_not_ask_for_their_delivery(void **state)
{
    (void)state;
    for (int early = 0; early < 2; early++) {
        struct bench bench;
        bench_init_sized(&bench, PERSEUS_ORDERING_FIFO,
                         &(struct bench_sizes){.completes_early = early});
        arrive_record(&bench, 0, 0, 7);
        bench_progress(&bench);
        assert_int_equal(bench_posts(&bench), 1);
        assert_int_equal(bench_decode(&bench, 0).kind, PRS_IMMEDIATE_ANSWER);
        assert_int_equal((bench_post(&bench, 0)->flags & PRS_OP_EARLY) != 0, early);
        bench_finish(&bench);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_puts_carry_the_number_of_the_next_record),
        cmocka_unit_test(test_a_single_payload_carries_its_signal),
        cmocka_unit_test(test_a_put_behind_a_fence_waits_for_riding_signals),
        cmocka_unit_test(test_quiet_waits_until_riding_signals_are_applied),
        cmocka_unit_test(test_arrivals_are_counted_per_epoch),
        cmocka_unit_test(test_more_puts_than_were_sent_are_an_error),
        cmocka_unit_test(test_a_record_is_applied_as_it_was_checked),
        cmocka_unit_test(test_a_guessed_record_is_a_stranger),
        cmocka_unit_test(test_one_acknowledgement_is_in_flight_at_a_time),
        cmocka_unit_test(test_a_full_mailbox_parks_and_recovers),
        cmocka_unit_test(test_a_fetch_completes_with_its_answer),
        cmocka_unit_test(test_a_late_value_of_another_pe_is_not_taken),
        cmocka_unit_test(test_the_target_answers_a_fetch_with_one_put),
        cmocka_unit_test(test_signals_that_would_tear_are_records),
        cmocka_unit_test(test_malformed_arrivals_are_ignored),
        cmocka_unit_test(test_codec_round_trips),
        cmocka_unit_test(test_a_tag_covers_everything),
        cmocka_unit_test(test_riding_counts_from_the_base),
        cmocka_unit_test(test_answers_do_not_ask_for_their_delivery),
    };
    return cmocka_run_group_tests_name("mailboxes", tests, NULL, NULL);
}
