/* SPDX-License-Identifier: Apache-2.0 */
/* The hub's protocol without sockets: time, order and memory are the test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bootstrap/star.h"
#include "bootstrap/wire.h"
#include "job.h"

static const unsigned char secret[PRS_PROOF_SECRET_BYTES] = "a secret of 32 bytes, not more.";

static struct prs_star *create(int size, struct job_log *log)
{
    struct prs_star *star = NULL;
    struct prs_log sink = job_log_sink(log);
    job_log_init(log);
    assert_int_equal(prs_star_create(size, secret, &sink, &star), PERSEUS_OK);
    return star;
}

/* Drains the dirty list as the hub does, but writes nothing: returns how many slots closed. */
static int settle(struct prs_star *star)
{
    int slot, n_closed = 0;
    while ((slot = prs_star_next_dirty(star)) >= 0) {
        if (prs_star_closing(star, slot)) {
            prs_star_closed(star, slot);
            n_closed++;
        }
    }
    return n_closed;
}

static void feed(struct prs_star *star, int slot, const void *data, size_t bytes)
{
    const unsigned char *from = data;
    while (bytes > 0 && !prs_star_closing(star, slot)) {
        unsigned char *at;
        size_t n = prs_star_input(star, slot, &at);
        n = n < bytes ? n : bytes;
        memcpy(at, from, n);
        from += n;
        bytes -= n;
        prs_star_received(star, slot, n);
    }
}

static void feed_header(struct prs_star *star, int slot, enum prs_wire_type type, int rank,
                        uint64_t bytes)
{
    unsigned char head[PRS_WIRE_HEADER_BYTES];
    const struct prs_wire_header header = {PRS_WIRE_VERSION, (uint16_t)type, (uint32_t)rank, bytes};
    prs_wire_put_header(&header, head);
    feed(star, slot, head, sizeof head);
}

/* Says hello on a new slot and reads the challenge. */
static int say_hello(struct prs_star *star, struct prs_proof_terms *terms)
{
    unsigned char body[PRS_WIRE_HELLO_BYTES];
    const unsigned char *at = NULL;
    struct prs_proof_challenge challenge;
    int slot = prs_star_add(star, PRS_STAR_STRANGER, "somewhere");
    prs_wire_put_hello(terms, body);
    feed_header(star, slot, PRS_WIRE_HELLO, (int)terms->rank, sizeof body);
    feed(star, slot, body, sizeof body);
    size_t n = prs_star_output(star, slot, &at);
    assert_int_equal(n, PRS_WIRE_HEADER_BYTES + PRS_WIRE_CHALLENGE_BYTES);
    prs_wire_get_challenge(at + PRS_WIRE_HEADER_BYTES, &challenge);
    prs_star_sent(star, slot, n);
    memcpy(terms->nonce_of_hub, challenge.nonce, sizeof challenge.nonce);
    assert_true(prs_proof_check(secret, PRS_PROOF_OF_HUB, terms, challenge.proof));
    return slot;
}

static void say_proof(struct prs_star *star, int slot, enum prs_proof_side side,
                      const struct prs_proof_terms *terms)
{
    unsigned char proof[PRS_PROOF_BYTES];
    prs_proof_make(secret, side, terms, proof);
    feed_header(star, slot, PRS_WIRE_PROOF, (int)terms->rank, sizeof proof);
    feed(star, slot, proof, sizeof proof);
}

static int join(struct prs_star *star, int rank, int size, uint32_t timeout_ms)
{
    struct prs_proof_terms terms = {
        .rank = (uint32_t)rank, .size = (uint32_t)size, .timeout_ms = timeout_ms};
    int slot = say_hello(star, &terms);
    say_proof(star, slot, PRS_PROOF_OF_PE, &terms);
    return slot;
}

