/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong toward one peer: nothing that must come behind it gets through, everybody who
 * asks is told, nobody else is held up, and nothing waits for ever. */
#include "order/bench.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#define ALL        PRS_ORDER_ALL_PEERS
#define TIMEOUT_NS 1000000u

static const enum perseus_ordering every_mode[] = {
    PERSEUS_ORDERING_DRAIN,     PERSEUS_ORDERING_DRAIN_PEER, PERSEUS_ORDERING_DEFERRED,
    PERSEUS_ORDERING_NIC_FENCE, PERSEUS_ORDERING_FIFO,       PERSEUS_ORDERING_COUNTED};
#define MODES (sizeof every_mode / sizeof every_mode[0])

static void answer(struct bench *bench, uint32_t peer, uint64_t acked, uint32_t code)
{
    bench_arrive(bench, peer, PRS_IMMEDIATE_ANSWER, acked, code);
    bench_progress(bench);
}

/* Time goes by, and this PE looks meanwhile. */
static void pass(struct bench *bench, uint64_t ns)
{
    const uint64_t step = TIMEOUT_NS / 16;
    for (uint64_t left = ns; left > 0; left -= left < step ? left : step) {
        bench->fake->now_ns += left < step ? left : step;
        bench_progress(bench);
    }
}

/* ---- refused operations ---- */

static void check_poisoned(struct bench *bench, uint32_t peer, enum perseus_status status)
{
    uint32_t posts = bench_posts(bench);
    assert_int_equal(prs_orderer_fence(bench->orderer, peer), PERSEUS_OK);
    assert_int_equal(bench_signal(bench, peer, 7), status);
    assert_int_equal(bench_put_signal(bench, peer, 7), status);
    assert_int_equal(bench_fetch(bench, peer, 40), status);
    bench_progress(bench);
    assert_int_equal(bench_posts(bench), posts);
    /* Every quiet that covers it, as often as it is asked, by whomever. */
    for (uint32_t token = 41; token < 44; token++) {
        assert_int_equal(prs_orderer_quiet(bench->orderer, token == 43 ? peer : ALL, token),
                         PERSEUS_OK);
        assert_true(bench->done[token]);
        assert_int_equal(bench->status[token], status);
    }
    /* Others are well, and a quiet of theirs says so. */
    assert_int_equal(bench_put(bench, 2), PERSEUS_OK);
    fake_complete_all(bench->fake);
    bench_progress(bench);
    assert_int_equal(prs_orderer_quiet(bench->orderer, 2, 44), PERSEUS_OK);
    assert_true(bench->done[44]);
    assert_int_equal(bench->status[44], PERSEUS_OK);
}

static void test_a_refused_put_lets_no_signal_through(void **state)
{
    (void)state;
    for (size_t i = 0; i < MODES; i++) {
        struct bench bench;
        bench_init(&bench, every_mode[i], NULL, NULL);
        bench.fake->fail = PERSEUS_LIMIT;
        assert_int_equal(bench_put(&bench, 1), PERSEUS_LIMIT);
        check_poisoned(&bench, 1, PERSEUS_LIMIT);
        bench_finish(&bench);
    }
}

/* Refused by the engine itself, before the fabric sees it; or by who drives it. */
static void test_a_malformed_request_lets_no_signal_through(void **state)
{
    (void)state;
    for (size_t i = 0; i < MODES; i++) {
        struct bench bench;
        bench_init(&bench, every_mode[i], NULL, NULL);
        assert_int_equal(bench_signal_at(&bench, 1, 12), PERSEUS_INVALID_ARGUMENT);
        check_poisoned(&bench, 1, PERSEUS_INVALID_ARGUMENT);
        bench_finish(&bench);
        bench_init(&bench, every_mode[i], NULL, NULL);
        prs_orderer_refuse(bench.orderer, 1, PERSEUS_INVALID_ARGUMENT);
        check_poisoned(&bench, 1, PERSEUS_INVALID_ARGUMENT);
        bench_finish(&bench);
    }
}

