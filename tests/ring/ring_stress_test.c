/* SPDX-License-Identifier: Apache-2.0 */
/* Producers and a consumer at once: nothing lost, doubled, torn or out of its producer's order, and
 * what is pushed together lies together. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "ring/ring.h"

#define PRODUCERS_MAX 4
#define TOGETHER_MAX  6
#define RELEASE_MAX   16

struct producer {
    struct prs_ring *ring;
    uint32_t id;
    uint64_t count;
    uint64_t seed;
    pthread_t thread;
};

/* Every field follows from (producer, number), so that a torn descriptor shows. */
static struct prs_desc expected_desc(uint32_t id, uint64_t number, uint32_t index, uint32_t n)
{
    uint64_t mixed = (number * PRODUCERS_MAX + id) * UINT64_C(0x9e3779b97f4a7c15);
    return (struct prs_desc){.kind = (uint8_t)index,
                             .sub = (uint8_t)n,
                             .local_window = (uint16_t)mixed,
                             .peer = id,
                             .ticket = (uint32_t)(mixed >> 32),
                             .local = mixed,
                             .remote = mixed ^ 1,
                             .bytes = (mixed ^ 2) & UINT64_C(0xffffffffffff),
                             .signal = mixed ^ 3,
                             .value = number};
}

static void *produce(void *context)
{
    struct producer *producer = context;
    struct prs_rng rng = prs_rng_seeded(producer->seed);
    uint32_t together_max = prs_ring_slots(producer->ring);
    together_max = together_max < TOGETHER_MAX ? together_max : TOGETHER_MAX;
    for (uint64_t number = 0; number < producer->count;) {
        struct prs_desc descs[TOGETHER_MAX];
        uint32_t n = 1 + (prs_rng_below(&rng, 4) == 0 ? prs_rng_below(&rng, together_max) : 0);
        n = producer->count - number < n ? (uint32_t)(producer->count - number) : n;
        for (uint32_t i = 0; i < n; i++) {
            descs[i] = expected_desc(producer->id, number + i, i, n);
        }
        while ((n == 1 ? prs_ring_push(producer->ring, descs, NULL)
                       : prs_ring_push_many(producer->ring, descs, n)) != PERSEUS_OK) {
            sched_yield();
        }
        number += n;
    }
    return NULL;
}

struct consumer {
    struct prs_ring *ring;
    uint64_t next[PRODUCERS_MAX]; /* number expected of each producer */
    uint32_t together_id, together_left;
};

/* NULL, or what is wrong with the next descriptor. */
static const char *consume_one(struct consumer *consumer, const struct prs_desc *desc)
{
    if (desc->peer >= PRODUCERS_MAX || desc->sub == 0 || desc->kind >= desc->sub) {
        return "torn";
    }
    uint64_t *next = &consumer->next[desc->peer];
    if (desc->value != *next) {
        return desc->value < *next ? "doubled or out of order" : "lost or out of order";
    }
    struct prs_desc expected = expected_desc(desc->peer, *next, desc->kind, desc->sub);
    expected.turn = expected.turn_1 = expected.turn_2 = expected.turn_3 = desc->turn;
    if (memcmp(desc, &expected, sizeof expected) != 0) {
        return "torn";
    }
    if (consumer->together_left > 0 && consumer->together_id != desc->peer) {
        return "another producer's between those pushed together";
    }
    if ((desc->kind == 0) != (consumer->together_left == 0)) {
        return "some of those pushed together are missing";
    }
    consumer->together_id = desc->peer;
    consumer->together_left = (uint32_t)desc->sub - desc->kind - 1;
    ++*next;
    return NULL;
}

static const char *consume(struct consumer *consumer, uint64_t total, struct prs_rng *rng)
{
    for (uint64_t done = 0; done < total;) {
        uint32_t batch = 1 + prs_rng_below(rng, RELEASE_MAX);
        uint32_t n = 0;
        const struct prs_desc *desc;
        while (n < batch && (desc = prs_ring_peek(consumer->ring, n)) != NULL) {
            const char *wrong = consume_one(consumer, desc);
            if (wrong != NULL) {
                return wrong;
            }
            n++;
        }
        prs_ring_release(consumer->ring, n);
        done += n;
        if (n == 0) {
            sched_yield();
        }
    }
    return prs_ring_is_empty(consumer->ring) ? NULL : "more than was pushed";
}

/* The producers cannot be ended once the order is lost: a failure ends the program. */
static void stress(uint32_t slots, uint32_t producers, uint64_t count, uint64_t seed)
{
    struct consumer consumer = {.ring = NULL};
    assert_int_equal(prs_ring_create(slots, &consumer.ring), PERSEUS_OK);
    struct producer all[PRODUCERS_MAX];
    for (uint32_t i = 0; i < producers; i++) {
        all[i] = (struct producer){
            .ring = consumer.ring, .id = i, .count = count, .seed = seed * PRODUCERS_MAX + i};
        assert_int_equal(pthread_create(&all[i].thread, NULL, produce, &all[i]), 0);
    }
    struct prs_rng rng = prs_rng_seeded(~seed);
    const char *wrong = consume(&consumer, count * producers, &rng);
    if (wrong != NULL) {
        fprintf(stderr, "%s (%u slots, %u producers, seed %llu)\n", wrong, slots, producers,
                (unsigned long long)seed);
        _exit(1);
    }
    for (uint32_t i = 0; i < producers; i++) {
        pthread_join(all[i].thread, NULL);
    }
    prs_ring_destroy(consumer.ring);
}

static void one_producer(void **state)
{
    (void)state;
    stress(2, 1, 50000, 1);
    stress(64, 1, 500000, 2);
    stress(4096, 1, 1000000, 3);
}

static void four_producers(void **state)
{
    (void)state;
    stress(2, 4, 20000, 4);
    stress(8, 4, 50000, 5);
    stress(64, 4, 100000, 6);
    stress(4096, 4, 200000, 7);
}

static void many_seeds(void **state)
{
    (void)state;
    for (uint64_t seed = 100; seed < 300; seed++) {
        stress(2u << seed % 6, 2 + (uint32_t)(seed % 3), 500, seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_producer),
        cmocka_unit_test(four_producers),
        cmocka_unit_test(many_seeds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
