/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WORLD_TIMEOUT_NS 30000000000u
#define WORLD_PERIOD     251
#define WORLD_TICK_NS    1000

static uint64_t tick(void *context)
{
    struct world *world = context;
    return world->clock_ns += world->tick_ns;
}

static uint64_t real_ns(void)
{
    struct prs_clock clock = prs_clock_monotonic();
    return prs_clock_now_ns(&clock);
}

static void keep_message(void *user, enum perseus_log_level level, const char *text)
{
    struct world *world = user;
    if (level == PERSEUS_LOG_ERROR) {
        snprintf(world->message, sizeof world->message, "%s", text);
    }
}

void world_check(const struct world *world, bool holds, const char *format, ...)
{
    if (holds) {
        return;
    }
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fail_msg("%s, seed %llu: %s (last message: %s)", world->row->name,
             (unsigned long long)world->seed, text, world->message);
}

static enum perseus_status open_fabric(struct world *world, uint32_t pe)
{
    struct prs_clock clock = {.now_ns = tick, .context = world};
    return world->row->open(world->row, world->seed * WORLD_PES + pe, &world->log, clock,
                            &world->pe[pe].fabric);
}

struct prs_caps world_caps(const struct row *row)
{
    struct world world = {.row = row};
    world.log = (struct prs_log){.fn = keep_message, .user = &world, .pe = -1};
    enum perseus_status status = open_fabric(&world, 0);
    if (status == PERSEUS_NOT_FOUND) {
        skip();
    }
    world_check(&world, status == PERSEUS_OK, "open: %s", perseus_status_name(status));
    struct prs_caps caps = world.pe[0].fabric->caps;
    world.pe[0].fabric->ops->close(world.pe[0].fabric);
    return caps;
}

static void open_pe(struct world *world, uint32_t i)
{
    struct world_pe *pe = &world->pe[i];
    world_check(world, open_fabric(world, i) == PERSEUS_OK, "open");
    const struct prs_fabric_ops *ops = pe->fabric->ops;
    world_check(world, ops->endpoint_open(pe->fabric, &pe->endpoint) == PERSEUS_OK, "endpoint");
    pe->memory = calloc(1, WORLD_BYTES);
    world_check(world, pe->memory != NULL, "memory");
    enum prs_memory_kind kind = world->row->memory != 0 ? world->row->memory : PRS_MEMORY_HOST;
    world_check(world,
                ops->region_register(pe->fabric, pe->memory, WORLD_BYTES, kind, &pe->region) ==
                    PERSEUS_OK,
                "region");
}

static void connect_pe(struct world *world, uint32_t from, uint32_t to)
{
    struct world_pe *pe = &world->pe[from], *other = &world->pe[to];
    unsigned char address[PRS_ADDRESS_MAX], blob[PRS_BLOB_MAX];
    size_t address_bytes = sizeof address, blob_bytes = sizeof blob;
    const struct prs_fabric_ops *ops = pe->fabric->ops;
    enum perseus_status status = ops->endpoint_address(other->endpoint, address, &address_bytes);
    world_check(world, status == PERSEUS_OK, "address");
    status = ops->region_export(other->region, blob, &blob_bytes);
    world_check(world, status == PERSEUS_OK, "export");
    status = ops->connect(pe->endpoint, address, address_bytes, &pe->peer[to]);
    world_check(world, status == PERSEUS_OK, "connect");
    status = ops->remote_import(pe->endpoint, pe->peer[to], blob, blob_bytes, &pe->remote[to]);
    world_check(world, status == PERSEUS_OK, "import");
}

struct world *world_open(const struct row *row, uint64_t seed)
{
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    world->row = row;
    world->tick_ns = WORLD_TICK_NS;
    world->seed = seed;
    world->rng = prs_rng_seeded(seed);
    world->events_per_poll = 1; /* every step in between is seen */
    world->deadline_ns = real_ns() + WORLD_TIMEOUT_NS;
    world->log = (struct prs_log){.fn = keep_message, .user = world, .pe = -1};
    for (uint32_t i = 0; i < WORLD_PES; i++) {
        open_pe(world, i);
    }
    for (uint32_t i = 0; i < WORLD_PES * WORLD_PES; i++) {
        uint32_t from = i / WORLD_PES, to = i % WORLD_PES;
        connect_pe(world, from, to);
        world_check(world, world->pe[from].peer[to] == to, "peers are numbered in order");
    }
    return world;
}

void world_close_pe(struct world *world, uint32_t i)
{
    struct world_pe *pe = &world->pe[i];
    if (pe->fabric == NULL) {
        return;
    }
    const struct prs_fabric_ops *ops = pe->fabric->ops;
    for (uint32_t to = 0; to < WORLD_PES; to++) {
        ops->remote_close(pe->remote[to]);
    }
    ops->endpoint_close(pe->endpoint);
    ops->region_close(pe->region);
    ops->close(pe->fabric);
    free(pe->memory);
    pe->fabric = NULL;
    pe->posted = pe->completed; /* what was in flight is canceled */
}

void world_close(struct world *world)
{
    for (uint32_t i = 0; i < WORLD_PES; i++) {
        world_close_pe(world, i);
    }
    free(world);
}

