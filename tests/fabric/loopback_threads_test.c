/* SPDX-License-Identifier: Apache-2.0 */
/* Two PEs of one process on two threads, as a process with several PEs runs them. ThreadSanitizer
 * is the judge of half of this. */
#include "memory.h"
#include "world.h"

#include "fabric/word.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct row loopback_row = {.name = "loopback", .open = open_loopback};

/* Posts and polls until it has completed. The world's own step would poll every PE, and each of
 * them belongs to its thread. Returns its status, also if the post itself was refused. */
static enum perseus_status complete(struct world_pe *pe, const struct prs_op *op)
{
    struct prs_event event;
    uint32_t n = 0;
    enum perseus_status status = pe->fabric->ops->post(pe->endpoint, op);
    while (status == PERSEUS_OK && n == 0) {
        if (pe->fabric->ops->poll(pe->endpoint, &event, 1, &n) != PERSEUS_OK) {
            return PERSEUS_INTERNAL;
        }
    }
    return status == PERSEUS_OK ? event.status : status;
}

static uint64_t *word_of(struct world *world, uint32_t pe, uint64_t offset)
{
    return (uint64_t *)(void *)(world->pe[pe].memory + offset);
}

static void wait_for(const uint64_t *word, uint64_t value)
{
    /* Acquire pairs with the release in which the fabric writes a signal. */
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < value) {
        sched_yield();
    }
}

/* ---- payload and signal, back and forth ---- */

#define PINGS       500
#define PING_BYTES  2048
#define PING_SIGNAL (WORLD_HALF - 64)

struct player {
    struct world *world;
    uint32_t self, other;
    uint32_t errors;
};

/* Waits for the other's signal; its payload must be there then. */
static void receive(struct player *player, uint64_t round)
{
    wait_for(word_of(player->world, player->self, PING_SIGNAL), round);
    player->errors += !world_is_drawn(player->world->pe[player->self].memory + WORLD_HALF,
                                      PING_BYTES, (unsigned char)round);
}

static void send_round(struct player *player, uint64_t round)
{
    struct world *world = player->world;
    struct world_pe *pe = &world->pe[player->self];
    struct prs_op put = world_put(world, player->self, player->other, 0, WORLD_HALF, PING_BYTES, 0);
    struct prs_op set = world_set(world, player->self, player->other, PING_SIGNAL, round, 1);
    put.flags = PRS_OP_UNTRACKED;
    world_draw(pe->memory, PING_BYTES, (unsigned char)round);
    player->errors += pe->fabric->ops->post(pe->endpoint, &put) != PERSEUS_OK;
    player->errors += complete(pe, &set) != PERSEUS_OK;
}

static void *play(void *argument)
{
    struct player *player = argument;
    for (uint64_t round = 1; round <= PINGS; round++) {
        if (player->self == 0) {
            send_round(player, round);
            receive(player, round);
        } else {
            receive(player, round);
            send_round(player, round);
        }
    }
    return NULL;
}

static void test_ping_pong(void **state)
{
    (void)state;
    struct world *world = world_open(&loopback_row, 1);
    struct player players[2] = {{.world = world, .self = 0, .other = 1},
                                {.world = world, .self = 1, .other = 0}};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, play, &players[1]), 0);
    play(&players[0]);
    pthread_join(thread, NULL);
    assert_int_equal(players[0].errors + players[1].errors, 0);
    world_close(world);
}

/* ---- a vector of signals, watched while it is written ---- */

#define VECTOR_WORDS  128 /* as many as are written word by word */
#define VECTOR_ROUNDS 5000

static void *watch_vector(void *argument)
{
    struct player *player = argument;
    const uint64_t *words = word_of(player->world, 1, WORLD_HALF);
    while (__atomic_load_n(&words[0], __ATOMIC_ACQUIRE) < VECTOR_ROUNDS) {
        /* Front to back: from the back, no word is newer than one read after it. */
        uint64_t last = __atomic_load_n(&words[VECTOR_WORDS - 1], __ATOMIC_ACQUIRE);
        for (uint32_t i = VECTOR_WORDS - 1; i-- > 0;) {
            uint64_t word = __atomic_load_n(&words[i], __ATOMIC_ACQUIRE);
            player->errors += word < last;
            last = word;
        }
    }
    return NULL;
}

static void test_vector(void **state)
{
    (void)state;
    struct world *world = world_open(&loopback_row, 1);
    struct player watcher = {.world = world};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, watch_vector, &watcher), 0);
    for (uint64_t round = 1; round <= VECTOR_ROUNDS; round++) {
        for (uint32_t i = 0; i < VECTOR_WORDS; i++) {
            *word_of(world, 0, 8ull * i) = round;
        }
        struct prs_op op = world_put(world, 0, 1, 0, WORLD_HALF, 8 * VECTOR_WORDS, 0);
        assert_int_equal(complete(&world->pe[0], &op), PERSEUS_OK);
    }
    pthread_join(thread, NULL);
    assert_int_equal(watcher.errors, 0);
    world_close(world);
}

