/* SPDX-License-Identifier: Apache-2.0 */
/* Bad input: each a clear error, nothing delivered, everything still usable afterwards; and no
 * endpoint ever listens outside the address it was told. */
#include <arpa/inet.h>
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fabric/libfabric/discover.h"
#include "fabric/libfabric/libfabric.h"
#include "libfabric/pair.h"
#include "libfabric/program.h"

#define BYTES 65536

static _Alignas(64) unsigned char memory_a[BYTES], memory_b[BYTES];

static void open_pair(struct pair *pair)
{
    memset(memory_b, 0, BYTES);
    pair_open(pair, false, memory_a, memory_b, BYTES);
}

static struct prs_op broken(const struct pair *pair, int which)
{
    const struct side *a = &pair->a;
    struct prs_op op = side_put(a, 0, 0, 64);
    switch (which) {
    case 0:
        op.remote_offset = BYTES - 63;
        break;
    case 1:
        op.remote_offset = UINT64_MAX - 8;
        break;
    case 2:
        op.bytes = UINT64_MAX;
        break;
    case 3:
        op.local_offset = BYTES - 10;
        break;
    case 4:
        op.bytes = 0;
        break;
    case 5:
        op = side_set(a, 4, 1);
        break;
    case 6:
        op = side_set(a, BYTES - 4, 1);
        break;
    case 7:
        op.lane = 1;
        break;
    case 8:
        op.kind = PRS_OP_KIND_COUNT;
        break;
    case 9:
        op.peer = 1;
        break;
    case 10:
        op.remote = pair->b.remote; /* of another endpoint */
        break;
    case 11:
        op.local = pair->b.region; /* of another fabric */
        break;
    case 12:
        op.flags = PRS_OP_INLINE;
        op.inline_source = memory_a;
        op.bytes = a->fabric->caps.inline_bytes + 1;
        break;
    case 13:
        op.remote = NULL;
        break;
    default:
        op.local = NULL;
        break;
    }
    return op;
}
#define BROKEN 15

static void bad_operations_are_refused_and_harm_nothing(void **state)
{
    (void)state;
    struct pair pair;
    uint32_t done = 0;
    open_pair(&pair);
    memset(memory_a, 0xaa, BYTES);
    for (int i = 0; i < BROKEN; i++) {
        struct prs_op op = broken(&pair, i);
        uint32_t errors = pair.a.log_text.errors;
        enum perseus_status status = pair.a.fabric->ops->post(pair.a.endpoint, &op);
        if (status != PERSEUS_INVALID_ARGUMENT) {
            side_fail("broken operation %d: %s", i, perseus_status_name(status));
        }
        assert_int_equal(pair.a.log_text.errors, errors + 1);
    }
    for (size_t i = 0; i < BYTES; i++) {
        assert_int_equal(memory_b[i], 0);
    }
    struct prs_op good = side_put(&pair.a, 0, 0, 64);
    assert_int_equal(side_post(&pair.a, &pair.b, &good, &done), PERSEUS_OK);
    side_wait(&pair.a, &pair.b, &done, 1);
    assert_memory_equal(memory_a, memory_b, 64);
    pair_close(&pair);
}

static void a_fence_that_was_not_granted_is_refused(void **state)
{
    (void)state;
    struct pair pair;
    uint32_t done = 0;
    open_pair(&pair);
    struct prs_op op = side_put(&pair.a, 0, 0, 64);
    op.flags = PRS_OP_FENCE;
    bool granted = pair.a.fabric->caps.fence_scope != PRS_FENCE_NONE;
    assert_int_equal(side_post(&pair.a, &pair.b, &op, &done),
                     granted ? PERSEUS_OK : PERSEUS_INVALID_ARGUMENT);
    side_wait(&pair.a, &pair.b, &done, granted ? 1 : 0);
    pair_close(&pair);
}

