/* SPDX-License-Identifier: Apache-2.0 */
/* world.h: a few PEs in one process, each with its own fabric, endpoint and one region, connected
 * to each other; and what happened to every operation. */
#ifndef TEST_FABRIC_WORLD_H
#define TEST_FABRIC_WORLD_H

#include "base/rng.h"
#include "row.h"

#define WORLD_PES     3
#define WORLD_BYTES   (256 * 1024)
#define WORLD_HALF    (WORLD_BYTES / 2) /* tests put sources below, targets from here */
#define WORLD_COOKIES 8192
#define WORLD_EVENTS  64

struct world_pe {
    struct prs_fabric *fabric;
    struct prs_endpoint *endpoint;
    struct prs_region *region;
    unsigned char *memory;
    uint32_t peer[WORLD_PES]; /* number of PE i at this endpoint */
    struct prs_remote *remote[WORLD_PES];
    uint32_t posted; /* tracked, so far */
    uint32_t completed;
    uint8_t completions[WORLD_COOKIES]; /* per cookie */
    enum perseus_status status[WORLD_COOKIES];
    bool (*on_immediate)(struct world_pe *pe, uint32_t peer, uint64_t immediate);
    void (*on_completion)(struct world_pe *pe, uint64_t cookie);
    void *context; /* of both */
};

struct world {
    const struct row *row;
    uint64_t seed;
    uint64_t clock_ns, tick_ns; /* the fabrics' clock, and how far each reading moves it: delays
                                   pass quickly, and the same in every run */
    uint64_t deadline_ns;
    uint32_t events_per_poll;
    struct prs_rng rng;
    struct prs_log log;
    char message[1024]; /* the last error */
    struct world_pe pe[WORLD_PES];
};

/* The caps a row grants; skips the test if the row is not there. */
struct prs_caps world_caps(const struct row *row);

struct world *world_open(const struct row *row, uint64_t seed);
void world_close(struct world *world);
void world_close_pe(struct world *world, uint32_t pe);

/* Fails the test with row, seed and this text. */
void world_check(const struct world *world, bool holds, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Operations between two PEs; offsets into their memories. */
struct prs_op world_put(const struct world *world, uint32_t from, uint32_t to, uint64_t local,
                        uint64_t remote, uint64_t bytes, uint64_t cookie);
struct prs_op world_set(const struct world *world, uint32_t from, uint32_t to, uint64_t remote,
                        uint64_t value, uint64_t cookie);
struct prs_op world_atomic(const struct world *world, uint32_t from, uint32_t to, uint64_t remote,
                           enum perseus_atomic atomic, uint64_t value, uint64_t cookie);

/* Posts, polling as long as the answer is AGAIN; returns the first other one. */
enum perseus_status world_try(struct world *world, uint32_t from, const struct prs_op *op);
/* The same, and it must be OK. */
void world_post(struct world *world, uint32_t from, const struct prs_op *op);
/* Fails the test when it has taken too long; loops that do not call world_step call it. */
void world_check_time(const struct world *world);
/* Polls one PE once; returns how many events it took. */
uint32_t world_poll(struct world *world, uint32_t index);
/* Polls every PE once, each for at most events_per_poll events. */
void world_step(struct world *world);
/* Until every tracked operation of every PE has completed. */
void world_drain(struct world *world);
void world_steps(struct world *world, uint32_t n);

uint64_t world_word(const struct world *world, uint32_t pe, uint64_t offset);
/* A pattern that depends on `value` and on the position, so that bytes in wrong places show. */
void world_draw(unsigned char *at, uint64_t bytes, unsigned char value);
bool world_is_drawn(const unsigned char *at, uint64_t bytes, unsigned char value);
/* Every byte is `value`. */
bool world_is_filled(const struct world *world, uint32_t pe, uint64_t offset, uint64_t bytes,
                     unsigned char value);

#endif