/* Takes the next frame off the slot's output; its type, or 0. */
static int take_frame(struct prs_star *star, int slot, struct prs_wire_header *out_header,
                      struct prs_wire_failed *out_failed)
{
    unsigned char frame[PRS_WIRE_HEADER_BYTES + PRS_WIRE_FAILED_BYTES];
    const unsigned char *at = NULL;
    size_t n = prs_star_output(star, slot, &at);
    if (n == 0) {
        return 0;
    }
    assert_true(n <= sizeof frame);
    memcpy(frame, at, n);
    prs_star_sent(star, slot, n);
    assert_int_equal(prs_wire_get_header(frame, out_header), PERSEUS_OK);
    if (out_header->type == PRS_WIRE_FAILED) {
        prs_wire_get_failed(frame + PRS_WIRE_HEADER_BYTES, out_failed);
    } else if (out_header->type == PRS_WIRE_RESULT) {
        for (uint64_t left = out_header->bytes; left > 0; left -= n) {
            n = prs_star_output(star, slot, &at);
            prs_star_sent(star, slot, n);
        }
    }
    return out_header->type;
}

static void expect(struct prs_star *star, int slot, enum prs_wire_type type)
{
    struct prs_wire_header header;
    struct prs_wire_failed failed;
    assert_int_equal(take_frame(star, slot, &header, &failed), type);
}

static void expect_failed(struct prs_star *star, int slot, enum perseus_status status, int rank,
                          uint32_t detail)
{
    struct prs_wire_header header = {0};
    struct prs_wire_failed failed = {0};
    assert_int_equal(take_frame(star, slot, &header, &failed), PRS_WIRE_FAILED);
    assert_int_equal(failed.status, status);
    assert_int_equal(header.rank, rank);
    assert_int_equal(failed.detail, detail);
}

/* ---- strangers ---- */

static void strangers_are_bounded_in_number(void **state)
{
    (void)state;
    struct job_log log;
    struct prs_star *star = create(2, &log);
    int first = -1, n_closed = 0;
    for (int i = 0; i < 1000; i++) {
        prs_star_tick(star, (uint64_t)i);
        int slot = prs_star_add(star, PRS_STAR_STRANGER, "somewhere");
        assert_true(slot >= 0 && slot < prs_star_slots(star));
        first = i == 0 ? slot : first;
        if (i == PRS_STAR_STRANGERS) {
            assert_true(prs_star_closing(star, first)); /* the oldest makes room */
        }
        n_closed += settle(star);
    }
    assert_int_equal(n_closed, 1000 - PRS_STAR_STRANGERS);
    /* Whoever knows the secret still gets in. */
    int slot = join(star, 1, 2, 1000);
    expect(star, slot, PRS_WIRE_WELCOME);
    prs_star_destroy(star);
    assert_true(job_log_warnings(&log) <= 9);
    assert_true(job_log_has(&log, "dropped 929 more connections of strangers"));
}

static void strangers_are_bounded_in_time(void **state)
{
    (void)state;
    struct job_log log;
    struct prs_star *star = create(2, &log);
    const uint64_t start = 5000000000u, limit = (uint64_t)PRS_STAR_HELLO_MS * 1000000u;
    prs_star_tick(star, start);
    int slow = prs_star_add(star, PRS_STAR_STRANGER, "a slow one");
    assert_true(prs_star_tick(star, start) == start + limit);
    /* One byte now and then does not buy more time. */
    for (int i = 0; i < 10; i++) {
        prs_star_tick(star, start + (uint64_t)i * limit / 10);
        feed(star, slow, &"PRSB\2\0\1\0\0\0\0\0"[i], 1);
        assert_false(prs_star_closing(star, slow));
    }
    assert_true(prs_star_tick(star, start + limit) == UINT64_MAX);
    assert_true(prs_star_closing(star, slow));
    assert_int_equal(settle(star), 1);
    assert_true(
        job_log_has(&log, "from a slow one: it has not proven in time that it knows the secret"));
    /* A member may be silent as long as it likes. */
    int slot = join(star, 1, 2, 1000);
    assert_true(prs_star_tick(star, start + 100 * limit) == UINT64_MAX);
    assert_false(prs_star_closing(star, slot));
    prs_star_destroy(star);
}

