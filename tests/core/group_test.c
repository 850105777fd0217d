/* SPDX-License-Identifier: Apache-2.0 */
/* Signal groups: many threads of a PE put into one group, round after round without a barrier;
 * whoever sees a member's signal sees its payloads of that round. Local, far and mixed members,
 * with and without vectors, in every mode, under an adversary; and every wrong use. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/check.h"
#include "core/pes.h"

#define WAIT_MS        60000
#define MEMBERS_PER_PE 3
#define ROUNDS         30
#define WORDS          16 /* of each of a member's two payloads */
#define MEMBERS_MAX    (MEMBERS_PER_PE * PES_MAX)
#define THREADS        3

struct variant {
    enum perseus_signal_op op;
    bool vector;
    bool scattered; /* signals not next to each other, members not in order */
};

/* Every PE has one group with MEMBERS_PER_PE members toward every PE. */
struct groups {
    const struct variant *variant;
    struct pes *job;
    struct perseus_pe *pe;
    struct perseus_signal_group *group;
    uint32_t n_members;
    uint64_t *signals;  /* here, by sender and number */
    uint64_t *payloads; /* by sender, number and half: two rounds may be open */
    uint64_t *sources;  /* by target, number, half */
    uint64_t *consumed; /* by sender: rounds that this PE is done with, for flow control */
};

static void *allocate(struct perseus_pe *pe, size_t bytes)
{
    void *memory = NULL;
    CHECK_OK(perseus_malloc(pe, bytes, &memory));
    return memory;
}

/* Member m goes to target m / MEMBERS_PER_PE, unless scattered. */
static int target_of(const struct groups *groups, uint32_t member)
{
    int size = groups->job->size;
    return groups->variant->scattered ? (int)member % size : (int)member / MEMBERS_PER_PE;
}

static int number_of(const struct groups *groups, uint32_t member)
{
    int size = groups->job->size;
    return groups->variant->scattered ? (int)member / size : (int)member % MEMBERS_PER_PE;
}

static size_t signal_of(const struct groups *groups, int sender, int number)
{
    size_t stride = groups->variant->scattered ? 2 : 1;
    return ((size_t)sender * MEMBERS_PER_PE + (size_t)number) * stride;
}

static size_t payload_of(int peer, int number, uint64_t round)
{
    return (((size_t)peer * MEMBERS_PER_PE + (size_t)number) * 2 + round % 2) * 2 * WORDS;
}

static uint64_t word_of(int sender, int target, int number, uint64_t round, int i)
{
    return (((round * 16 + (uint64_t)sender) * 16 + (uint64_t)target) * 16 + (uint64_t)number) *
               1000 +
           (uint64_t)i;
}

static void groups_create(struct groups *groups)
{
    struct perseus_signal_group_member members[MEMBERS_MAX];
    size_t size = (size_t)groups->job->size;
    struct perseus_pe *pe = groups->pe;
    int me = perseus_my_pe(pe);
    groups->n_members = (uint32_t)size * MEMBERS_PER_PE;
    groups->signals = allocate(pe, groups->n_members * 2 * sizeof(uint64_t));
    groups->payloads = allocate(pe, groups->n_members * 4 * WORDS * sizeof(uint64_t));
    groups->sources = allocate(pe, groups->n_members * 4 * WORDS * sizeof(uint64_t));
    groups->consumed = allocate(pe, size * sizeof(uint64_t));
    for (uint32_t member = 0; member < groups->n_members; member++) {
        members[member] = (struct perseus_signal_group_member){
            .target = target_of(groups, member),
            .signal = groups->signals + signal_of(groups, me, number_of(groups, member))};
    }
    const struct perseus_signal_group_attr attr = {.members = members,
                                                   .n_members = groups->n_members,
                                                   .op = groups->variant->op,
                                                   .vector = groups->variant->vector};
    CHECK_OK(perseus_signal_group_create(pe, &attr, &groups->group));
    memset(members, 0xff, sizeof members); /* they were copied */
}

