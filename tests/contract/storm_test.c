/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three PEs, started in step, send thousands of signals to both others over a link so slow that
 * whatever can run out does: records, operations, staging slots, parked places. Everybody answers
 * everybody all the same. In virtual time; with one-way latencies of 500 us, 5 ms and 50 ms.
 */
#include "contract/trio.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>

#define SIGNALS   4000
#define BURST     64
#define TURNS_MAX 3000000u

static const uint64_t latencies_ns[] = {500000, 5000000, 50000000};

static const struct prs_order_pools smallest = {
    .operations = 2, .tokens = 1, .quiets = 1, .stages = 1, .replies = 1};

struct storm {
    const char *name;
    enum perseus_ordering ordering;
    uint64_t ungranted, unordered;
    uint64_t stride; /* of the signals' values: far apart, they do not ride */
};

static const struct storm storms[] = {
    {"fifo, words tear, signals ride", PERSEUS_ORDERING_FIFO, PRS_UNGRANT_WHOLE_SIGNALS, 0, 1},
    {"fifo, words tear, records", PERSEUS_ORDERING_FIFO, PRS_UNGRANT_WHOLE_SIGNALS, 0, 5000},
    {"counted, signals ride", PERSEUS_ORDERING_COUNTED, 0, PRS_ORDER_EVERY_PAIR, 1},
    {"counted, records", PERSEUS_ORDERING_COUNTED, 0, PRS_ORDER_EVERY_PAIR, 5000},
    {"deferred", PERSEUS_ORDERING_DEFERRED, PRS_UNGRANT_WHOLE_SIGNALS, PRS_ORDER_EVERY_PAIR, 1},
};
#define STORMS (sizeof storms / sizeof storms[0])

static struct trio trio;

/* What `self` still sends to each; a quiet when all is said. Whether anything was taken. */
static bool send_some(const struct storm *storm, uint32_t self, uint32_t *sent, bool *asked)
{
    bool did = false, all = true;
    for (uint32_t i = 1; i < TRIO_PES; i++) {
        uint32_t peer = (self + i) % TRIO_PES;
        enum perseus_status status = PERSEUS_OK;
        for (uint32_t n = 0; n < BURST && sent[peer] < SIGNALS && status == PERSEUS_OK; n++) {
            status = trio_put_signal(&trio, self, peer, (sent[peer] + 1) * storm->stride);
            sent[peer] += status == PERSEUS_OK;
            did |= status == PERSEUS_OK;
        }
        assert_true(status == PERSEUS_OK || status == PERSEUS_AGAIN);
        all &= sent[peer] == SIGNALS;
    }
    if (all && !*asked) {
        *asked = prs_orderer_quiet(trio.pes[self].orderer, PRS_ORDER_ALL_PEERS, 0) == PERSEUS_OK;
        did |= *asked;
    }
    return did;
}

static void run_storm(const struct storm *storm, uint64_t latency_ns, bool is_small)
{
    const struct trio_config config = {
        .ordering = storm->ordering,
        .ungranted_mask = storm->ungranted,
        .unordered_mask = storm->unordered,
        .pools = is_small ? smallest : (struct prs_order_pools){0},
        .parked_max = is_small ? 2 : 0,
        .faulty = {.latency_ns = latency_ns},
    };
    uint32_t sent[TRIO_PES][TRIO_PES] = {{0}}, turns = 0, done = 0;
    bool asked[TRIO_PES] = {false};
    trio_open(&trio, &config);
    uint64_t begin_ns = trio.now_ns;
    while (done < TRIO_PES) {
        bool did = false;
        for (uint32_t self = 0; self < TRIO_PES; self++) {
            did |= send_some(storm, self, sent[self], &asked[self]);
        }
        did |= trio_step(&trio);
        trio.now_ns += did ? 1000 : latency_ns / 4;
        done = 0;
        for (uint32_t self = 0; self < TRIO_PES; self++) {
            done += trio.pes[self].done[0];
        }
        if (++turns == TURNS_MAX) {
            fail_msg("%s, latency %llu us%s: no end; PE 0 has sent %u and %u of %u", storm->name,
                     (unsigned long long)latency_ns / 1000, is_small ? ", small pools" : "",
                     sent[0][1], sent[0][2], SIGNALS);
        }
    }
    for (uint32_t self = 0; self < TRIO_PES; self++) {
        assert_int_equal(trio.pes[self].status[0], PERSEUS_OK);
        for (uint32_t peer = 0; peer < TRIO_PES; peer++) {
            assert_int_equal(trio.pes[self].memory[1 + peer],
                             peer == self ? 0 : SIGNALS * storm->stride);
        }
    }
    print_message("  %s, latency %llu us%s: %llu ms of virtual time, %u turns\n", storm->name,
                  (unsigned long long)latency_ns / 1000, is_small ? ", small pools" : "",
                  (unsigned long long)(trio.now_ns - begin_ns) / 1000000, turns);
    trio_close(&trio);
}

static void test_storms(void **state)
{
    (void)state;
    for (size_t i = 0; i < STORMS; i++) {
        for (size_t l = 0; l < sizeof latencies_ns / sizeof latencies_ns[0]; l++) {
            run_storm(&storms[i], latencies_ns[l], false);
            run_storm(&storms[i], latencies_ns[l], true);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_storms)};
    return cmocka_run_group_tests_name("storms", tests, NULL, NULL);
}