static void blobs_from_elsewhere_are_refused(void **state)
{
    (void)state;
    struct pair pair;
    struct side_card card;
    struct prs_remote *remote = NULL;
    uint32_t peer = 77;
    open_pair(&pair);
    const struct prs_fabric_ops *ops = pair.a.fabric->ops;
    side_card(&pair.b, &card);
    for (size_t bytes = 0; bytes < card.address_bytes; bytes++) {
        assert_int_equal(ops->connect(pair.a.endpoint, card.address, bytes, &peer),
                         PERSEUS_PROTOCOL);
    }
    for (size_t bytes = 0; bytes < card.blob_bytes; bytes++) {
        assert_int_equal(
            ops->remote_import(pair.a.endpoint, pair.a.peer, card.blob, bytes, &remote),
            PERSEUS_PROTOCOL);
    }
    assert_int_equal(ops->remote_import(pair.a.endpoint, 9, card.blob, card.blob_bytes, &remote),
                     PERSEUS_INVALID_ARGUMENT);
    card.address[0] ^= 1;
    card.blob[0] ^= 1;
    assert_int_equal(ops->connect(pair.a.endpoint, card.address, card.address_bytes, &peer),
                     PERSEUS_PROTOCOL);
    assert_int_equal(
        ops->remote_import(pair.a.endpoint, pair.a.peer, card.blob, card.blob_bytes, &remote),
        PERSEUS_PROTOCOL);
    assert_null(remote);
    assert_int_equal(peer, 77);
    size_t little = 8;
    assert_int_equal(ops->endpoint_address(pair.b.endpoint, card.address, &little),
                     PERSEUS_INVALID_ARGUMENT);
    assert_int_equal(ops->region_export(pair.b.region, card.blob, &little),
                     PERSEUS_INVALID_ARGUMENT);
    pair_close(&pair);
}

static void keep_text(void *user, enum perseus_log_level level, const char *text)
{
    (void)level;
    snprintf(user, 1024, "%s", text);
}

static enum perseus_status try_open(const char *provider, const char *bind, uint32_t kinds,
                                    char text[1024])
{
    const struct prs_log log = {
        .fn = keep_text, .user = text, .level = PERSEUS_LOG_ERROR, .pe = -1};
    const struct prs_fabric_config config = {.provider = provider,
                                             .bind = bind,
                                             .memory_kinds = kinds,
                                             .log = &log,
                                             .clock = prs_clock_monotonic()};
    struct prs_fabric *fabric = NULL;
    text[0] = '\0';
    enum perseus_status status = prs_libfabric_ops.open(&config, &fabric);
    prs_libfabric_ops.close(fabric);
    return status;
}

