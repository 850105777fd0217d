/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer that answers AGAIN at first contact, as one does that is dead or starts late: its
 * operations are parked, up to the bound, and nobody else waits. It takes them in the end, or is
 * given up at the deadline with a message that says so. In virtual time.
 */
#include "contract/trio.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#define SECOND_NS  UINT64_C(1000000000)
#define TIMEOUT_NS (30 * SECOND_NS)
#define PARKED     16
#define BUSY       1u /* its rank */
#define WELL       2u

static const enum perseus_ordering modes[] = {
    PERSEUS_ORDERING_DRAIN,     PERSEUS_ORDERING_DRAIN_PEER, PERSEUS_ORDERING_DEFERRED,
    PERSEUS_ORDERING_NIC_FENCE, PERSEUS_ORDERING_FIFO,       PERSEUS_ORDERING_COUNTED};
#define MODES (sizeof modes / sizeof modes[0])

static struct trio trio;
static char last_error[512];

static void keep_error(void *user, enum perseus_log_level level, const char *text)
{
    (void)user;
    if (level == PERSEUS_LOG_ERROR) {
        snprintf(last_error, sizeof last_error, "%s", text);
    }
}

static const struct prs_log keeping = {.fn = keep_error, .level = PERSEUS_LOG_ERROR};

static void open_with(enum perseus_ordering ordering, uint64_t busy_ns, uint64_t timeout_ns)
{
    const struct trio_config config = {
        .ordering = ordering,
        .parked_max = PARKED,
        .timeout_ns = timeout_ns,
        .faulty = {.latency_ns = 1000, .busy_peer = 1, .busy_ns = busy_ns},
        .first_only = true, /* only PE 0 finds it busy */
        .log = &keeping,
    };
    last_error[0] = '\0';
    trio_open(&trio, &config);
}

/* A fifth of a second goes by, in small steps. */
static void pass(void)
{
    for (int i = 0; i < 20; i++) {
        trio.now_ns += SECOND_NS / 100;
        trio_step(&trio);
    }
}

/* To the busy one until it is full, and one signal to the one that is well, which must be seen
 * there at once (in drain-peer, deferred and the others; drain stops for everybody, by its
 * name). */
static void send_to_both(uint64_t value, bool is_drain)
{
    enum perseus_status status;
    while ((status = trio_put_signal(&trio, 0, BUSY, value)) == PERSEUS_OK) {
    }
    assert_int_equal(status, PERSEUS_AGAIN);
    assert_true(trio.pes[0].orderer->peers[BUSY]->parked_count <= PARKED);
    if (!is_drain) {
        assert_int_equal(trio_put_signal(&trio, 0, WELL, value), PERSEUS_OK);
        pass();
        assert_int_equal(trio.pes[WELL].memory[1], value);
    }
}

static bool stalls(enum perseus_ordering ordering)
{
    return ordering == PERSEUS_ORDERING_DRAIN || ordering == PERSEUS_ORDERING_DRAIN_PEER;
}

static void test_a_late_peer_holds_up_nobody(void **state)
{
    (void)state;
    for (size_t i = 0; i < MODES; i++) {
        open_with(modes[i], 20 * SECOND_NS, TIMEOUT_NS);
        uint64_t until_ns = trio.now_ns + 19 * SECOND_NS;
        for (uint64_t value = 1; trio.now_ns < until_ns; value++) {
            send_to_both(value, stalls(modes[i]));
            pass();
        }
        assert_int_equal(prs_orderer_quiet(trio.pes[0].orderer, WELL, 0), PERSEUS_OK);
        pass();
        assert_true(trio.pes[0].done[0]); /* nor a quiet of the other */
        assert_int_equal(trio.pes[0].status[0], PERSEUS_OK);
        assert_int_equal(trio.pes[BUSY].memory[1], 0);
        assert_int_equal(prs_orderer_quiet(trio.pes[0].orderer, PRS_ORDER_ALL_PEERS, 1),
                         PERSEUS_OK);
        for (int turn = 0; turn < 20 && !trio.pes[0].done[1]; turn++) {
            pass();
        }
        assert_true(trio.pes[0].done[1]); /* it has taken them */
        assert_int_equal(trio.pes[0].status[1], PERSEUS_OK);
        assert_true(trio.pes[BUSY].memory[1] > 0);
        assert_string_equal(last_error, "");
        trio_close(&trio);
    }
}

static void test_a_peer_that_never_answers_is_lost_at_the_deadline(void **state)
{
    (void)state;
    for (size_t i = 0; i < MODES; i++) {
        open_with(modes[i], 60 * SECOND_NS, TIMEOUT_NS);
        uint64_t begin_ns = trio.now_ns;
        send_to_both(1, stalls(modes[i]));
        assert_int_equal(prs_orderer_quiet(trio.pes[0].orderer, BUSY, 0), PERSEUS_OK);
        while (!trio.pes[0].done[0] && trio.now_ns - begin_ns < 59 * SECOND_NS) {
            if (!stalls(modes[i])) {
                assert_int_equal(trio_put_signal(&trio, 0, WELL, trio.now_ns), PERSEUS_OK);
            }
            pass();
        }
        assert_in_range(trio.now_ns - begin_ns, TIMEOUT_NS, TIMEOUT_NS + 2 * SECOND_NS);
        assert_int_equal(trio.pes[0].status[0], PERSEUS_PEER_LOST);
        pass(); /* a drain ends with it */
        assert_int_equal(trio_put_signal(&trio, 0, BUSY, 2), PERSEUS_PEER_LOST);
        assert_int_equal(trio_put_signal(&trio, 0, WELL, 99), PERSEUS_OK); /* and goes on */
        pass();
        assert_int_equal(trio.pes[WELL].memory[1], 99);
        assert_int_equal(trio.pes[BUSY].memory[1], 0);
        assert_non_null(strstr(last_error, "PE 1 is lost"));
        assert_non_null(strstr(last_error, "other peers go on"));
        trio_close(&trio);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_late_peer_holds_up_nobody),
        cmocka_unit_test(test_a_peer_that_never_answers_is_lost_at_the_deadline),
    };
    return cmocka_run_group_tests_name("first contact", tests, NULL, NULL);
}
