/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong at run time: peers that leave without a word, channels that stall, operations
 * that the fabric fails. Every call ends with a clear status, and every PE can still be closed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/check.h"
#include "core/pes.h"

#define LONG_MS 60000 /* only a lost peer ends these waits in time */

static struct pes pes;

static void *allocate(struct perseus_pe *pe, size_t bytes)
{
    void *memory = NULL;
    CHECK_OK(perseus_malloc(pe, bytes, &memory));
    return memory;
}

enum last_call { WAITS, MEETS, ALLOCATES, FINALIZES };

/* PE 1 aborts; every other PE is in the middle of something that needs it. */
static void one_leaves(struct pes *job, struct perseus_pe *pe, void *context)
{
    enum last_call call = *(enum last_call *)context;
    int me = perseus_my_pe(pe);
    uint64_t *word = allocate(pe, sizeof *word);
    void *memory = NULL;
    if (me == 1) {
        perseus_abort(pe);
        job->aborted[me] = true;
        return;
    }
    switch (call) {
    case WAITS:
        CHECK_STATUS(perseus_signal_wait_until(pe, word, PERSEUS_CMP_EQ, 1, LONG_MS, NULL),
                     PERSEUS_PEER_LOST);
        CHECK_STATUS(
            perseus_signal_wait_until(pe, word, PERSEUS_CMP_EQ, 1, PERSEUS_NO_TIMEOUT, NULL),
            PERSEUS_PEER_LOST);
        break;
    case MEETS:
        CHECK_STATUS(perseus_barrier_all(pe), PERSEUS_PEER_LOST);
        break;
    case ALLOCATES:
        CHECK_STATUS(perseus_malloc(pe, 8, &memory), PERSEUS_PEER_LOST);
        CHECK(memory == NULL);
        break;
    case FINALIZES:
        return;
    }
    CHECK(messages_have(&job->messages[me], "PE 1"));
    /* The test's bootstrap, which ends a malloc, has a log of its own. */
    CHECK(call == ALLOCATES || strstr(perseus_last_error(pe), "PE 1") != NULL);
}

static void test_peer_leaves(void **state)
{
    (void)state;
    for (int pes_per_node = 0; pes_per_node <= 1; pes_per_node++) {
        for (enum last_call call = WAITS; call <= FINALIZES; call++) {
            struct perseus_attr attr = pes_attr(pes_per_node);
            pes_init(&pes, 3, &attr);
            pes_run(&pes, one_leaves, &call);
            for (int pe = 0; pe < pes.size; pe += 2) {
                CHECK_OK(pes.opened[pe]);
                CHECK_STATUS(pes.finalized[pe], PERSEUS_PEER_LOST);
                CHECK(messages_have(&pes.messages[pe], "PE 1"));
            }
            pes_finish(&pes);
        }
    }
}

/* The link is so slow that nothing completes: calls must come back by their deadline, one after the
 * other, and the PE must still close. */
static void stall(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)context;
    int me = perseus_my_pe(pe), other = 1 - me;
    struct messages *messages = &job->messages[me];
    uint64_t *words = allocate(pe, 4096), old = 77;
    pe->timeout_ms = 100;
    CHECK_STATUS(perseus_put(pe, words, words, 64, other), PERSEUS_TIMEOUT);
    CHECK(messages_have(messages, "put with PE"));
    CHECK_STATUS(perseus_get(pe, words, words, 64, other), PERSEUS_TIMEOUT);
    CHECK_STATUS(perseus_atomic_fetch(pe, words, PERSEUS_ATOMIC_ADD, 1, 0, other, &old),
                 PERSEUS_TIMEOUT);
    CHECK_STATUS(perseus_quiet(pe), PERSEUS_TIMEOUT);
    CHECK_STATUS(perseus_barrier_all(pe), PERSEUS_TIMEOUT);
    CHECK(old == 77);
    enum perseus_status status = PERSEUS_OK;
    for (int i = 0; i < 100000 && status == PERSEUS_OK; i++) {
        status =
            perseus_put_signal_nbi(pe, words, words, 8, words + 8, 1, PERSEUS_SIGNAL_ADD, other);
    }
    CHECK_STATUS(status, PERSEUS_TIMEOUT);
    CHECK(messages_have(messages, "ring stays full"));
    pes_meet(job);
    perseus_abort(pe);
    job->aborted[me] = true;
}

static void test_stalled_link(void **state)
{
    (void)state;
    struct perseus_attr attr = pes_attr(0);
    attr.ring_slots = 16;
    attr.ordering = PERSEUS_ORDERING_DRAIN;
    attr.pes_per_node = 1;
    setenv("PERSEUS_LINK", "latency=3600s", 1);
    pes_init(&pes, 2, &attr);
    pes_run(&pes, stall, NULL);
    CHECK_OK(pes.opened[0]);
    CHECK_OK(pes.opened[1]);
    pes_finish(&pes);
    unsetenv("PERSEUS_LINK");
}

