/* SPDX-License-Identifier: Apache-2.0 */
/* Which PEs share a node, and whose heap can be mapped: another process's through /proc, with proof
 * that it is the right object; whoever cannot be reached is simply not local. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/messages.h"
#include "core/job/peers.h"

#define BYTES 8192

static struct messages messages;
static const struct prs_log log_of_test = {
    .fn = messages_take, .user = &messages, .level = PERSEUS_LOG_INFO, .pe = 0};

/* `size` PEs of this process and host, all with the same heap. */
static struct prs_heap *make_identities(struct prs_identity *all, int size, uint32_t pes_per_node)
{
    struct prs_heap *heap = NULL;
    const struct prs_settings settings = {.heap_bytes = BYTES, .pes_per_node = pes_per_node};
    messages_init(&messages);
    assert_int_equal(prs_heap_create(BYTES, &log_of_test, &heap), PERSEUS_OK);
    for (int pe = 0; pe < size; pe++) {
        assert_int_equal(prs_identity_fill(&settings, heap, NULL, &all[pe]), PERSEUS_OK);
    }
    return heap;
}

static struct prs_peers *make_peers(const struct prs_identity *all, int self, int size,
                                    const struct prs_heap *heap)
{
    struct prs_peers *peers = NULL;
    assert_int_equal(prs_peers_create(all, self, size, heap->bytes, &log_of_test, &peers),
                     PERSEUS_OK);
    return peers;
}

static void test_nodes_by_host(void **state)
{
    (void)state;
    struct prs_identity all[5];
    static const int nodes[] = {0, 1, 0, 2, 1};
    struct prs_heap *heap = make_identities(all, 5, 0);
    memset(all[1].host, 'b', 8);
    memset(all[3].host, 'c', 8);
    memcpy(all[4].host, all[1].host, PRS_HOST_BYTES);
    struct prs_peers *peers = make_peers(all, 2, 5, heap);
    for (int pe = 0; pe < 5; pe++) {
        assert_int_equal(peers->peer[pe].node, nodes[pe]);
        assert_int_equal(peers->peer[pe].base != NULL, nodes[pe] == 0);
    }
    assert_false(peers->all_local);
    assert_int_equal(messages.used, 0); /* nobody expected them to be local */
    prs_peers_destroy(peers);
    prs_heap_destroy(heap);
}

/* A node of the attribute may span hosts: memory is shared within one host only. */
static void test_nodes_by_count(void **state)
{
    (void)state;
    struct prs_identity all[5];
    struct prs_heap *heap = make_identities(all, 5, 2);
    memset(all[1].host, 'b', 8);
    struct prs_peers *peers = make_peers(all, 0, 5, heap);
    for (int pe = 0; pe < 5; pe++) {
        assert_int_equal(peers->peer[pe].node, pe / 2);
        assert_int_equal(peers->peer[pe].base != NULL, pe == 0);
    }
    prs_peers_destroy(peers);
    prs_heap_destroy(heap);
}

static void test_wrong_objects(void **state)
{
    (void)state;
    struct prs_identity all[4];
    struct prs_heap *heap = make_identities(all, 4, 0);
    all[1].inode++;           /* another object */
    all[2].pid = 0x7fffffff;  /* no such process */
    all[3].fd = STDIN_FILENO; /* some file */
    all[3].pid = (int32_t)getppid();
    struct prs_peers *peers = make_peers(all, 0, 4, heap);
    assert_ptr_equal(peers->peer[0].base, heap->base);
    for (int pe = 1; pe < 4; pe++) {
        char expected[64];
        snprintf(expected, sizeof expected, "cannot map the heap of PE %d", pe);
        assert_null(peers->peer[pe].base);
        assert_true(messages_have(&messages, expected));
    }
    assert_int_equal(messages_errors(&messages), 0);
    prs_peers_destroy(peers);
    prs_heap_destroy(heap);
    prs_peers_destroy(NULL);
}

/* A PE of the same process that leaves first does not take its heap from the other's hands. */
static void test_shared_in_process(void **state)
{
    (void)state;
    struct prs_identity all[2];
    struct prs_heap *heap = make_identities(all, 2, 0);
    struct prs_peers *peers = make_peers(all, 0, 2, heap);
    assert_true(peers->all_local);
    prs_heap_destroy(heap);
    peers->peer[1].base[PRS_HEAP_RESERVED] = 7;
    assert_int_equal(peers->peer[0].base[PRS_HEAP_RESERVED], 7);
    prs_peers_destroy(peers);
}

static void test_other_process(void **state)
{
    (void)state;
    struct prs_identity all[2];
    struct prs_heap *heap = make_identities(all, 2, 0);
    struct prs_heap *other = NULL;
    assert_int_equal(prs_heap_create(BYTES, &log_of_test, &other), PERSEUS_OK);
    const struct prs_settings settings = {.heap_bytes = BYTES};
    pid_t child = fork(); /* inherits other's mapping and descriptor, and keeps them */
    assert_true(child >= 0);
    if (child == 0) {
        pause();
        _exit(0);
    }
    assert_int_equal(prs_identity_fill(&settings, other, NULL, &all[1]), PERSEUS_OK);
    all[1].pid = (int32_t)child;
    all[1].heap = 0; /* of no use in another process */
    struct prs_peers *peers = make_peers(all, 0, 2, heap);
    assert_true(peers->all_local);
    assert_non_null(peers->peer[1].base);
    assert_null(peers->peer[1].shared);
    assert_ptr_not_equal(peers->peer[1].base, other->base);
    peers->peer[1].base[5000] = 42;
    assert_int_equal(other->base[5000], 42);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    peers->peer[1].base[5000] = 43; /* a mapping outlives its process */
    prs_peers_destroy(peers);
    prs_heap_destroy(other);
    prs_heap_destroy(heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes_by_host), cmocka_unit_test(test_nodes_by_count),
        cmocka_unit_test(test_wrong_objects), cmocka_unit_test(test_shared_in_process),
        cmocka_unit_test(test_other_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