struct prs_op world_put(const struct world *world, uint32_t from, uint32_t to, uint64_t local,
                        uint64_t remote, uint64_t bytes, uint64_t cookie)
{
    const struct world_pe *pe = &world->pe[from];
    return (struct prs_op){.kind = PRS_OP_PUT,
                           .peer = pe->peer[to],
                           .local = pe->region,
                           .local_offset = local,
                           .remote = pe->remote[to],
                           .remote_offset = remote,
                           .bytes = bytes,
                           .cookie = cookie};
}

struct prs_op world_set(const struct world *world, uint32_t from, uint32_t to, uint64_t remote,
                        uint64_t value, uint64_t cookie)
{
    const struct world_pe *pe = &world->pe[from];
    return (struct prs_op){.kind = PRS_OP_SIGNAL_SET,
                           .peer = pe->peer[to],
                           .remote = pe->remote[to],
                           .remote_offset = remote,
                           .value = value,
                           .cookie = cookie};
}

struct prs_op world_atomic(const struct world *world, uint32_t from, uint32_t to, uint64_t remote,
                           enum perseus_atomic atomic, uint64_t value, uint64_t cookie)
{
    struct prs_op op = world_set(world, from, to, remote, value, cookie);
    op.kind = PRS_OP_ATOMIC;
    op.atomic = (uint8_t)atomic;
    return op;
}

static void take_event(struct world *world, struct world_pe *pe, const struct prs_event *event)
{
    if (event->kind == PRS_EVENT_IMMEDIATE) {
        bool is_expected =
            pe->on_immediate != NULL && pe->on_immediate(pe, event->peer, event->immediate);
        world_check(world, is_expected, "immediate %llu from peer %u",
                    (unsigned long long)event->immediate, event->peer);
        return;
    }
    world_check(world, event->cookie < WORLD_COOKIES, "cookie %llu",
                (unsigned long long)event->cookie);
    pe->completions[event->cookie]++;
    world_check(world, pe->completions[event->cookie] == 1, "cookie %llu completed twice",
                (unsigned long long)event->cookie);
    pe->status[event->cookie] = event->status;
    pe->completed++;
    if (pe->on_completion != NULL) {
        pe->on_completion(pe, event->cookie);
    }
}

uint32_t world_poll(struct world *world, uint32_t index)
{
    struct world_pe *pe = &world->pe[index];
    struct prs_event events[WORLD_EVENTS];
    uint32_t n = 0;
    enum perseus_status status =
        pe->fabric->ops->poll(pe->endpoint, events, world->events_per_poll, &n);
    world_check(world, status == PERSEUS_OK && n <= world->events_per_poll, "poll: %s, %u",
                perseus_status_name(status), n);
    for (uint32_t e = 0; e < n; e++) {
        take_event(world, pe, &events[e]);
    }
    return n;
}

void world_step(struct world *world)
{
    for (uint32_t i = 0; i < WORLD_PES; i++) {
        if (world->pe[i].fabric != NULL) {
            world_poll(world, i);
        }
    }
    world_check_time(world);
}

void world_check_time(const struct world *world)
{
    world_check(world, real_ns() < world->deadline_ns, "it hangs");
}

void world_steps(struct world *world, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        world_step(world);
    }
}

enum perseus_status world_try(struct world *world, uint32_t from, const struct prs_op *op)
{
    struct world_pe *pe = &world->pe[from];
    enum perseus_status status = pe->fabric->ops->post(pe->endpoint, op);
    while (status == PERSEUS_AGAIN) {
        world_step(world);
        status = pe->fabric->ops->post(pe->endpoint, op);
    }
    if (status == PERSEUS_OK && (op->flags & PRS_OP_UNTRACKED) == 0) {
        pe->posted++;
    }
    return status;
}

void world_post(struct world *world, uint32_t from, const struct prs_op *op)
{
    enum perseus_status status = world_try(world, from, op);
    world_check(world, status == PERSEUS_OK, "post: %s", perseus_status_name(status));
}

void world_drain(struct world *world)
{
    for (uint32_t i = 0; i < WORLD_PES; i++) {
        while (world->pe[i].completed < world->pe[i].posted) {
            world_step(world);
        }
    }
}

uint64_t world_word(const struct world *world, uint32_t pe, uint64_t offset)
{
    /* Acquire pairs with the release of whoever writes the signal. */
    return __atomic_load_n((const uint64_t *)(const void *)(world->pe[pe].memory + offset),
                           __ATOMIC_ACQUIRE);
}

void world_draw(unsigned char *at, uint64_t bytes, unsigned char value)
{
    for (uint64_t i = 0; i < bytes; i++) {
        at[i] = (unsigned char)(value + i % WORLD_PERIOD);
    }
}

bool world_is_drawn(const unsigned char *at, uint64_t bytes, unsigned char value)
{
    uint64_t first = bytes < WORLD_PERIOD ? bytes : WORLD_PERIOD;
    for (uint64_t i = 0; i < first; i++) {
        if (at[i] != (unsigned char)(value + i)) {
            return false;
        }
    }
    return memcmp(at, at + first, bytes - first) == 0; /* and so on */
}

bool world_is_filled(const struct world *world, uint32_t pe, uint64_t offset, uint64_t bytes,
                     unsigned char value)
{
    const unsigned char *at = world->pe[pe].memory + offset;
    return bytes == 0 || (at[0] == value && memcmp(at, at + 1, bytes - 1) == 0);
}
