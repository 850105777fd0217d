/* SPDX-License-Identifier: Apache-2.0 */
/* What only the loopback promises: addresses and regions that outlive their owner, the inbox, and
 * the lesser fabrics it plays. */
#include "memory.h"
#include "world.h"

#include "fabric/loopback/loopback.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const struct row loopback_row = {.name = "loopback", .open = open_loopback};

static size_t address_of(struct world *world, uint32_t pe, unsigned char *address)
{
    size_t bytes = PRS_ADDRESS_MAX;
    assert_int_equal(prs_loopback_ops.endpoint_address(world->pe[pe].endpoint, address, &bytes),
                     PERSEUS_OK);
    return bytes;
}

static enum perseus_status connect_to(struct world *world, const unsigned char *address,
                                      size_t bytes)
{
    uint32_t peer = 77;
    enum perseus_status status =
        prs_loopback_ops.connect(world->pe[0].endpoint, address, bytes, &peer);
    assert_true(status == PERSEUS_OK || (peer == 77 && world->message[0] != '\0'));
    return status;
}

static uint32_t count_files(void)
{
    uint32_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder) != NULL) {
        count++;
    }
    closedir(folder);
    return count;
}

/* ---- addresses ---- */

static void test_address_of_the_dead(void **state)
{
    (void)state;
    unsigned char address[PRS_ADDRESS_MAX];
    struct world *world = world_open(&loopback_row, 1);
    size_t bytes = address_of(world, 1, address);
    assert_int_equal(connect_to(world, address, bytes), PERSEUS_OK);
    world_close_pe(world, 1);
    assert_int_equal(connect_to(world, address, bytes), PERSEUS_PEER_LOST);
    /* Another door now has the descriptor: it must not be taken for the old one. */
    struct world *newer = world_open(&loopback_row, 2);
    assert_int_equal(connect_to(world, address, bytes), PERSEUS_PEER_LOST);
    world_close(newer);
    world_close(world);
}

static void test_address_of_another_process(void **state)
{
    (void)state;
    unsigned char address[PRS_ADDRESS_MAX];
    struct world *world = world_open(&loopback_row, 1);
    size_t bytes = address_of(world, 1, address);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        uint32_t peer;
        _exit(prs_loopback_ops.connect(world->pe[0].endpoint, address, bytes, &peer));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), PERSEUS_NOT_SUPPORTED);
    world_close(world);
}

static void test_address_garbage(void **state)
{
    (void)state;
    struct world *world = world_open(&loopback_row, 1);
    unsigned char good[PRS_ADDRESS_MAX], bad[PRS_ADDRESS_MAX] = {0};
    size_t bytes = address_of(world, 1, good);
    assert_int_equal(connect_to(world, good, 0), PERSEUS_INVALID_ARGUMENT);
    assert_int_equal(connect_to(world, good, bytes - 1), PERSEUS_INVALID_ARGUMENT);
    assert_int_equal(connect_to(world, bad, bytes), PERSEUS_NOT_SUPPORTED);
    for (size_t bit = 0; bit < 8 * (bytes - sizeof(uint32_t)); bit++) { /* the last word is zero */
        memcpy(bad, good, bytes);
        bad[bit / 8] ^= (unsigned char)(1u << bit % 8);
        enum perseus_status status = connect_to(world, bad, bytes);
        world_check(world, status == PERSEUS_PEER_LOST || status == PERSEUS_NOT_SUPPORTED,
                    "bit %zu: %s", bit, perseus_status_name(status));
    }
    size_t room = bytes - 1;
    assert_int_equal(prs_loopback_ops.endpoint_address(world->pe[0].endpoint, bad, &room),
                     PERSEUS_INVALID_ARGUMENT);
    world_close(world);
}

static void test_files_are_closed(void **state)
{
    (void)state;
    uint32_t before = count_files();
    for (uint32_t i = 0; i < 20; i++) {
        struct world *world = world_open(&loopback_row, i);
        unsigned char address[PRS_ADDRESS_MAX];
        size_t bytes = address_of(world, 1, address);
        world_close_pe(world, 1);
        assert_int_equal(connect_to(world, address, bytes), PERSEUS_PEER_LOST);
        world_close(world);
    }
    assert_int_equal(count_files(), before);
}