/* A leader that cannot submit its signals loses the round, says so, and the group stays lost. */
static void lose_a_round(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)context;
    int me = perseus_my_pe(pe), other = 1 - me;
    uint64_t *words = allocate(pe, 4096);
    const struct perseus_signal_group_member members[] = {{other, words}, {other, words + 2}};
    const struct perseus_signal_group_attr attr = {members, 2, PERSEUS_SIGNAL_SET, false};
    struct perseus_signal_group *group = NULL;
    CHECK_OK(perseus_signal_group_create(pe, &attr, &group));
    pe->timeout_ms = 100;
    enum perseus_status status = PERSEUS_OK;
    uint64_t arrivals = 0;
    while (status == PERSEUS_OK && arrivals < 100000) {
        status = perseus_signal_group_put(group, (uint32_t)(arrivals % 2), NULL, NULL, 0, 1);
        arrivals++;
    }
    CHECK_STATUS(status, PERSEUS_TIMEOUT);
    CHECK_STATUS(perseus_signal_group_put(group, 0, NULL, NULL, 0, 1), PERSEUS_TIMEOUT);
    CHECK(strstr(perseus_last_error(pe), "lost a round") != NULL);
    CHECK_STATUS(perseus_signal_group_put_more(group, 1, words, words, 8), PERSEUS_TIMEOUT);
    perseus_signal_group_destroy(group);
    pes_meet(job);
    perseus_abort(pe);
    job->aborted[me] = true;
}

static void test_lost_round(void **state)
{
    (void)state;
    struct perseus_attr attr = pes_attr(1);
    attr.ring_slots = 16;
    attr.ordering = PERSEUS_ORDERING_DRAIN;
    setenv("PERSEUS_LINK", "latency=3600s", 1);
    pes_init(&pes, 2, &attr);
    pes_run(&pes, lose_a_round, NULL);
    pes_finish(&pes);
    unsetenv("PERSEUS_LINK");
}

/* The fabric fails one operation: who waits for it hears of it, who does not hears from quiet. */
static void operation_fails(struct pes *job, struct perseus_pe *pe, void *context)
{
    bool blocking = *(bool *)context;
    int me = perseus_my_pe(pe), other = 1 - me;
    unsigned char *memory = allocate(pe, 4096);
    if (blocking) {
        CHECK(perseus_put(pe, memory, memory, 64, other) != PERSEUS_OK);
        CHECK(strstr(perseus_last_error(pe), "put with PE") != NULL);
    } else {
        CHECK_OK(perseus_put_nbi(pe, memory, memory, 64, other));
        CHECK(perseus_quiet(pe) != PERSEUS_OK);
        CHECK(strstr(perseus_last_error(pe), "quiet") != NULL);
    }
    CHECK(messages_errors(&job->messages[me]) >= 1);
    CHECK(perseus_put(pe, memory, memory, 64, other) != PERSEUS_OK); /* that peer is gone */
    CHECK_OK(perseus_put(pe, memory, memory, 64, me));
    pes_meet(job);
    perseus_abort(pe);
    job->aborted[me] = true;
}

static void test_failed_operation(void **state)
{
    (void)state;
    setenv("PERSEUS_ADVERSARY", "fail_nth=1", 1);
    for (int blocking = 0; blocking <= 1; blocking++) {
        bool context = blocking != 0;
        struct perseus_attr attr = pes_attr(1);
        pes_init(&pes, 2, &attr);
        pes_run(&pes, operation_fails, &context);
        pes_finish(&pes);
    }
    unsetenv("PERSEUS_ADVERSARY");
}

/* A mode that the fabric cannot keep is refused by every PE, with the reason. */
static void never_open(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)job;
    (void)pe;
    (void)context;
    CHECK(false);
}

static void test_impossible_mode(void **state)
{
    (void)state;
    struct perseus_attr attr = pes_attr(1);
    attr.fabric = "libfabric";
    attr.provider = "tcp";
    attr.ordering = PERSEUS_ORDERING_NIC_FENCE;
    pes_init(&pes, 2, &attr);
    pes_run(&pes, never_open, NULL);
    for (int pe = 0; pe < pes.size; pe++) {
        if (pes.opened[pe] == PERSEUS_NOT_FOUND) {
            skip(); /* built without libfabric, or no tcp provider here */
        }
        CHECK_STATUS(pes.opened[pe], PERSEUS_NOT_SUPPORTED);
        CHECK(messages_have(&pes.messages[pe], "nic-fence"));
    }
    pes_finish(&pes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_peer_leaves),     cmocka_unit_test(test_stalled_link),
        cmocka_unit_test(test_lost_round),      cmocka_unit_test(test_failed_operation),
        cmocka_unit_test(test_impossible_mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