static void unknown_providers_are_named_with_those_there_are(void **state)
{
    (void)state;
    char text[1024];
    static const char *const names[] = {"nothere", "t", "tcp;", "verbs;ofi_rxm"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(try_open(names[i], NULL, 0, text), PERSEUS_NOT_FOUND);
        assert_non_null(strstr(text, names[i]));
        assert_non_null(strstr(text, program_provider()));
    }
    char endless[300];
    memset(endless, 'x', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    assert_int_equal(try_open(endless, NULL, 0, text), PERSEUS_NOT_FOUND);
}

static void the_default_is_a_provider_that_works(void **state)
{
    (void)state;
    char text[1024];
    assert_int_equal(try_open(NULL, NULL, 0, text), PERSEUS_OK);
    assert_int_equal(try_open("", NULL, 0, text), PERSEUS_OK);
}

static void memory_it_cannot_take_is_refused(void **state)
{
    (void)state;
    char text[1024];
    assert_int_equal(try_open(program_provider(), NULL, PRS_MEMORY_HOST | PRS_MEMORY_CUDA, text),
                     PERSEUS_NOT_SUPPORTED);
    assert_non_null(strstr(text, "CUDA"));
}

static bool is_ip(void)
{
    return strcmp(program_provider(), "shm") != 0;
}

static void addresses_that_are_not_here_are_refused(void **state)
{
    (void)state;
    char text[1024];
    if (!is_ip()) {
        return;
    }
    assert_int_equal(try_open(program_provider(), "203.0.113.77", 0, text), PERSEUS_NOT_FOUND);
    assert_non_null(strstr(text, "203.0.113.77"));
    assert_int_equal(try_open(program_provider(), "localhost", 0, text), PERSEUS_INVALID_ARGUMENT);
}

/* Whether this process holds the socket with that inode. */
static bool is_our_socket(unsigned long inode)
{
    char wanted[64];
    bool found = false;
    snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
    DIR *directory = opendir("/proc/self/fd");
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        char path[300], target[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        if (readlink(path, target, sizeof target - 1) > 0) {
            found = found || strcmp(target, wanted) == 0;
        }
    }
    closedir(directory);
    return found;
}

/* Sockets of this process in /proc/net/<table> whose own address is not 127.0.0.1. */
static int count_outside(const char *table, int *out_inside)
{
    char line[512];
    int outside = 0;
    snprintf(line, sizeof line, "/proc/net/%s", table);
    FILE *file = fopen(line, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned address, port, state;
        unsigned long inode;
        if (sscanf(line, " %*d: %x:%x %*x:%*x %x %*s %*s %*s %*s %*s %lu", &address, &port, &state,
                   &inode) == 4 &&
            is_our_socket(inode)) {
            bool inside = address == htonl(INADDR_LOOPBACK);
            outside += !inside;
            *out_inside += inside;
        }
    }
    fclose(file);
    return outside;
}

static void nothing_listens_outside_loopback(void **state)
{
    (void)state;
    struct pair pair;
    uint32_t done = 0;
    if (!is_ip()) {
        return;
    }
    open_pair(&pair);
    struct prs_op op = side_put(&pair.a, 0, 0, 64);
    assert_int_equal(side_post(&pair.a, &pair.b, &op, &done), PERSEUS_OK);
    side_wait(&pair.a, &pair.b, &done, 1);
    int inside = 0;
    assert_int_equal(count_outside("tcp", &inside) + count_outside("udp", &inside), 0);
    assert_true(inside >= 2);
    pair_close(&pair);
}

struct found {
    struct prs_fabric_config config;
    bool present;
    uint32_t count;
    char reason[512];
};

static void keep_reason(void *user, enum perseus_log_level level, const char *text)
{
    struct found *found = user;
    (void)level;
    snprintf(found->reason, sizeof found->reason, "%s", text);
}

static void open_found(void *user, const char *name)
{
    struct found *found = user;
    const struct prs_log log = {
        .fn = keep_reason, .user = found, .level = PERSEUS_LOG_ERROR, .pe = -1};
    struct prs_fabric *fabric = NULL;
    struct prs_endpoint *endpoint = NULL;
    found->count++;
    found->reason[0] = '\0';
    found->config.provider = name;
    found->config.log = &log;
    enum perseus_status status = prs_libfabric_ops.open(&found->config, &fabric);
    status = status == PERSEUS_OK ? prs_libfabric_ops.endpoint_open(fabric, &endpoint) : status;
    bool is_ours = strncmp(name, program_provider(), strlen(program_provider())) == 0;
    found->present |= is_ours;
    assert_true(!is_ours || found->config.bind != NULL || status == PERSEUS_OK);
    assert_int_equal(status == PERSEUS_OK, found->reason[0] == '\0');
    prs_libfabric_ops.endpoint_close(endpoint);
    prs_libfabric_ops.close(fabric);
}

static void discovery_finds_it_and_says_why_others_fail(void **state)
{
    (void)state;
    struct found found = {.config = {.want_atomics = true}};
    prs_libfabric_names(open_found, &found);
    assert_true(found.present);
    /* An address that is not here: every IP provider fails, with a reason. */
    struct found all = {.config = {.bind = "203.0.113.77"}};
    if (!is_ip()) {
        prs_libfabric_names(open_found, &all);
        assert_int_equal(all.count, found.count);
    }
}

int main(int argc, char **argv)
{
    int code = 0;
    if (!program_start(argc, argv, &code)) {
        return code;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_operations_are_refused_and_harm_nothing),
        cmocka_unit_test(a_fence_that_was_not_granted_is_refused),
        cmocka_unit_test(blobs_from_elsewhere_are_refused),
        cmocka_unit_test(unknown_providers_are_named_with_those_there_are),
        cmocka_unit_test(the_default_is_a_provider_that_works),
        cmocka_unit_test(memory_it_cannot_take_is_refused),
        cmocka_unit_test(addresses_that_are_not_here_are_refused),
        cmocka_unit_test(nothing_listens_outside_loopback),
        cmocka_unit_test(discovery_finds_it_and_says_why_others_fail),
    };
    return cmocka_run_group_tests(tests, NULL, program_check_leftovers);
}
