/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counting behind signal groups. First in one thread, in every order that a seed comes up with,
 * against a model: each round has one leader, who finds every member's value of that very round,
 * and AGAIN is said exactly when it must be. The same run must catch mutants, countings that are
 * wrong on purpose. Then with real threads, where TSan watches what members wrote before arriving.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "core/rounds.h"

#define MEMBERS_MAX 8
#define ROUNDS      40
#define SEEDS       2000
#define NOBODY      UINT32_MAX

static uint64_t value_of(uint32_t member, uint64_t round)
{
    return round * MEMBERS_MAX + member + 1;
}

/* ---- one thread, any order ---- */

struct explorer;

/* The counting under test; a mutant changes one answer. */
struct counting {
    const char *name;
    bool (*may_enter)(struct explorer *explorer, uint32_t member);
    bool (*arrive)(struct explorer *explorer, uint32_t member, uint64_t value);
};

struct explorer {
    const struct counting *counting;
    struct prs_rounds *rounds;
    struct prs_rng rng;
    uint32_t members;
    uint64_t round_of[MEMBERS_MAX]; /* each member's next */
    uint32_t arrived[ROUNDS];
    uint64_t signaled;
    uint32_t leader; /* busy leading, or NOBODY */
    uint32_t mistakes;
};

static void explore_arrival(struct explorer *explorer, uint32_t member)
{
    uint64_t round = explorer->round_of[member];
    bool may_enter = explorer->counting->may_enter(explorer, member);
    explorer->mistakes += may_enter != (round <= explorer->signaled + 1);
    if (!may_enter) {
        return;
    }
    explorer->round_of[member]++;
    explorer->arrived[round]++;
    bool leads = explorer->counting->arrive(explorer, member, value_of(member, round));
    explorer->mistakes += leads != (explorer->arrived[round] == explorer->members);
    if (!leads) {
        return;
    }
    explorer->mistakes += explorer->leader != NOBODY;
    explorer->leader = member;
    const uint64_t *values = prs_rounds_values(explorer->rounds);
    for (uint32_t other = 0; other < explorer->members; other++) {
        explorer->mistakes += values[other] != value_of(other, round);
    }
}

/* How many mistakes a random order of arrivals and finishes finds; it ends at the first. */
static uint32_t explore(const struct counting *counting, uint64_t seed)
{
    struct explorer explorer = {
        .counting = counting, .rng = prs_rng_seeded(seed), .leader = NOBODY};
    explorer.members = 1 + prs_rng_below(&explorer.rng, MEMBERS_MAX);
    assert_int_equal(prs_rounds_create(explorer.members, &explorer.rounds), PERSEUS_OK);
    while (explorer.signaled < ROUNDS && explorer.mistakes == 0) {
        uint32_t member = prs_rng_below(&explorer.rng, explorer.members);
        if (explorer.leader == member) {
            prs_rounds_finish(explorer.rounds);
            explorer.leader = NOBODY;
            explorer.signaled++;
        } else if (explorer.round_of[member] < ROUNDS) {
            explore_arrival(&explorer, member);
        }
    }
    prs_rounds_destroy(explorer.rounds);
    return explorer.mistakes;
}

static bool right_may_enter(struct explorer *explorer, uint32_t member)
{
    return prs_rounds_may_enter(explorer->rounds, member);
}

static bool right_arrive(struct explorer *explorer, uint32_t member, uint64_t value)
{
    return prs_rounds_arrive(explorer->rounds, member, value);
}

static bool never_again(struct explorer *explorer, uint32_t member)
{
    (void)explorer;
    (void)member;
    return true;
}

/* One round only at a time: right answers, but slower than promised. */
static bool again_too_often(struct explorer *explorer, uint32_t member)
{
    return explorer->round_of[member] <= explorer->signaled;
}

static bool leads_one_early(struct explorer *explorer, uint32_t member, uint64_t value)
{
    prs_rounds_arrive(explorer->rounds, member, value);
    return explorer->arrived[explorer->round_of[member] - 1] + 1 == explorer->members;
}

/* Counts arrivals, whatever round they are of: round 0 leads with an arrival of round 1 in it. */
static bool mixes_rounds(struct explorer *explorer, uint32_t member, uint64_t value)
{
    prs_rounds_arrive(explorer->rounds, member, value);
    uint64_t arrivals = 0;
    for (uint32_t other = 0; other < explorer->members; other++) {
        arrivals += explorer->round_of[other];
    }
    return explorer->members > 0 && arrivals % explorer->members == 0;
}

static const struct counting right = {"right", right_may_enter, right_arrive};
static const struct counting mutants[] = {
    {"never says AGAIN", never_again, right_arrive},
    {"says AGAIN one round early", again_too_often, right_arrive},
    {"leads one arrival early", right_may_enter, leads_one_early},
    {"counts arrivals of two rounds together", right_may_enter, mixes_rounds},
};

static void test_any_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        if (explore(&right, seed) != 0) {
            fail_msg("seed %llu", (unsigned long long)seed);
        }
    }
}

static void test_mutants_are_caught(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof mutants / sizeof mutants[0]; i++) {
        uint32_t caught = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            caught += explore(&mutants[i], seed) != 0;
        }
        print_message("%s: caught by %u of %d seeds\n", mutants[i].name, caught, SEEDS);
        assert_true(caught > SEEDS / 4);
    }
}

/* ---- threads ---- */

#define THREADS       4
#define THREAD_ROUNDS 3000

struct crowd {
    struct prs_rounds *rounds;
    _Atomic uint64_t led, mistakes;
    uint64_t written[2][MEMBERS_MAX]; /* by parity: plain memory, handed over by the arrival */
};

struct worker {
    struct crowd *crowd;
    uint32_t first; /* works for members first, first + THREADS, ... */
    pthread_t thread;
};

static void crowd_lead(struct crowd *crowd)
{
    uint64_t round = atomic_load_explicit(&crowd->led, memory_order_relaxed);
    const uint64_t *values = prs_rounds_values(crowd->rounds);
    for (uint32_t member = 0; member < MEMBERS_MAX; member++) {
        crowd->mistakes += values[member] != value_of(member, round) ||
                           crowd->written[round % 2][member] != value_of(member, round);
    }
    atomic_store_explicit(&crowd->led, round + 1, memory_order_relaxed);
    prs_rounds_finish(crowd->rounds);
}

static void *crowd_work(void *context)
{
    struct worker *worker = context;
    struct crowd *crowd = worker->crowd;
    for (uint64_t round = 0; round < THREAD_ROUNDS; round++) {
        for (uint32_t member = worker->first; member < MEMBERS_MAX; member += THREADS) {
            while (!prs_rounds_may_enter(crowd->rounds, member)) {
                sched_yield();
            }
            crowd->written[round % 2][member] = value_of(member, round);
            if (prs_rounds_arrive(crowd->rounds, member, value_of(member, round))) {
                crowd_lead(crowd);
            }
        }
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct crowd crowd = {0};
    struct worker workers[THREADS];
    assert_int_equal(prs_rounds_create(MEMBERS_MAX, &crowd.rounds), PERSEUS_OK);
    for (uint32_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.crowd = &crowd, .first = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, crowd_work, &workers[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    assert_int_equal(crowd.mistakes, 0);
    assert_int_equal(crowd.led, THREAD_ROUNDS);
    prs_rounds_destroy(crowd.rounds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_mutants_are_caught),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