/* ---- regions ---- */

static enum perseus_status import_blob(struct world *world, const void *blob, size_t bytes)
{
    struct prs_remote *remote = NULL;
    enum perseus_status status =
        prs_loopback_ops.remote_import(world->pe[0].endpoint, 1, blob, bytes, &remote);
    assert_true((status == PERSEUS_OK) == (remote != NULL));
    prs_loopback_ops.remote_close(remote);
    return status;
}

static void test_region_is_closed(void **state)
{
    (void)state;
    struct world *world = world_open(&loopback_row, 1);
    unsigned char blob[PRS_BLOB_MAX];
    size_t bytes = sizeof blob;
    struct prs_region **region = &world->pe[1].region;
    assert_int_equal(prs_loopback_ops.region_export(*region, blob, &bytes), PERSEUS_OK);
    assert_int_equal(import_blob(world, blob, bytes), PERSEUS_OK);
    assert_int_equal(import_blob(world, blob, bytes - 1), PERSEUS_INVALID_ARGUMENT);

    struct prs_op op = world_put(world, 0, 1, 0, WORLD_HALF, 64, 0);
    world_post(world, 0, &op); /* still queued when the region goes */
    prs_loopback_ops.region_close(*region);
    /* A new region in the same place is not the old one. */
    assert_int_equal(prs_loopback_ops.region_register(world->pe[1].fabric, world->pe[1].memory, 64,
                                                      PRS_MEMORY_HOST, region),
                     PERSEUS_OK);
    assert_int_equal(import_blob(world, blob, bytes), PERSEUS_IO);
    world_drain(world);
    assert_int_equal(world->pe[0].status[0], PERSEUS_IO);
    assert_int_equal(world_try(world, 0, &op), PERSEUS_PEER_LOST);
    world_close(world);
}

static void test_region_garbage(void **state)
{
    (void)state;
    struct world *world = world_open(&loopback_row, 1);
    unsigned char good[PRS_BLOB_MAX], bad[PRS_BLOB_MAX];
    size_t bytes = sizeof good, room = 4;
    struct prs_region *region = world->pe[2].region, *none = NULL;
    assert_int_equal(prs_loopback_ops.region_export(region, good, &room), PERSEUS_INVALID_ARGUMENT);
    assert_int_equal(prs_loopback_ops.region_export(region, good, &bytes), PERSEUS_OK);
    assert_int_equal(import_blob(world, good, bytes), PERSEUS_INVALID_ARGUMENT); /* not PE 1's */
    bytes = sizeof good;
    assert_int_equal(prs_loopback_ops.region_export(world->pe[1].region, good, &bytes), PERSEUS_OK);
    for (size_t at = 0; at < bytes; at++) {
        memcpy(bad, good, bytes);
        bad[at] ^= 0x41;
        bool is_padding = at >= 4 && at < 8;
        assert_true((import_blob(world, bad, bytes) == PERSEUS_OK) == is_padding);
    }
    struct prs_fabric *fabric = world->pe[0].fabric;
    assert_int_equal(prs_loopback_ops.region_register(fabric, good, 8, PRS_MEMORY_CUDA, &none),
                     PERSEUS_NOT_SUPPORTED);
    assert_int_equal(prs_loopback_ops.region_register(fabric, good, 0, PRS_MEMORY_HOST, &none),
                     PERSEUS_INVALID_ARGUMENT);
    assert_null(none);
    world_close(world);
}

