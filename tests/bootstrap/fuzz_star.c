/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: the hub's state machine under any order of connections, bytes, writes, closes, deaths
 * and time. The input is a script of two-byte steps, some with bytes after them:
 *
 *     operation (low 4 bits), argument; for FEED: length, bytes
 *
 * So that the fuzzer need not guess a secret, one step says a valid hello and proves it. Checked:
 * no access outside memory (the sanitizers), so also that strangers stay within their slots; no
 * deadline is left behind; and a job that ends, wherever it is, frees all (LeakSanitizer).
 */
#include <stdlib.h>
#include <string.h>

#include "bootstrap/star.h"
#include "bootstrap/wire.h"

enum { SIZE = 3, SLOTS_MAX = SIZE + PRS_STAR_STRANGERS + 1, BYTES_MAX = 300 };

enum operation {
    ADD_STRANGER,
    ADD_RANK,
    FEED,
    HELLO,
    GATHER,
    BYE,
    WRITE,
    CLOSE,
    DEATH,
    TIME,
    FINISH,
    OPERATIONS
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const unsigned char secret[PRS_PROOF_SECRET_BYTES] = {1, 2, 3};

struct world {
    struct prs_star *star;
    bool is_open[SLOTS_MAX];
    bool has_rank[SIZE]; /* a socket of its own was added */
    bool has_stranger;
    bool is_finished;
    uint64_t now_ns;
    const uint8_t *data;
    size_t size;
};

static void check(bool condition)
{
    if (!condition) {
        abort();
    }
}

static uint8_t take(struct world *world)
{
    if (world->size == 0) {
        return 0;
    }
    world->size--;
    return *world->data++;
}

/* What the hub does after every event, without writing. */
static void settle(struct world *world)
{
    int slot;
    while ((slot = prs_star_next_dirty(world->star)) >= 0) {
        check(slot < SLOTS_MAX);
        if (world->is_open[slot] && prs_star_closing(world->star, slot)) {
            world->is_open[slot] = false;
            prs_star_closed(world->star, slot);
        }
    }
}

static void feed(struct world *world, int slot, const unsigned char *from, size_t bytes)
{
    while (bytes > 0 && world->is_open[slot] && !prs_star_closing(world->star, slot)) {
        unsigned char *at;
        size_t n = prs_star_input(world->star, slot, &at);
        check(n > 0);
        n = n < bytes ? n : bytes;
        memcpy(at, from, n);
        prs_star_received(world->star, slot, n);
        from += n;
        bytes -= n;
    }
}

static void feed_frame(struct world *world, int slot, enum prs_wire_type type, uint32_t rank,
                       const unsigned char *body, size_t bytes)
{
    unsigned char head[PRS_WIRE_HEADER_BYTES];
    const struct prs_wire_header header = {PRS_WIRE_VERSION, (uint16_t)type, rank, bytes};
    prs_wire_put_header(&header, head);
    feed(world, slot, head, sizeof head);
    feed(world, slot, body, bytes);
}

static void add(struct world *world, int rank)
{
    if (rank >= 0) {
        if (world->has_rank[rank] || world->has_stranger) {
            return; /* once per rank, and first */
        }
        world->has_rank[rank] = true;
    } else {
        world->has_stranger = true;
    }
    int slot = prs_star_add(world->star, rank, "fuzz");
    check(slot >= 0 && slot < SLOTS_MAX && !world->is_open[slot]);
    world->is_open[slot] = true;
}

static void feed_hello(struct world *world, int slot, uint8_t argument)
{
    struct prs_proof_terms terms = {
        .rank = argument % (SIZE + 1), .size = SIZE, .timeout_ms = argument};
    unsigned char body[PRS_WIRE_HELLO_BYTES], proof[PRS_PROOF_BYTES];
    const unsigned char *at;
    prs_wire_put_hello(&terms, body);
    feed_frame(world, slot, PRS_WIRE_HELLO, terms.rank, body, sizeof body);
    if (!world->is_open[slot] || prs_star_output(world->star, slot, &at) !=
                                     PRS_WIRE_HEADER_BYTES + PRS_WIRE_CHALLENGE_BYTES) {
        return;
    }
    memcpy(terms.nonce_of_hub, at + PRS_WIRE_HEADER_BYTES, PRS_PROOF_NONCE_BYTES);
    if (argument != 31) { /* else the proof is left out */
        prs_proof_make(secret, PRS_PROOF_OF_PE, &terms, proof);
        feed_frame(world, slot, PRS_WIRE_PROOF, terms.rank, proof, sizeof proof);
    }
}

static void write_some(struct world *world, int slot, size_t most)
{
    const unsigned char *at;
    size_t n = prs_star_output(world->star, slot, &at);
    if (n == 0) {
        return;
    }
    n = n < most ? n : most;
    unsigned char sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum = (unsigned char)(sum + at[i]); /* all of it must be readable */
    }
    volatile unsigned char sink = sum;
    (void)sink;
    prs_star_sent(world->star, slot, n);
}

static void step(struct world *world)
{
    enum operation operation = (enum operation)(take(world) % OPERATIONS);
    uint8_t argument = take(world);
    int slot = argument % SLOTS_MAX;
    unsigned char body[BYTES_MAX] = {argument};
    size_t bytes;
    switch (operation) {
    case ADD_STRANGER:
        if (!world->is_finished) {
            add(world, PRS_STAR_STRANGER);
        }
        break;
    case ADD_RANK:
        if (!world->is_finished) {
            add(world, argument % SIZE);
        }
        break;
    case FEED:
        bytes = take(world);
        bytes = bytes < world->size ? bytes : world->size;
        feed(world, slot, world->data, bytes);
        world->data += bytes;
        world->size -= bytes;
        break;
    case HELLO:
        feed_hello(world, slot % 8, argument / 8);
        break;
    case GATHER:
        feed_frame(world, slot % 8, PRS_WIRE_GATHER, take(world) % SIZE, body,
                   (size_t)argument / 8 * 9);
        break;
    case BYE:
        feed_frame(world, slot % 8, PRS_WIRE_BYE, argument / 8 % SIZE, NULL, 0);
        break;
    case WRITE:
        if (world->is_open[slot]) {
            write_some(world, slot, 1 + take(world));
        }
        break;
    case CLOSE:
        if (world->is_open[slot]) {
            world->is_open[slot] = false;
            prs_star_closed(world->star, slot);
        }
        break;
    case DEATH:
        prs_star_report_death(world->star, argument % SIZE);
        break;
    case TIME:
        world->now_ns += (uint64_t)argument * argument * 1000000u;
        check(prs_star_tick(world->star, world->now_ns) > world->now_ns);
        break;
    case FINISH:
        if (argument > 200) {
            prs_star_finish(world->star);
            world->is_finished = true;
        }
        break;
    case OPERATIONS:
        break;
    }
    settle(world);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world world = {.data = data, .size = size};
    if (prs_star_create(SIZE, secret, NULL, &world.star) != PERSEUS_OK) {
        return 0;
    }
    check(prs_star_slots(world.star) == SLOTS_MAX);
    while (world.size > 0) {
        step(&world);
    }
    (void)prs_star_owes(world.star);
    prs_star_destroy(world.star);
    return 0;
}