static void warnings_are_limited_per_window(void **state)
{
    (void)state;
    struct job_log log;
    struct prs_star *star = create(2, &log);
    for (int window = 0; window < 3; window++) {
        prs_star_tick(star, (uint64_t)window * 20000000000u);
        for (int i = 0; i < 20; i++) {
            int slot = prs_star_add(star, PRS_STAR_STRANGER, "somewhere");
            prs_star_closed(star, slot);
        }
    }
    assert_int_equal(job_log_warnings(&log), 3 * 8 + 2); /* the third sum comes at the end */
    prs_star_destroy(star);
    assert_int_equal(job_log_warnings(&log), 3 * 8 + 3);
}

/* A proof is good for one connection, one PE and what that says about itself. */
static void proofs_are_of_no_use_elsewhere(void **state)
{
    (void)state;
    struct job_log log;
    struct prs_star *star = create(3, &log);
    const struct prs_proof_terms first = {.rank = 1, .size = 3, .timeout_ms = 1000};
    enum { ANOTHERS, REFLECTED, OTHER_SIZE, OTHER_TIMEOUT, OTHER_RANK, CASES };
    for (int i = 0; i < CASES; i++) {
        struct prs_proof_terms recorded = first, terms = first;
        prs_star_closed(star, say_hello(star, &recorded));
        int slot = say_hello(star, &terms);
        struct prs_proof_terms shown = i == ANOTHERS ? recorded : terms;
        shown.size += i == OTHER_SIZE;
        shown.timeout_ms += i == OTHER_TIMEOUT;
        shown.rank += i == OTHER_RANK;
        say_proof(star, slot, i == REFLECTED ? PRS_PROOF_OF_HUB : PRS_PROOF_OF_PE, &shown);
        assert_true(prs_star_closing(star, slot));
        if (i != OTHER_RANK) { /* which does not even have this slot's rank */
            expect_failed(star, slot, PERSEUS_INVALID_ARGUMENT, 1, PRS_WIRE_WRONG_SECRET);
        }
        settle(star);
    }
    expect(star, join(star, 1, 3, 1000), PRS_WIRE_WELCOME); /* nobody took its place */
    prs_star_destroy(star);
}

