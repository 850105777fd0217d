/* SPDX-License-Identifier: Apache-2.0 */
/* Signals: alone, with a payload, as vectors; SET and ADD; to the own PE, a neighbour and across
 * nodes; in every ordering mode, with an adversary that reorders, delays and refuses. The payload
 * is checked the moment its signal is seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/check.h"
#include "core/pes.h"

#define WAIT_MS 60000
#define ROUNDS  60
#define WORDS   64 /* of a payload */

/* Every PE sends to every PE, itself too; slots by sender. */
struct exchange {
    uint64_t *signals;  /* by sender */
    uint64_t *payloads; /* by sender, WORDS each */
    uint64_t *sources;  /* by target, WORDS each */
};

static void *allocate(struct perseus_pe *pe, size_t bytes)
{
    void *memory = NULL;
    CHECK_OK(perseus_malloc(pe, bytes, &memory));
    return memory;
}

static struct exchange exchange_new(struct perseus_pe *pe, int size)
{
    size_t payload = (size_t)size * WORDS * sizeof(uint64_t);
    return (struct exchange){allocate(pe, (size_t)size * sizeof(uint64_t)), allocate(pe, payload),
                             allocate(pe, payload)};
}

static uint64_t word_of(int sender, int target, uint64_t round, int i)
{
    return round * 1000000 + (uint64_t)sender * 10000 + (uint64_t)target * 100 + (uint64_t)i;
}

static void send_round(struct perseus_pe *pe, const struct exchange *exchange, int target,
                       uint64_t round, enum perseus_signal_op op)
{
    int me = perseus_my_pe(pe);
    uint64_t *source = exchange->sources + target * WORDS;
    for (int i = 0; i < WORDS; i++) {
        source[i] = word_of(me, target, round, i);
    }
    uint64_t value = op == PERSEUS_SIGNAL_SET ? round : 1;
    CHECK_OK(perseus_put_signal_nbi(pe, exchange->payloads + me * WORDS, source,
                                    WORDS * sizeof(uint64_t), exchange->signals + me, value, op,
                                    target));
}

static void receive_round(struct perseus_pe *pe, const struct exchange *exchange, int sender,
                          uint64_t round)
{
    uint64_t seen = 0;
    CHECK_OK(perseus_signal_wait_until(pe, exchange->signals + sender, PERSEUS_CMP_GE, round,
                                       WAIT_MS, &seen));
    CHECK(seen == round);
    for (int i = 0; i < WORDS; i++) {
        CHECK(exchange->payloads[sender * WORDS + i] ==
              word_of(sender, perseus_my_pe(pe), round, i));
    }
}

static void all_to_all(struct pes *job, struct perseus_pe *pe, void *context)
{
    enum perseus_signal_op op = *(enum perseus_signal_op *)context;
    struct exchange exchange = exchange_new(pe, job->size);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        for (int target = 0; target < job->size; target++) {
            send_round(pe, &exchange, target, round, op);
        }
        for (int sender = 0; sender < job->size; sender++) {
            receive_round(pe, &exchange, sender, round);
        }
        /* The quiet lets the sources be written again, the barrier the payloads. */
        CHECK_OK(perseus_barrier_all(pe));
    }
}

static void test_put_signal(void **state)
{
    (void)state;
    struct perseus_attr attr = pes_attr(2); /* PEs 0 and 1 share memory, 2 is far */
    for (unsigned seed = 0; seed <= 2; seed++) {
        enum perseus_signal_op op = PERSEUS_SIGNAL_SET;
        pes_with_every_mode(3, &attr, seed, all_to_all, &op);
        op = PERSEUS_SIGNAL_ADD;
        pes_with_every_mode(3, &attr, seed, all_to_all, &op);
    }
}