/* One member's round: two puts, then the arrival. */
static void put_member(const struct groups *groups, uint32_t member, uint64_t round)
{
    int me = perseus_my_pe(groups->pe), target = target_of(groups, member);
    int number = number_of(groups, member);
    uint64_t *source = groups->sources + payload_of(target, number, round);
    uint64_t *landing = groups->payloads + payload_of(me, number, round);
    for (int i = 0; i < 2 * WORDS; i++) {
        source[i] = word_of(me, target, number, round, i);
    }
    enum perseus_status status = PERSEUS_AGAIN;
    while ((status = perseus_signal_group_put_more(groups->group, member, landing, source,
                                                   WORDS * sizeof *source)) == PERSEUS_AGAIN) {
        sched_yield();
    }
    CHECK_OK(status);
    uint64_t value = groups->variant->op == PERSEUS_SIGNAL_SET ? round : 1;
    CHECK_OK(perseus_signal_group_put(groups->group, member, landing + WORDS, source + WORDS,
                                      WORDS * sizeof *source, value));
}

struct sender {
    const struct groups *groups;
    uint32_t first; /* of its members: first, first + THREADS, ... */
    pthread_t thread;
};

/* Payload halves are used again every second round: before that, the target must be done with
 * the last but one and the sources free. */
static void *send_rounds(void *context)
{
    const struct sender *sender = context;
    const struct groups *groups = sender->groups;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        if (round > 2) {
            for (int target = 0; target < groups->job->size; target++) {
                CHECK_OK(perseus_signal_wait_until(groups->pe, groups->consumed + target,
                                                   PERSEUS_CMP_GE, round - 2, WAIT_MS, NULL));
            }
            CHECK_OK(perseus_quiet(groups->pe));
        }
        for (uint32_t m = sender->first; m < groups->n_members; m += THREADS) {
            put_member(groups, m, round);
        }
    }
    return NULL;
}

static void receive_rounds(const struct groups *groups)
{
    int me = perseus_my_pe(groups->pe);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        for (int sender = 0; sender < groups->job->size; sender++) {
            for (int number = 0; number < MEMBERS_PER_PE; number++) {
                CHECK_OK(perseus_signal_wait_until(
                    groups->pe, groups->signals + signal_of(groups, sender, number), PERSEUS_CMP_GE,
                    round, WAIT_MS, NULL));
                const uint64_t *payload = groups->payloads + payload_of(sender, number, round);
                for (int i = 0; i < 2 * WORDS; i++) {
                    CHECK(payload[i] == word_of(sender, me, number, round, i));
                }
            }
            CHECK_OK(perseus_signal_op(groups->pe, groups->consumed + me, 1, PERSEUS_SIGNAL_ADD,
                                       sender));
        }
    }
}

static void exchange(struct pes *job, struct perseus_pe *pe, void *context)
{
    struct groups groups = {.variant = context, .job = job, .pe = pe};
    struct sender senders[THREADS];
    groups_create(&groups);
    CHECK_OK(perseus_barrier_all(pe));
    for (uint32_t i = 0; i < THREADS; i++) {
        senders[i] = (struct sender){.groups = &groups, .first = i};
        CHECK(pthread_create(&senders[i].thread, NULL, send_rounds, &senders[i]) == 0);
    }
    receive_rounds(&groups);
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(senders[i].thread, NULL);
    }
    CHECK_OK(perseus_barrier_all(pe));
    perseus_signal_group_destroy(groups.group);
}

static const struct variant variants[] = {
    {PERSEUS_SIGNAL_SET, false, false},
    {PERSEUS_SIGNAL_SET, true, false},
    {PERSEUS_SIGNAL_SET, true, true},
    {PERSEUS_SIGNAL_ADD, false, true},
};