static void nothing_but_a_proof_follows_a_hello(void **state)
{
    (void)state;
    static const struct {
        enum prs_wire_type type;
        uint64_t bytes;
    } bad[] = {{PRS_WIRE_HELLO, PRS_WIRE_HELLO_BYTES}, {PRS_WIRE_GATHER, 8}, {PRS_WIRE_BYE, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct job_log log;
        struct prs_star *star = create(2, &log);
        struct prs_proof_terms terms = {.rank = 1, .size = 2, .timeout_ms = 1000};
        int slot = say_hello(star, &terms);
        feed_header(star, slot, bad[i].type, 1, bad[i].bytes);
        assert_true(prs_star_closing(star, slot));
        assert_false(prs_star_is_gone(star, 1));
        settle(star);
        prs_star_destroy(star);
    }
}

/* ---- members ---- */

static void a_deadline_is_that_of_the_first_who_waits(void **state)
{
    (void)state;
    struct job_log log;
    struct prs_star *star = create(3, &log);
    prs_star_tick(star, 1000000);
    int a = join(star, 0, 3, 500), b = join(star, 1, 3, PERSEUS_NO_TIMEOUT);
    expect(star, a, PRS_WIRE_WELCOME);
    expect(star, b, PRS_WIRE_WELCOME);
    feed_header(star, b, PRS_WIRE_GATHER, 1, 0);
    assert_true(prs_star_tick(star, 2000000) == UINT64_MAX); /* it waits for ever */
    feed_header(star, a, PRS_WIRE_GATHER, 0, 0);
    assert_true(prs_star_tick(star, 2000000) == 502000000);
    prs_star_tick(star, 501999999);
    assert_int_equal(prs_star_next_dirty(star) >= 0, true); /* from the WELCOMEs */
    settle(star);
    prs_star_tick(star, 502000000);
    expect_failed(star, a, PERSEUS_TIMEOUT, 2, 1);
    expect_failed(star, b, PERSEUS_TIMEOUT, 2, 1);
    assert_true(job_log_has(&log, "1 of 3 PEs did not make the collective call before the "
                                  "deadline: 2 (never joined)."));
    prs_star_destroy(star);
}

static void a_long_list_of_missing_pes_is_cut(void **state)
{
    (void)state;
    struct job_log log;
    struct prs_star *star = create(5000, &log);
    int slot = join(star, 4999, 5000, 1);
    feed_header(star, slot, PRS_WIRE_GATHER, 4999, 0);
    prs_star_tick(star, 10000000);
    expect(star, slot, PRS_WIRE_WELCOME);
    expect_failed(star, slot, PERSEUS_TIMEOUT, 0, 4999);
    assert_true(job_log_has(&log, "4999 of 5000 PEs"));
    assert_true(job_log_has(&log, ", ..."));
    prs_star_destroy(star);
}

static void a_second_contribution_before_the_result_is_a_fault_of_that_pe(void **state)
{
    (void)state;
    for (int reads_result = 0; reads_result < 2; reads_result++) {
        struct job_log log;
        struct prs_star *star = create(2, &log);
        int a = join(star, 0, 2, 1000), b = join(star, 1, 2, 1000);
        expect(star, a, PRS_WIRE_WELCOME);
        expect(star, b, PRS_WIRE_WELCOME);
        feed_header(star, a, PRS_WIRE_GATHER, 0, 3);
        feed(star, a, "abc", 3);
        if (reads_result) {
            feed_header(star, b, PRS_WIRE_GATHER, 1, 3);
            feed(star, b, "def", 3);
            /* b has read its result and goes on, a has not. */
            expect(star, b, PRS_WIRE_RESULT);
            feed_header(star, b, PRS_WIRE_GATHER, 1, 3);
            assert_false(prs_star_closing(star, b));
        }
        feed_header(star, a, PRS_WIRE_GATHER, 0, 3);
        assert_true(prs_star_closing(star, a));
        expect_failed(star, b, PERSEUS_PEER_LOST, 0, PRS_WIRE_DIED);
        settle(star);
        prs_star_destroy(star);
    }
}

static void members_that_break_the_protocol_are_lost(void **state)
{
    (void)state;
    static const struct {
        uint16_t version, type;
        uint32_t rank;
        uint64_t bytes;
    } bad[] = {
        {PRS_WIRE_VERSION, PRS_WIRE_GATHER, 1, PRS_WIRE_GATHER_BYTES + 1}, /* too much */
        {PRS_WIRE_VERSION, PRS_WIRE_GATHER, 0, 8},                         /* another's rank */
        {PRS_WIRE_VERSION, PRS_WIRE_HELLO, 1, PRS_WIRE_HELLO_BYTES},       /* again */
        {PRS_WIRE_VERSION, PRS_WIRE_PROOF, 1, PRS_PROOF_BYTES},
        {PRS_WIRE_VERSION, PRS_WIRE_RESULT, 1, 8}, /* the hub's word */
        {PRS_WIRE_VERSION, PRS_WIRE_CHALLENGE, 1, PRS_WIRE_CHALLENGE_BYTES},
        {PRS_WIRE_VERSION, PRS_WIRE_FAILED, 1, PRS_WIRE_FAILED_BYTES},
        {PRS_WIRE_VERSION + 1, PRS_WIRE_GATHER, 1, 8},
        {PRS_WIRE_VERSION, 99, 1, 0},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct job_log log;
        struct prs_star *star = create(2, &log);
        unsigned char head[PRS_WIRE_HEADER_BYTES];
        int a = join(star, 0, 2, 1000), b = join(star, 1, 2, 1000);
        expect(star, a, PRS_WIRE_WELCOME);
        const struct prs_wire_header header = {bad[i].version, bad[i].type, bad[i].rank,
                                               bad[i].bytes};
        prs_wire_put_header(&header, head);
        feed(star, b, head, sizeof head);
        assert_true(prs_star_closing(star, b));
        expect_failed(star, a, PERSEUS_PEER_LOST, 1, PRS_WIRE_DIED);
        assert_true(prs_star_is_gone(star, 1));
        assert_false(prs_star_is_over(star));
        settle(star);
        prs_star_destroy(star);
    }
}

static void only_the_first_failure_is_told(void **state)
{
    (void)state;
    struct job_log log;
    struct prs_star *star = create(3, &log);
    int a = join(star, 0, 3, 1000), b = join(star, 1, 3, 1000), c = join(star, 2, 3, 1000);
    struct prs_wire_header header;
    struct prs_wire_failed failed;
    expect(star, a, PRS_WIRE_WELCOME);
    prs_star_closed(star, c);
    prs_star_closed(star, b);
    prs_star_report_death(star, 1);
    expect_failed(star, a, PERSEUS_PEER_LOST, 2, PRS_WIRE_DIED);
    assert_int_equal(take_frame(star, a, &header, &failed), 0);
    /* What it still says is read and forgotten. */
    feed_header(star, a, PRS_WIRE_GATHER, 0, 1000);
    for (int i = 0; i < 10; i++) {
        unsigned char body[100] = {0};
        feed(star, a, body, sizeof body);
    }
    feed_header(star, a, PRS_WIRE_BYE, 0, 0);
    assert_true(prs_star_closing(star, a));
    assert_true(prs_star_is_over(star));
    settle(star);
    prs_star_destroy(star);
}

static void a_rank_with_a_socket_of_its_own_does_not_come_as_a_stranger(void **state)
{
    (void)state;
    struct job_log log;
    struct prs_star *star = create(1, &log);
    int own = prs_star_add(star, 0, "PE 0");
    int slot = join(star, 0, 1, 1000);
    assert_true(prs_star_closing(star, slot));
    expect_failed(star, slot, PERSEUS_INVALID_ARGUMENT, 0, PRS_WIRE_DUPLICATE);
    settle(star);
    assert_false(prs_star_closing(star, own));
    assert_false(prs_star_is_gone(star, 0));
    prs_star_destroy(star);
}

static void jobs_of_impossible_sizes_are_refused(void **state)
{
    (void)state;
    struct prs_star *star = NULL;
    assert_int_equal(prs_star_create(0, secret, NULL, &star), PERSEUS_INVALID_ARGUMENT);
    assert_int_equal(prs_star_create(-1, secret, NULL, &star), PERSEUS_INVALID_ARGUMENT);
    assert_int_equal(prs_star_create(PRS_WIRE_SIZE_MAX + 1, secret, NULL, &star),
                     PERSEUS_INVALID_ARGUMENT);
    assert_null(star);
    prs_star_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_are_bounded_in_number),
        cmocka_unit_test(strangers_are_bounded_in_time),
        cmocka_unit_test(warnings_are_limited_per_window),
        cmocka_unit_test(proofs_are_of_no_use_elsewhere),
        cmocka_unit_test(nothing_but_a_proof_follows_a_hello),
        cmocka_unit_test(a_deadline_is_that_of_the_first_who_waits),
        cmocka_unit_test(a_long_list_of_missing_pes_is_cut),
        cmocka_unit_test(a_second_contribution_before_the_result_is_a_fault_of_that_pe),
        cmocka_unit_test(members_that_break_the_protocol_are_lost),
        cmocka_unit_test(only_the_first_failure_is_told),
        cmocka_unit_test(a_rank_with_a_socket_of_its_own_does_not_come_as_a_stranger),
        cmocka_unit_test(jobs_of_impossible_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