/* A region may begin anywhere, but then it has no words. */
static void test_region_unaligned(void **state)
{
    (void)state;
    struct world *world = world_open(&loopback_row, 1);
    struct prs_region *region = NULL;
    struct prs_remote *remote = NULL;
    unsigned char blob[PRS_BLOB_MAX];
    size_t bytes = sizeof blob;
    assert_int_equal(prs_loopback_ops.region_register(world->pe[1].fabric, world->pe[1].memory + 3,
                                                      100, PRS_MEMORY_HOST, &region),
                     PERSEUS_OK);
    assert_int_equal(prs_loopback_ops.region_export(region, blob, &bytes), PERSEUS_OK);
    assert_int_equal(prs_loopback_ops.remote_import(world->pe[0].endpoint, 1, blob, bytes, &remote),
                     PERSEUS_OK);
    struct prs_op op = world_set(world, 0, 1, 8, 1, 0);
    op.remote = remote;
    assert_int_equal(world_try(world, 0, &op), PERSEUS_INVALID_ARGUMENT);
    op = world_put(world, 0, 1, 0, 8, 16, 0);
    op.remote = remote;
    memset(world->pe[0].memory, 5, 16);
    world_post(world, 0, &op);
    world_drain(world);
    assert_true(world_is_filled(world, 1, 11, 16, 5));
    prs_loopback_ops.remote_close(remote);
    prs_loopback_ops.region_close(region);
    world_close(world);
}

/* ---- endpoints and the inbox ---- */

/* MORE is taken at its word here, so that a caller who forgets to flush is found out. */
static void test_doorbell(void **state)
{
    (void)state;
    struct world *world = world_open(&loopback_row, 1);
    struct prs_op op = world_put(world, 0, 1, 0, WORLD_HALF, 64, 0);
    op.flags = PRS_OP_MORE;
    world_post(world, 0, &op);
    world_steps(world, 20);
    assert_int_equal(world->pe[0].completed, 0);
    assert_int_equal(prs_loopback_ops.flush(world->pe[0].endpoint), PERSEUS_OK);
    world_steps(world, 20);
    assert_int_equal(world->pe[0].completed, 1);
    op.cookie = 1;
    world_post(world, 0, &op);
    op.cookie = 2;
    op.peer = 2;
    op.remote = world->pe[0].remote[2];
    op.flags = 0; /* rings for both */
    world_post(world, 0, &op);
    world_drain(world);
    world_close(world);
}

static bool count_immediate(struct world_pe *pe, uint32_t peer, uint64_t immediate)
{
    uint64_t *next = pe->context;
    return peer == 0 && immediate == (*next)++; /* one lane: in order */
}

/* The first endpoint takes the events; a second one sends as well. */
static void test_second_endpoint(void **state)
{
    (void)state;
    struct world *world = world_open(&loopback_row, 1);
    struct prs_endpoint *second = NULL;
    struct prs_event event;
    uint32_t n = 0;
    uint64_t next = 0;
    world->pe[1].context = &next;
    world->pe[1].on_immediate = count_immediate;
    assert_int_equal(prs_loopback_ops.endpoint_open(world->pe[1].fabric, &second), PERSEUS_OK);
    struct prs_op op = world_put(world, 0, 1, 0, WORLD_HALF, 8, 0);
    op.flags = PRS_OP_IMMEDIATE;
    world_post(world, 0, &op);
    while (world->pe[0].completed == 0) {
        assert_int_equal(prs_loopback_ops.poll(world->pe[0].endpoint, &event, 1, &n), PERSEUS_OK);
        world->pe[0].completed += n;
        assert_int_equal(prs_loopback_ops.poll(second, &event, 1, &n), PERSEUS_OK);
        assert_int_equal(n, 0);
    }
    world_steps(world, 4);
    assert_int_equal(next, 1);

    unsigned char address[PRS_ADDRESS_MAX];
    size_t bytes = address_of(world, 2, address);
    uint32_t peer = 9;
    assert_int_equal(prs_loopback_ops.connect(second, address, bytes, &peer), PERSEUS_OK);
    assert_int_equal(peer, 0);
    prs_loopback_ops.endpoint_close(second);
    world_close(world);
}