static void test_exchange(void **state)
{
    (void)state;
    struct perseus_attr attr = pes_attr(2); /* mixed: 0 and 1 together, 2 far */
    attr.ring_slots = 16;                   /* members and leaders meet back-pressure */
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        struct variant variant = variants[i];
        pes_with_every_mode(3, &attr, 0, exchange, &variant);
        pes_with_every_mode(3, &attr, 6, exchange, &variant);
    }
}

static void test_exchange_local(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        struct variant variant = variants[i];
        struct perseus_attr attr = pes_attr(0);
        pes_with(3, &attr, exchange, &variant);
    }
}

/* What a round costs: one fence, and one message for a vector of signals. */
static void count_messages(struct pes *job, struct perseus_pe *pe, void *context)
{
    bool vector = *(bool *)context;
    struct perseus_signal_group_member members[8];
    uint64_t *signals = allocate(pe, sizeof members / sizeof members[0] * sizeof *signals);
    uint64_t *payload = allocate(pe, 8 * sizeof *payload), *source = allocate(pe, sizeof *source);
    int other = 1 - perseus_my_pe(pe);
    (void)job;
    for (int i = 0; i < 8; i++) {
        members[i] = (struct perseus_signal_group_member){other, signals + i};
    }
    const struct perseus_signal_group_attr attr = {members, 8, PERSEUS_SIGNAL_SET, vector};
    struct perseus_signal_group *group = NULL;
    struct perseus_stats before, after;
    CHECK_OK(perseus_signal_group_create(pe, &attr, &group));
    CHECK_OK(perseus_barrier_all(pe));
    CHECK_OK(perseus_quiet(pe)); /* the barrier's own signals are counted */
    CHECK_OK(perseus_stats(pe, other, &before));
    for (uint32_t i = 0; i < 8; i++) {
        CHECK_OK(perseus_signal_group_put(group, i, payload + i, source, 8, 1));
    }
    CHECK_OK(perseus_quiet(pe));
    CHECK_OK(perseus_stats(pe, other, &after));
    CHECK(after.puts - before.puts == 8);
    CHECK(after.fences - before.fences <= 1); /* none, if all puts were complete by then */
    CHECK(after.signals - before.signals == 8);
    CHECK(after.signal_messages - before.signal_messages == (vector ? 1 : 8));
    perseus_signal_group_destroy(group);
    CHECK_OK(perseus_barrier_all(pe));
}

static void test_cost(void **state)
{
    (void)state;
    for (int vector = 0; vector <= 1; vector++) {
        bool context = vector != 0;
        struct perseus_attr attr = pes_attr(1);
        pes_with(2, &attr, count_messages, &context);
    }
}

static void run_ahead(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)job;
    (void)context;
    uint64_t *signals = allocate(pe, 2 * sizeof *signals);
    const struct perseus_signal_group_member members[] = {{0, signals}, {0, signals + 1}};
    const struct perseus_signal_group_attr attr = {members, 2, PERSEUS_SIGNAL_SET, false};
    struct perseus_signal_group *group = NULL;
    CHECK_OK(perseus_signal_group_create(pe, &attr, &group));
    CHECK_OK(perseus_signal_group_put(group, 0, NULL, NULL, 0, 1));
    CHECK_OK(perseus_signal_group_put(group, 0, NULL, NULL, 0, 2)); /* one round ahead: allowed */
    CHECK_STATUS(perseus_signal_group_put(group, 0, NULL, NULL, 0, 3), PERSEUS_AGAIN);
    CHECK_STATUS(perseus_signal_group_put_more(group, 0, signals, signals, 8), PERSEUS_AGAIN);
    CHECK(perseus_signal_fetch(&signals[0]) == 0);
    CHECK_OK(perseus_signal_group_put(group, 1, NULL, NULL, 0, 10));
    CHECK(perseus_signal_fetch(&signals[0]) == 1 && perseus_signal_fetch(&signals[1]) == 10);
    CHECK_OK(perseus_signal_group_put(group, 0, NULL, NULL, 0, 3));
    CHECK_STATUS(perseus_signal_group_put(group, 0, NULL, NULL, 0, 4), PERSEUS_AGAIN);
    CHECK_OK(perseus_signal_group_put(group, 1, NULL, NULL, 0, 20));
    CHECK_OK(perseus_signal_group_put(group, 1, NULL, NULL, 0, 30));
    CHECK(perseus_signal_fetch(&signals[0]) == 3 && perseus_signal_fetch(&signals[1]) == 30);
    perseus_signal_group_destroy(group);
}