/* Whatever it was lost to, every quiet that covers all PEs tells; others' do not. */
static void test_a_request_to_nobody_is_told_by_quiets_of_all(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_FIFO, NULL, NULL);
    const struct prs_request nobody = {
        .kind = PRS_REQUEST_PUT, .peer = BENCH_PEERS, .token = PRS_ORDER_NO_TOKEN, .bytes = 8};
    assert_int_equal(prs_orderer_submit(bench.orderer, &nobody), PERSEUS_INVALID_ARGUMENT);
    for (uint32_t token = 1; token < 3; token++) {
        assert_int_equal(prs_orderer_quiet(bench.orderer, ALL, token), PERSEUS_OK);
        assert_int_equal(bench.status[token], PERSEUS_INVALID_ARGUMENT);
    }
    assert_int_equal(bench_put(&bench, 2), PERSEUS_OK);
    fake_complete_all(bench.fake);
    bench_progress(&bench);
    assert_int_equal(prs_orderer_quiet(bench.orderer, 2, 3), PERSEUS_OK);
    assert_int_equal(bench.status[3], PERSEUS_OK);
    bench_finish(&bench);
}

/* The refusal comes when a parked operation is posted: it belongs to its peer, not to the step. */
static void test_a_parked_operation_that_is_refused_ends_nobody_else(void **state)
{
    (void)state;
    static const enum perseus_status reasons[] = {PERSEUS_LIMIT, PERSEUS_OUT_OF_MEMORY};
    for (size_t i = 0; i < 2; i++) {
        struct bench bench;
        bench_init(&bench, PERSEUS_ORDERING_DEFERRED, NULL, NULL);
        assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
        assert_int_equal(prs_orderer_fence(bench.orderer, 1), PERSEUS_OK);
        assert_int_equal(bench_put_token(&bench, 1, 1), PERSEUS_OK);
        assert_int_equal(bench_put_token(&bench, 1, 2), PERSEUS_OK);
        fake_complete_all(bench.fake);
        bench.fake->fail = reasons[i];
        bench_progress(&bench); /* no step fails */
        assert_true(bench.done[1] && bench.done[2]);
        assert_int_equal(bench.status[1], reasons[i]);
        check_poisoned(&bench, 1, reasons[i]);
        bench_finish(&bench);
    }
}

static void test_words_that_are_none_are_refused_at_the_sender(void **state)
{
    (void)state;
    struct bench bench;
    static const uint64_t offsets[] = {4, 12, sizeof bench.memory, UINT64_MAX - 7};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        bench_init(&bench, PERSEUS_ORDERING_COUNTED, NULL, NULL);
        assert_int_equal(bench_put_signal_at(&bench, 1, offsets[i]), PERSEUS_INVALID_ARGUMENT);
        assert_int_equal(bench_posts(&bench), 0);
        bench_finish(&bench);
        bench_init(&bench, PERSEUS_ORDERING_COUNTED, NULL, NULL);
        assert_int_equal(bench_signal_at(&bench, 1, offsets[i]), PERSEUS_INVALID_ARGUMENT);
        bench_finish(&bench);
    }
}

/* What the target cannot apply (its memory was unregistered meanwhile), the sender hears of. */
static void test_a_record_that_was_refused_fails_its_sender(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_COUNTED, NULL, NULL);
    assert_int_equal(bench_signal(&bench, 1, 7), PERSEUS_OK);
    assert_int_equal(bench_signal(&bench, 1, 8), PERSEUS_OK);
    assert_int_equal(prs_orderer_quiet(bench.orderer, 1, 1), PERSEUS_OK);
    fake_complete_all(bench.fake);
    answer(&bench, 1, 1, PRS_ANSWER_REFUSED);
    assert_true(bench.done[1]);
    assert_int_equal(bench.status[1], PERSEUS_INVALID_ARGUMENT);
    bench_finish(&bench);
}

/* ---- loss ---- */

/* A fetch whose record has left when its peer is lost: answered or not, it ends, and so do
 * quiets. */
static void test_a_fetch_ends_when_its_peer_is_lost(void **state)
{
    (void)state;
    for (int completed = 0; completed < 2; completed++) {
        struct bench bench;
        bench_init(&bench, PERSEUS_ORDERING_DEFERRED, NULL, NULL);
        assert_int_equal(bench_fetch(&bench, 1, 1), PERSEUS_OK);
        assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
        assert_int_equal(prs_orderer_quiet(bench.orderer, ALL, 2), PERSEUS_OK);
        if (completed) {
            fake_complete(bench.fake, 0, PERSEUS_OK);
            bench_progress(&bench);
        }
        assert_false(bench.done[1]);
        fake_complete(bench.fake, 1, PERSEUS_PEER_LOST);
        bench_progress(&bench);
        if (!completed) {
            fake_complete(bench.fake, 0, PERSEUS_PEER_LOST);
            bench_progress(&bench);
        }
        assert_true(bench.done[1] && bench.done[2]);
        assert_int_equal(bench.status[1], PERSEUS_PEER_LOST);
        assert_int_equal(bench.status[2], PERSEUS_PEER_LOST);
        assert_true(prs_orderer_is_idle(bench.orderer));
        bench_finish(&bench);
    }
}