/* ---- two initiators and the target's own CPU add to one word ---- */

#define ADDS 5000

struct adder {
    struct world *world;
    uint32_t self;
    uint32_t errors;
    atomic_bool is_done;
};

static void *add(void *argument)
{
    struct adder *adder = argument;
    for (uint32_t i = 0; i < ADDS; i++) {
        struct prs_op op =
            world_atomic(adder->world, adder->self, 2, WORLD_HALF, PERSEUS_ATOMIC_ADD, 1, 0);
        adder->errors += complete(&adder->world->pe[adder->self], &op) != PERSEUS_OK;
    }
    atomic_store(&adder->is_done, true);
    return NULL;
}

/* How many additions to the word were lost. */
static uint64_t lost_adds(uint64_t ungranted_mask, bool cpu_adds)
{
    struct row row = loopback_row;
    row.ungranted_mask = ungranted_mask;
    struct world *world = world_open(&row, 1);
    struct adder adders[2] = {{.world = world, .self = 0}, {.world = world, .self = 1}};
    pthread_t threads[2];
    uint64_t expected = 2ull * ADDS;
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, add, &adders[i]), 0);
    }
    while (cpu_adds && !(atomic_load(&adders[0].is_done) && atomic_load(&adders[1].is_done))) {
        prs_word_apply(word_of(world, 2, WORLD_HALF), PERSEUS_ATOMIC_ADD, 1, 0);
        expected++;
    }
    for (uint32_t i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(adders[i].errors, 0);
    }
    uint64_t sum = world_word(world, 2, WORLD_HALF);
    world_close(world);
    return expected - sum;
}

static void test_atomics(void **state)
{
    (void)state;
    assert_int_equal(lost_adds(0, true), 0);
    /* Without coherence, initiators are still atomic among themselves. */
    assert_int_equal(lost_adds(PRS_UNGRANT_COHERENT, false), 0);
}

/* ---- one goes away while the other sends ---- */

static void *send_until_lost(void *argument)
{
    struct player *player = argument;
    struct world_pe *pe = &player->world->pe[0];
    struct prs_op op = world_put(player->world, 0, 1, 0, WORLD_HALF, 4096, 0);
    op.flags = PRS_OP_IMMEDIATE;
    op.immediate = 5;
    enum perseus_status status = PERSEUS_OK;
    while (status == PERSEUS_OK) {
        status = complete(pe, &op);
    }
    player->errors += status != PERSEUS_PEER_LOST;
    player->errors += complete(pe, &op) != PERSEUS_PEER_LOST;
    return NULL;
}

static void test_close_while_sending(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 100; i++) {
        struct world *world = world_open(&loopback_row, i);
        struct player sender = {.world = world};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, send_until_lost, &sender), 0);
        for (uint32_t spin = 0; spin < i % 10; spin++) {
            sched_yield();
        }
        world_close_pe(world, 1); /* frees the memory that the other is writing to */
        pthread_join(thread, NULL);
        world_check(world, sender.errors == 0, "not PEER_LOST");
        world_close(world);
    }
}

/* ---- one goes away while the other looks for it ---- */

struct seeker {
    struct world *world;
    unsigned char address[PRS_ADDRESS_MAX];
    size_t bytes;
    uint32_t errors;
};

static void *connect_until_lost(void *argument)
{
    struct seeker *seeker = argument;
    struct world_pe *pe = &seeker->world->pe[0];
    enum perseus_status status = PERSEUS_OK;
    while (status == PERSEUS_OK) {
        uint32_t peer;
        status = pe->fabric->ops->connect(pe->endpoint, seeker->address, seeker->bytes, &peer);
    }
    seeker->errors += status != PERSEUS_PEER_LOST;
    return NULL;
}

static void test_close_while_connecting(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 100; i++) {
        struct world *world = world_open(&loopback_row, i);
        struct seeker seeker = {.world = world, .bytes = sizeof seeker.address};
        struct world_pe *target = &world->pe[1];
        assert_int_equal(
            target->fabric->ops->endpoint_address(target->endpoint, seeker.address, &seeker.bytes),
            PERSEUS_OK);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, connect_until_lost, &seeker), 0);
        for (uint32_t spin = 0; spin < i % 10; spin++) {
            sched_yield();
        }
        world_close_pe(world, 1);
        pthread_join(thread, NULL);
        world_check(world, seeker.errors == 0, "not PEER_LOST");
        world_close(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ping_pong),
        cmocka_unit_test(test_vector),
        cmocka_unit_test(test_atomics),
        cmocka_unit_test(test_close_while_sending),
        cmocka_unit_test(test_close_while_connecting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