static void test_run_ahead(void **state)
{
    (void)state;
    struct perseus_attr attr = pes_attr(0);
    pes_with(1, &attr, run_ahead, NULL);
}

static void wrong_use(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)context;
    struct messages *messages = &job->messages[perseus_my_pe(pe)];
    uint64_t *signals = allocate(pe, 2 * sizeof *signals), stack = 0;
    struct perseus_signal_group_member members[] = {{1, signals}, {1, signals + 1}};
    struct perseus_signal_group_attr attr = {members, 0, PERSEUS_SIGNAL_SET, false};
    struct perseus_signal_group *group = NULL;
    CHECK_STATUS(perseus_signal_group_create(pe, &attr, &group), PERSEUS_INVALID_ARGUMENT);
    attr.n_members = 2;
    attr.op = (enum perseus_signal_op)0;
    CHECK_STATUS(perseus_signal_group_create(pe, &attr, &group), PERSEUS_INVALID_ARGUMENT);
    attr.op = PERSEUS_SIGNAL_ADD;
    attr.vector = true;
    CHECK_STATUS(perseus_signal_group_create(pe, &attr, &group), PERSEUS_INVALID_ARGUMENT);
    CHECK(messages_have(messages, "only SET signals can go as a vector"));
    attr.vector = false;
    members[1].target = 2;
    CHECK_STATUS(perseus_signal_group_create(pe, &attr, &group), PERSEUS_INVALID_ARGUMENT);
    members[1] = (struct perseus_signal_group_member){1, &stack};
    CHECK_STATUS(perseus_signal_group_create(pe, &attr, &group), PERSEUS_OUT_OF_RANGE);
    CHECK(group == NULL && messages_errors(messages) == 5);
    members[1].signal = signals + 1;
    CHECK_OK(perseus_signal_group_create(pe, &attr, &group));
    CHECK_STATUS(perseus_signal_group_put(group, 2, NULL, NULL, 0, 1), PERSEUS_INVALID_ARGUMENT);
    /* a put that is refused has not arrived */
    CHECK_STATUS(perseus_signal_group_put(group, 0, &stack, signals, 8, 1), PERSEUS_OUT_OF_RANGE);
    CHECK_STATUS(perseus_signal_group_put(group, 1, signals, &stack, 8, 1), PERSEUS_OUT_OF_RANGE);
    CHECK_OK(perseus_barrier_all(pe));
    CHECK(signals[0] == 0 && signals[1] == 0);
    CHECK_OK(perseus_barrier_all(pe));
    CHECK_OK(perseus_signal_group_put(group, 1, NULL, NULL, 0, 1));
    CHECK_OK(perseus_signal_group_put(group, 0, NULL, NULL, 0, 1));
    CHECK_OK(perseus_barrier_all(pe));
    uint64_t expected = perseus_my_pe(pe) == 1 ? 2 : 0; /* both PEs add to PE 1 */
    CHECK(signals[0] == expected && signals[1] == expected);
    perseus_signal_group_destroy(group);
    perseus_signal_group_destroy(NULL);
}

static void test_wrong_use(void **state)
{
    (void)state;
    for (int pes_per_node = 0; pes_per_node <= 1; pes_per_node++) {
        struct perseus_attr attr = pes_attr(pes_per_node);
        pes_with(2, &attr, wrong_use, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exchange),  cmocka_unit_test(test_exchange_local),
        cmocka_unit_test(test_cost),      cmocka_unit_test(test_run_ahead),
        cmocka_unit_test(test_wrong_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