/* A target that does not poll holds its senders back; no event is lost. */
static void test_inbox_is_bounded(void **state)
{
    (void)state;
    struct world *world = world_open(&loopback_row, 1);
    struct world_pe *sender = &world->pe[0];
    struct prs_event events[WORLD_EVENTS];
    uint64_t sent = 0, received = 0;
    uint32_t refused_in_a_row = 0, n = 0;
    while (refused_in_a_row < 1000) {
        struct prs_op op = world_put(world, 0, 1, 0, WORLD_HALF, 0, 0);
        op.flags = PRS_OP_IMMEDIATE | PRS_OP_UNTRACKED;
        op.immediate = sent;
        enum perseus_status status = prs_loopback_ops.post(sender->endpoint, &op);
        sent += status == PERSEUS_OK;
        refused_in_a_row = status == PERSEUS_AGAIN ? refused_in_a_row + 1 : 0;
        assert_int_equal(prs_loopback_ops.poll(sender->endpoint, events, WORLD_EVENTS, &n),
                         PERSEUS_OK);
        assert_true(sent < 1000000);
    }
    world->pe[1].context = &received;
    world->pe[1].on_immediate = count_immediate;
    world->events_per_poll = WORLD_EVENTS;
    while (received < sent) {
        world_step(world);
    }
    world_steps(world, 10);
    assert_int_equal(received, sent);
    world_close(world);
}

/* ---- what a configuration takes away ---- */

static struct prs_caps caps_with(uint64_t unordered, uint64_t ungranted)
{
    struct row row = {.name = "caps",
                      .open = open_loopback,
                      .unordered_mask = unordered,
                      .ungranted_mask = ungranted};
    return world_caps(&row);
}

static void test_caps(void **state)
{
    (void)state;
    struct prs_caps all = caps_with(0, 0);
    assert_int_equal(all.order, PRS_ORDER_EVERY_PAIR);
    assert_int_equal(all.fence_scope, PRS_FENCE_LANE);
    assert_int_equal(all.completion, PRS_COMPLETION_DELIVERED);
    assert_int_equal(all.immediate_bits, 64);
    assert_int_equal(all.atomics, 0x3f);
    assert_true(all.atomics_cpu_coherent);
    assert_string_equal(all.provider, "loopback");
    assert_int_equal(caps_with(PRS_ORDER_PUT_SET, 0).order,
                     PRS_ORDER_EVERY_PAIR & ~PRS_ORDER_PUT_SET);
    assert_non_null(strstr(caps_with(PRS_ORDER_EVERY_PAIR, 0).order_word, "none"));
    assert_int_equal(caps_with(0, PRS_UNGRANT_FENCE).fence_scope, PRS_FENCE_NONE);
    assert_int_equal(caps_with(0, PRS_UNGRANT_IMMEDIATE).immediate_bits, 0);
    assert_int_equal(caps_with(0, PRS_UNGRANT_WIDE_IMMEDIATE).immediate_bits, 32);
    assert_int_equal(caps_with(0, PRS_UNGRANT_DELIVERED).completion, PRS_COMPLETION_TRANSMITTED);
    struct prs_caps bare = caps_with(0, PRS_UNGRANT_ATOMICS);
    assert_true(bare.atomics == 0 && bare.atomics_fetch == 0 && !bare.atomics_cpu_coherent);
    struct prs_caps incoherent = caps_with(0, PRS_UNGRANT_COHERENT);
    assert_true(incoherent.atomics == 0x3f && !incoherent.atomics_cpu_coherent);
}

static void test_unknown_provider(void **state)
{
    (void)state;
    struct prs_fabric_config config = {.provider = "tcp"};
    struct prs_fabric *fabric = NULL;
    assert_int_equal(prs_loopback_ops.open(&config, &fabric), PERSEUS_NOT_FOUND);
    assert_null(fabric);
    config.provider = "loopback";
    assert_int_equal(prs_loopback_ops.open(&config, &fabric), PERSEUS_OK);
    prs_loopback_ops.close(fabric);
    prs_loopback_ops.close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_address_of_the_dead),
        cmocka_unit_test(test_address_of_another_process),
        cmocka_unit_test(test_address_garbage),
        cmocka_unit_test(test_files_are_closed),
        cmocka_unit_test(test_region_is_closed),
        cmocka_unit_test(test_region_garbage),
        cmocka_unit_test(test_region_unaligned),
        cmocka_unit_test(test_doorbell),
        cmocka_unit_test(test_second_endpoint),
        cmocka_unit_test(test_inbox_is_bounded),
        cmocka_unit_test(test_caps),
        cmocka_unit_test(test_unknown_provider),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
