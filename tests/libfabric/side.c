/* SPDX-License-Identifier: Apache-2.0 */
#include "libfabric/side.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "fabric/libfabric/libfabric.h"

#define WAIT_MS 10000

static bool side_in_child;

void side_become_child(void)
{
    side_in_child = true;
}

void side_fail(const char *format, ...)
{
    char text[1400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (side_in_child) {
        fprintf(stderr, "child: %s\n", text);
        _exit(1);
    }
    fail_msg("%s", text);
    abort(); /* fail_msg does not return, but does not say so */
}

static void side_check(enum perseus_status status, const struct side *side, const char *call)
{
    if (status != PERSEUS_OK) {
        side_fail("%s: %s: %s", call, perseus_status_string(status), side->log_text.last);
    }
}

static void side_keep_log(void *user, enum perseus_log_level level, const char *text)
{
    struct side_log *log = user;
    log->errors += level == PERSEUS_LOG_ERROR;
    snprintf(log->last, sizeof log->last, "%s", text);
}

uint64_t side_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void *side_shared_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        side_fail("no shared memory");
    }
    return memory;
}

void side_shared_free(void *memory, size_t bytes)
{
    munmap(memory, bytes);
}

static void side_open_endpoint(struct side *side, void *memory, size_t bytes)
{
    const struct prs_fabric_ops *ops = side->fabric->ops;
    side->memory = memory;
    side->bytes = bytes;
    side_check(ops->endpoint_open(side->fabric, &side->endpoint), side, "endpoint_open");
    side_check(ops->region_register(side->fabric, memory, bytes, PRS_MEMORY_HOST, &side->region),
               side, "region_register");
}

void side_open(struct side *side, const char *provider, bool want_atomics, void *memory,
               size_t bytes)
{
    *side = (struct side){0};
    side->log = (struct prs_log){
        .fn = side_keep_log, .user = &side->log_text, .level = PERSEUS_LOG_WARN, .pe = -1};
    const struct prs_fabric_config config = {
        .provider = provider,
        .want_atomics = want_atomics,
        .memory_kinds = PRS_MEMORY_HOST,
        .log = &side->log,
        .clock = prs_clock_monotonic(),
    };
    side_check(prs_libfabric_ops.open(&config, &side->fabric), side, "open");
    side_open_endpoint(side, memory, bytes);
}

void side_open_beside(struct side *side, const struct side *of, void *memory, size_t bytes)
{
    *side = (struct side){.fabric = of->fabric};
    side_open_endpoint(side, memory, bytes);
}

void side_card(struct side *side, struct side_card *out)
{
    const struct prs_fabric_ops *ops = side->fabric->ops;
    *out = (struct side_card){.address_bytes = sizeof out->address, .blob_bytes = sizeof out->blob};
    side_check(ops->endpoint_address(side->endpoint, out->address, &out->address_bytes), side,
               "endpoint_address");
    side_check(ops->region_export(side->region, out->blob, &out->blob_bytes), side,
               "region_export");
}

void side_meet(struct side *side, const struct side_card *card)
{
    const struct prs_fabric_ops *ops = side->fabric->ops;
    side_check(ops->connect(side->endpoint, card->address, card->address_bytes, &side->peer), side,
               "connect");
    side_check(
        ops->remote_import(side->endpoint, side->peer, card->blob, card->blob_bytes, &side->remote),
        side, "remote_import");
}

void side_close(struct side *side)
{
    const struct prs_fabric_ops *ops = side->fabric->ops;
    ops->remote_close(side->remote);
    ops->endpoint_close(side->endpoint);
    ops->region_close(side->region);
    if (side->log.fn != NULL) {
        ops->close(side->fabric);
    }
}

uint32_t side_poll(struct side *side, struct prs_event *events, uint32_t n)
{
    uint32_t count = 0;
    side_check(side->fabric->ops->poll(side->endpoint, events, n, &count), side, "poll");
    return count;
}

void side_turn(struct side *side, struct side *other, uint32_t *completions)
{
    struct prs_event events[16];
    if (other != NULL && side_poll(other, events, 16) != 0) {
        side_fail("an event at the target that nobody expects");
    }
    uint32_t n = side_poll(side, events, 16);
    for (uint32_t i = 0; i < n; i++) {
        if (events[i].kind != PRS_EVENT_COMPLETION || events[i].status != PERSEUS_OK) {
            side_fail("event %d, operation %llu: %s: %s", events[i].kind,
                      (unsigned long long)events[i].cookie, perseus_status_string(events[i].status),
                      side->log_text.last);
        }
        (*completions)++;
    }
}

enum perseus_status side_post(struct side *side, struct side *other, const struct prs_op *op,
                              uint32_t *completions)
{
    uint64_t deadline = side_now_ms() + WAIT_MS;
    enum perseus_status status;
    while ((status = side->fabric->ops->post(side->endpoint, op)) == PERSEUS_AGAIN) {
        side_turn(side, other, completions);
        if (side_now_ms() > deadline) {
            side_fail("nothing but AGAIN for %d ms", WAIT_MS);
        }
    }
    return status;
}

void side_wait(struct side *side, struct side *other, uint32_t *completions, uint32_t wanted)
{
    uint64_t deadline = side_now_ms() + WAIT_MS;
    while (*completions < wanted) {
        side_turn(side, other, completions);
        if (side_now_ms() > deadline) {
            side_fail("%u of %u completions after %d ms", *completions, wanted, WAIT_MS);
        }
    }
    if (*completions != wanted) {
        side_fail("%u completions for %u operations", *completions, wanted);
    }
}

struct prs_op side_put(const struct side *side, uint64_t local, uint64_t remote, uint64_t bytes)
{
    return (struct prs_op){
        .kind = PRS_OP_PUT,
        .peer = side->peer,
        .local = side->region,
        .local_offset = local,
        .remote = side->remote,
        .remote_offset = remote,
        .bytes = bytes,
    };
}

struct prs_op side_set(const struct side *side, uint64_t remote, uint64_t value)
{
    return (struct prs_op){
        .kind = PRS_OP_SIGNAL_SET,
        .peer = side->peer,
        .remote = side->remote,
        .remote_offset = remote,
        .value = value,
    };
}