static void blocking_and_empty(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)context;
    int me = perseus_my_pe(pe), next = (me + 1) % job->size;
    int before = (me + job->size - 1) % job->size;
    uint64_t *words = allocate(pe, 4 * sizeof(uint64_t));
    uint64_t seen = 0;
    words[2] = (uint64_t)me + 50;
    CHECK_OK(
        perseus_put_signal(pe, &words[0], &words[2], 8, &words[1], 7, PERSEUS_SIGNAL_SET, next));
    CHECK_OK(perseus_signal_wait_until(pe, &words[1], PERSEUS_CMP_EQ, 7, WAIT_MS, NULL));
    CHECK(words[0] == (uint64_t)before + 50);
    CHECK_OK(perseus_barrier_all(pe)); /* everybody has seen the 7 */
    CHECK_OK(perseus_put_signal(pe, NULL, NULL, 0, &words[1], 5, PERSEUS_SIGNAL_ADD, next));
    CHECK_OK(perseus_signal_wait_until(pe, &words[1], PERSEUS_CMP_NE, 7, WAIT_MS, &seen));
    CHECK(seen == 12);
    CHECK_OK(perseus_put_signal_nbi(pe, NULL, NULL, 0, &words[3], 1, PERSEUS_SIGNAL_SET, next));
    CHECK_OK(perseus_signal_wait_until(pe, &words[3], PERSEUS_CMP_GT, 0, WAIT_MS, NULL));
}

/* Vectors of every length around what fits into one descriptor, one message, one ring. */
static void vectors(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)context;
    enum { LENGTH_MAX = 700 };
    static const size_t lengths[] = {1, 6, 7, 8, 32, 33, 128, 129, 224, 225, LENGTH_MAX};
    static uint64_t values[PES_MAX][LENGTH_MAX]; /* the library copies: no registration needed */
    int me = perseus_my_pe(pe), next = (me + 1) % job->size;
    int before = (me + job->size - 1) % job->size;
    uint64_t *signals = allocate(pe, (LENGTH_MAX + 2) * sizeof(uint64_t));
    uint64_t round = 1;
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++, round++) {
        for (size_t i = 0; i < lengths[l]; i++) {
            values[me][i] = round * 1000000 + (uint64_t)me * 1000 + i;
        }
        CHECK_OK(perseus_signal_set_vector(pe, signals + 1, values[me], lengths[l], next));
        memset(values[me], 0xff, sizeof values[me]);
        for (size_t i = 0; i < lengths[l]; i++) {
            uint64_t expected = round * 1000000 + (uint64_t)before * 1000 + i;
            CHECK_OK(perseus_signal_wait_until(pe, signals + 1 + i, PERSEUS_CMP_EQ, expected,
                                               WAIT_MS, NULL));
        }
        CHECK(signals[0] == 0 && perseus_signal_fetch(&signals[1 + LENGTH_MAX]) == 0);
        CHECK_OK(perseus_barrier_all(pe));
    }
    CHECK_OK(perseus_signal_set_vector(pe, signals, NULL, 0, next));
}

static void test_alone_and_vectors(void **state)
{
    (void)state;
    for (int pes_per_node = 0; pes_per_node <= 2; pes_per_node++) {
        struct perseus_attr attr = pes_attr(pes_per_node);
        pes_with(3, &attr, blocking_and_empty, NULL);
        pes_with(3, &attr, vectors, NULL);
    }
    struct perseus_attr attr = pes_attr(1);
    attr.ring_slots = 2; /* a vector of 7 at a time, at most */
    pes_with_every_mode(2, &attr, 0, vectors, NULL);
    pes_with_every_mode(2, &attr, 7, vectors, NULL);
}

static void compare(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)job;
    (void)context;
    uint64_t *word = allocate(pe, sizeof *word);
    static const struct {
        enum perseus_cmp cmp;
        bool below, same, above; /* does a word of 9, 10, 11 satisfy (cmp 10)? */
    } rows[] = {
        {PERSEUS_CMP_EQ, false, true, false}, {PERSEUS_CMP_NE, true, false, true},
        {PERSEUS_CMP_GT, false, false, true}, {PERSEUS_CMP_GE, false, true, true},
        {PERSEUS_CMP_LT, true, false, false}, {PERSEUS_CMP_LE, true, true, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool expected[] = {rows[i].below, rows[i].same, rows[i].above};
        for (uint64_t value = 9; value <= 11; value++) {
            uint64_t seen = 77;
            *word = value;
            CHECK_STATUS(perseus_signal_wait_until(pe, word, rows[i].cmp, 10, 0, &seen),
                         expected[value - 9] ? PERSEUS_OK : PERSEUS_TIMEOUT);
            CHECK(seen == (expected[value - 9] ? value : 77));
        }
    }
}