/* The other side has given us up and says nothing: we learn it within the deadline. */
static void test_a_silent_peer_is_lost_within_the_deadline(void **state)
{
    (void)state;
    for (size_t i = 0; i < MODES; i++) {
        struct bench bench;
        bench_init_sized(&bench, every_mode[i], &(struct bench_sizes){.timeout_ns = TIMEOUT_NS});
        assert_int_equal(bench_add(&bench, 1, 3), PERSEUS_OK); /* a record, delivered, unanswered */
        fake_complete_all(bench.fake);
        bench_progress(&bench);
        assert_int_equal(prs_orderer_quiet(bench.orderer, ALL, 1), PERSEUS_OK);
        assert_int_equal(prs_orderer_fence(bench.orderer, ALL), PERSEUS_OK);
        pass(&bench, TIMEOUT_NS - 1);
        assert_false(bench.done[1]);
        pass(&bench, 1);
        assert_true(bench.done[1]);
        assert_int_equal(bench.status[1], PERSEUS_PEER_LOST);
        assert_int_equal(bench_put(&bench, 2), PERSEUS_OK); /* no drain holds the channel */
        bench_finish(&bench);
    }
}

/* The fabric itself never returns an operation. Its slot stays taken, as the fabric may still use
 * it, and goes back when it comes after all. */
static void test_an_operation_that_never_returns_is_told_within_the_deadline(void **state)
{
    (void)state;
    struct bench bench;
    bench_init_sized(&bench, PERSEUS_ORDERING_FIFO,
                     &(struct bench_sizes){.timeout_ns = TIMEOUT_NS});
    assert_int_equal(bench_put_token(&bench, 1, 1), PERSEUS_OK);
    pass(&bench, TIMEOUT_NS / 2);
    assert_int_equal(bench_put_token(&bench, 2, 2), PERSEUS_OK);
    pass(&bench, TIMEOUT_NS / 2);
    assert_true(bench.done[1]);
    assert_int_equal(bench.status[1], PERSEUS_PEER_LOST);
    assert_false(bench.done[2]);
    for (int i = 0; i < 3; i++) { /* whoever moves is not lost, however long it takes */
        pass(&bench, TIMEOUT_NS / 2 - 1);
        assert_int_equal(bench_put(&bench, 2), PERSEUS_OK);
        fake_complete(bench.fake, bench_posts(&bench) - 1, PERSEUS_OK);
        bench_progress(&bench);
    }
    assert_false(bench.done[2]);
    fake_complete_all(bench.fake);
    bench_progress(&bench);
    assert_int_equal(bench.status[2], PERSEUS_OK);
    assert_true(prs_orderer_is_idle(bench.orderer));
    bench_finish(&bench);
}

/* Its puts complete, as its NIC takes them, but nobody there applies its records: what has waited
 * for an answer, with nothing open before it, ends all the same. A stranger who sends the last
 * answer again and again does not keep it alive either. */
static void test_a_peer_that_moves_but_does_not_answer_is_lost(void **state)
{
    (void)state;
    for (size_t i = 0; i < MODES; i++) {
        for (int answers = 0; answers < 2; answers++) {
            struct bench bench;
            bench_init_sized(&bench, every_mode[i],
                             &(struct bench_sizes){.timeout_ns = TIMEOUT_NS});
            assert_int_equal(bench_add(&bench, 1, 3), PERSEUS_OK);
            assert_int_equal(bench_add(&bench, 1, 4), PERSEUS_OK);
            fake_complete_all(bench.fake);
            answer(&bench, 1, 1, PRS_ANSWER_ACK);
            assert_int_equal(prs_orderer_quiet(bench.orderer, ALL, 1), PERSEUS_OK);
            for (int step = 0; step < 2 * 16 + 4 && !bench.done[1]; step++) {
                if (answers) {
                    answer(&bench, 1, 1, PRS_ANSWER_ACK);
                } else {
                    bench_put(&bench, 1);
                    fake_complete_all(bench.fake);
                }
                pass(&bench, TIMEOUT_NS / 16);
            }
            assert_true(bench.done[1]);
            assert_int_equal(bench.status[1], PERSEUS_PEER_LOST);
            bench_finish(&bench);
        }
    }
}