static void wrong_arguments(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)context;
    struct messages *messages = &job->messages[perseus_my_pe(pe)];
    int other = 1 - perseus_my_pe(pe);
    uint64_t stack[2] = {0};
    uint64_t *word = allocate(pe, 64);
    uint64_t *crooked = (uint64_t *)(void *)((unsigned char *)word + 4);
    enum perseus_signal_op no_op = (enum perseus_signal_op)3;
    CHECK_STATUS(perseus_signal_op(pe, stack, 1, PERSEUS_SIGNAL_SET, other), PERSEUS_OUT_OF_RANGE);
    CHECK_STATUS(perseus_signal_op(pe, crooked, 1, PERSEUS_SIGNAL_SET, other),
                 PERSEUS_INVALID_ARGUMENT);
    CHECK(messages_have(messages, "not aligned to 8 bytes"));
    CHECK_STATUS(perseus_signal_op(pe, word, 1, no_op, other), PERSEUS_INVALID_ARGUMENT);
    CHECK(messages_have(messages, "3 is no signal operation"));
    CHECK_STATUS(perseus_signal_op(pe, word, 1, PERSEUS_SIGNAL_SET, 2), PERSEUS_INVALID_ARGUMENT);
    CHECK_STATUS(perseus_put_signal_nbi(pe, word, stack, 8, word, 1, PERSEUS_SIGNAL_SET, other),
                 PERSEUS_OUT_OF_RANGE);
    CHECK_STATUS(perseus_put_signal_nbi(pe, stack, word, 8, word, 1, PERSEUS_SIGNAL_SET, other),
                 PERSEUS_OUT_OF_RANGE);
    CHECK_STATUS(perseus_put_signal(pe, word, word, 8, crooked, 1, PERSEUS_SIGNAL_SET, other),
                 PERSEUS_INVALID_ARGUMENT);
    CHECK_STATUS(perseus_put_signal(pe, word, word, 8, word, 1, no_op, other),
                 PERSEUS_INVALID_ARGUMENT);
    CHECK_STATUS(perseus_signal_set_vector(pe, word, stack, SIZE_MAX / 4, other),
                 PERSEUS_OUT_OF_RANGE);
    CHECK_STATUS(perseus_signal_set_vector(pe, word, stack, pe->heap->bytes / 8, other),
                 PERSEUS_OUT_OF_RANGE);
    CHECK_STATUS(perseus_signal_wait_until(pe, stack, PERSEUS_CMP_EQ, 1, 0, NULL),
                 PERSEUS_OUT_OF_RANGE);
    CHECK_STATUS(perseus_signal_wait_until(pe, word, (enum perseus_cmp)6, 1, 0, NULL),
                 PERSEUS_INVALID_ARGUMENT);
    CHECK(messages_errors(messages) == 12);
    messages_clear(messages);
    CHECK_STATUS(perseus_signal_wait_until(pe, word, PERSEUS_CMP_EQ, 1, 20, NULL), PERSEUS_TIMEOUT);
    CHECK(messages_errors(messages) == 1 && messages_have(messages, "nothing after 20 ms"));
    CHECK(strstr(perseus_last_error(pe), "it is 0, awaited 1") != NULL);
    CHECK(*word == 0);
}

static void test_arguments(void **state)
{
    (void)state;
    struct perseus_attr attr = pes_attr(0);
    pes_with(1, &attr, compare, NULL);
    pes_with(2, &attr, wrong_arguments, NULL);
    attr = pes_attr(1);
    pes_with(2, &attr, wrong_arguments, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_signal),
        cmocka_unit_test(test_alone_and_vectors),
        cmocka_unit_test(test_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