/* A backlog that takes longer than the deadline, but moves, is no such thing. */
static void test_a_slow_peer_is_not_lost(void **state)
{
    (void)state;
    struct bench bench;
    bench_init_sized(&bench, PERSEUS_ORDERING_FIFO,
                     &(struct bench_sizes){.timeout_ns = TIMEOUT_NS});
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    }
    assert_int_equal(bench_add(&bench, 1, 3), PERSEUS_OK);
    assert_int_equal(prs_orderer_quiet(bench.orderer, ALL, 1), PERSEUS_OK);
    for (uint32_t i = 0; i < 7; i++) {
        pass(&bench, TIMEOUT_NS / 16 * 15);
        fake_complete(bench.fake, i, PERSEUS_OK);
        bench_progress(&bench);
    }
    pass(&bench, TIMEOUT_NS / 16 * 15);
    assert_false(bench.done[1]);
    answer(&bench, 1, 1, PRS_ANSWER_ACK);
    assert_true(bench.done[1]);
    assert_int_equal(bench.status[1], PERSEUS_OK);
    bench_finish(&bench);
}

/* ^Z, a debugger, a laptop that sleeps: a PE that did not look for longer than the deadline has
 * missed what its peers sent meanwhile, and gives nobody up for it, however often that happens. */
static void test_time_in_which_nobody_looked_does_not_count(void **state)
{
    (void)state;
    for (size_t i = 0; i < MODES; i++) {
        struct bench bench;
        bench_init_sized(&bench, every_mode[i], &(struct bench_sizes){.timeout_ns = TIMEOUT_NS});
        bench.fake->now_ns += 100 * (uint64_t)TIMEOUT_NS; /* nor time before there was a debt */
        assert_int_equal(bench_put_token(&bench, 1, 1), PERSEUS_OK);
        for (int stops = 0; stops < 4; stops++) {
            bench.fake->now_ns += 100 * (uint64_t)TIMEOUT_NS;
            bench_progress(&bench);
            pass(&bench, TIMEOUT_NS / 16);
        }
        assert_false(bench.done[1]);
        fake_complete_all(bench.fake);
        bench_progress(&bench);
        assert_true(bench.done[1]);
        assert_int_equal(bench.status[1], PERSEUS_OK);
        /* Silence while it does look still counts. */
        assert_int_equal(bench_put_token(&bench, 1, 2), PERSEUS_OK);
        bench.fake->now_ns += 100 * (uint64_t)TIMEOUT_NS;
        pass(&bench, TIMEOUT_NS);
        assert_int_equal(bench.status[2], PERSEUS_PEER_LOST);
        bench_finish(&bench);
    }
}

/* What waits for others (a drain) is not held against its own peer. */
static void test_a_peer_that_is_only_held_by_a_drain_is_not_lost(void **state)
{
    (void)state;
    struct bench bench;
    bench_init_sized(&bench, PERSEUS_ORDERING_DRAIN,
                     &(struct bench_sizes){.timeout_ns = TIMEOUT_NS});
    assert_int_equal(bench_put_token(&bench, 2, 1), PERSEUS_OK); /* never completes */
    assert_int_equal(bench_put_signal(&bench, 1, 7), PERSEUS_OK);
    fake_complete(bench.fake, 1, PERSEUS_OK);
    bench_progress(&bench);
    pass(&bench, TIMEOUT_NS);
    assert_int_equal(bench.status[1], PERSEUS_PEER_LOST);
    assert_int_equal(bench_posts(&bench), 3); /* the signal left once the drain ended */
    fake_complete(bench.fake, 2, PERSEUS_OK);
    bench_progress(&bench);
    assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
    bench_finish(&bench);
}

/* ---- answers ---- */

static void put_record(struct bench *bench, uint32_t sender, uint32_t number)
{
    struct prs_orderer *orderer = bench->orderer;
    struct prs_record record = {
        .number = number, .kind = PRS_RECORD_SET, .count = 8, .offset = 16, .values = {number}};
    uint32_t bytes = prs_record_bytes(&record);
    uint64_t place = prs_mail_place(&orderer->layout, PRS_MAIL_NEAR, sender,
                                    number * bytes % PRS_MAIL_NEAR_SIZE);
    memcpy(orderer->control + place, &record, bytes);
    struct prs_immediate what = {.kind = PRS_IMMEDIATE_RECORD, .sender = sender, .number = number};
    fake_arrive(bench->fake, prs_immediate_encode(&orderer->immediate, orderer->secret, 0, &what));
}

/* Two PEs that have used up everything still answer each other. */
static void test_answers_need_nothing_of_the_pools(void **state)
{
    (void)state;
    struct bench bench;
    bench_init_sized(
        &bench, PERSEUS_ORDERING_COUNTED,
        &(struct bench_sizes){
            .pools = {.operations = 2, .tokens = 1, .stages = 1, .quiets = 1, .replies = 1},
            .parked_max = 2});
    while (bench_signal(&bench, 1, 7) == PERSEUS_OK) {
    }
    uint32_t posts = bench_posts(&bench);
    put_record(&bench, 1, 0);
    bench_progress(&bench);
    assert_int_equal(bench_posts(&bench), posts + 1);
    bench_finish(&bench);
}

static void test_an_answer_that_is_refused_ends_nobody_else(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_COUNTED, NULL, NULL);
    put_record(&bench, 1, 0);
    bench.fake->fail = PERSEUS_LIMIT;
    bench_progress(&bench); /* no step fails */
    put_record(&bench, 1, 1);
    put_record(&bench, 2, 0);
    bench_progress(&bench);
    assert_int_equal(bench_posts(&bench), 1); /* PE 2 is answered, PE 1 no more */
    assert_int_equal(bench_signal(&bench, 1, 7), PERSEUS_LIMIT);
    assert_true(prs_orderer_is_idle(bench.orderer));
    bench_finish(&bench);
}

/* ---- a peer that takes nothing ---- */

static bool refuse_first_peer(const struct prs_op *op)
{
    return op->peer == 1;
}

/* It is connecting, or full: its operations are parked, up to the bound; nobody else waits. */
static void test_a_peer_that_takes_nothing_holds_up_nobody_else(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, PERSEUS_ORDERING_FIFO, NULL, NULL);
    bench.fake->refuses = refuse_first_peer;
    for (int i = 0; i < 8; i++) {
        assert_int_equal(bench_put(&bench, 1), PERSEUS_OK);
        assert_int_equal(bench_put(&bench, 2), PERSEUS_OK);
        bench_progress(&bench);
    }
    assert_int_equal(bench_put(&bench, 1), PERSEUS_AGAIN);
    assert_int_equal(bench_posts(&bench), 8);
    bench.fake->refuses = NULL;
    bench_progress(&bench);
    assert_int_equal(bench_posts(&bench), 16);
    bench_finish(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_refused_put_lets_no_signal_through),
        cmocka_unit_test(test_a_malformed_request_lets_no_signal_through),
        cmocka_unit_test(test_a_request_to_nobody_is_told_by_quiets_of_all),
        cmocka_unit_test(test_a_parked_operation_that_is_refused_ends_nobody_else),
        cmocka_unit_test(test_words_that_are_none_are_refused_at_the_sender),
        cmocka_unit_test(test_a_record_that_was_refused_fails_its_sender),
        cmocka_unit_test(test_a_fetch_ends_when_its_peer_is_lost),
        cmocka_unit_test(test_a_silent_peer_is_lost_within_the_deadline),
        cmocka_unit_test(test_an_operation_that_never_returns_is_told_within_the_deadline),
        cmocka_unit_test(test_a_peer_that_moves_but_does_not_answer_is_lost),
        cmocka_unit_test(test_a_slow_peer_is_not_lost),
        cmocka_unit_test(test_time_in_which_nobody_looked_does_not_count),
        cmocka_unit_test(test_a_peer_that_is_only_held_by_a_drain_is_not_lost),
        cmocka_unit_test(test_answers_need_nothing_of_the_pools),
        cmocka_unit_test(test_an_answer_that_is_refused_ends_nobody_else),
        cmocka_unit_test(test_a_peer_that_takes_nothing_holds_up_nobody_else),
    };
    return cmocka_run_group_tests_name("failures", tests, NULL, NULL);
}
