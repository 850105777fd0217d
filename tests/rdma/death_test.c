/* SPDX-License-Identifier: Apache-2.0 */
/* A PE that is killed, on an RDMA device: whoever waits for it hears so in time, and in words; the
 * other PE goes on. PE 0 is this process; the others poll in processes of their own. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fabric/verbs/verbs.h"
#include "order/order.h"
#include "support/skip.h"

#define PES        3u
#define HEAP_BYTES (1u << 20)
#define PUT_BYTES  65536u
#define BURST      32u
#define DEADLINE_S 8u  /* of a peer that owes something */
#define PATIENCE_S 40u /* of this test, with anything */
#define TOKENS     4u

struct shared {
    _Atomic uint32_t ready;
    atomic_bool ends;
    unsigned char directory[PES][4 + PRS_ORDERER_ADDRESS_MAX];
    struct {
        unsigned char bytes[PRS_WINDOW_BLOB_MAX];
        size_t n;
    } blobs[PES];
    unsigned char heaps[PES][HEAP_BYTES];
};

struct pe {
    struct prs_fabric *fabric;
    struct prs_orderer *orderer;
    struct prs_window *heap;
    struct prs_window_remote *remotes[PES];
    bool done[TOKENS];
    enum perseus_status status[TOKENS];
    char said[4096]; /* errors */
    struct prs_log log;
};

static uint64_t now_ns(void)
{
    struct prs_clock clock = prs_clock_monotonic();
    return prs_clock_now_ns(&clock);
}

static void keep(void *user, enum perseus_log_level level, const char *text)
{
    struct pe *pe = user;
    size_t length = strlen(pe->said);
    (void)level;
    snprintf(pe->said + length, sizeof pe->said - length, "%s\n", text);
}

static void on_complete(void *context, uint32_t token, enum perseus_status status, uint64_t result)
{
    struct pe *pe = context;
    (void)result;
    pe->done[token] = true;
    pe->status[token] = status;
}

/* ---- PEs ---- */

static enum perseus_status pe_open(struct pe *pe, uint32_t rank, enum perseus_ordering ordering,
                                   struct shared *shared)
{
    *pe = (struct pe){.log = {.fn = keep, .user = pe, .level = PERSEUS_LOG_ERROR, .pe = (int)rank}};
    const struct prs_fabric_config config = {.memory_kinds = PRS_MEMORY_HOST,
                                             .loss_level = PERSEUS_LOG_ERROR,
                                             .log = &pe->log,
                                             .clock = prs_clock_monotonic()};
    enum perseus_status status = prs_verbs_ops.open(&config, &pe->fabric);
    struct prs_endpoint *endpoint = NULL;
    status = status == PERSEUS_OK ? prs_verbs_ops.endpoint_open(pe->fabric, &endpoint) : status;
    if (status != PERSEUS_OK) {
        return status;
    }
    const struct prs_orderer_config orderer = {.endpoint = endpoint,
                                               .ordering = ordering,
                                               .self = rank,
                                               .n_peers = PES,
                                               .timeout_ns = DEADLINE_S * UINT64_C(1000000000),
                                               .complete = on_complete,
                                               .context = pe,
                                               .log = &pe->log,
                                               .clock = prs_clock_monotonic()};
    status = prs_orderer_create(&orderer, &pe->orderer);
    size_t bytes = PRS_ORDERER_ADDRESS_MAX;
    if (status == PERSEUS_OK) {
        status = prs_orderer_address(pe->orderer, shared->directory[rank] + 4, &bytes);
        memcpy(shared->directory[rank], &(uint32_t){(uint32_t)bytes}, 4);
        prs_orderer_set_directory(pe->orderer, shared->directory[0], sizeof shared->directory[0]);
    }
    status = status == PERSEUS_OK ? prs_window_create(pe->orderer, shared->heaps[rank], HEAP_BYTES,
                                                      PRS_MEMORY_HOST, &pe->heap)
                                  : status;
    shared->blobs[rank].n = sizeof shared->blobs[rank].bytes;
    status = status == PERSEUS_OK
                 ? prs_window_export(pe->heap, shared->blobs[rank].bytes, &shared->blobs[rank].n)
                 : status;
    /* Release: with the acquire in wait_for_all; the address and the blob are there. */
    atomic_fetch_add_explicit(&shared->ready, status == PERSEUS_OK, memory_order_release);
    return status;
}

static void pe_close(struct pe *pe)
{
    for (uint32_t i = 0; i < PES; i++) {
        prs_window_remote_close(pe->remotes[i]);
    }
    prs_window_destroy(pe->heap);
    prs_orderer_destroy(pe->orderer);
    pe->fabric->ops->close(pe->fabric);
}

/* A PE that only polls, in a process of its own. */
static pid_t start(uint32_t rank, enum perseus_ordering ordering, struct shared *shared)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0) {
        return child;
    }
    static struct pe pe;
    enum perseus_status status = pe_open(&pe, rank, ordering, shared);
    uint64_t until_ns = now_ns() + 3 * PATIENCE_S * UINT64_C(1000000000);
    while (status == PERSEUS_OK && !atomic_load(&shared->ends) && now_ns() < until_ns) {
        bool did;
        status = prs_orderer_progress(pe.orderer, 64, &did);
    }
    if (status == PERSEUS_OK) {
        pe_close(&pe);
    }
    _exit(status == PERSEUS_OK ? 0 : 1);
}

static void wait_for_all(struct pe *pe, struct shared *shared)
{
    uint64_t until_ns = now_ns() + PATIENCE_S * UINT64_C(1000000000);
    /* Acquire: with pe_open. */
    while (atomic_load_explicit(&shared->ready, memory_order_acquire) < PES) {
        assert_true(now_ns() < until_ns);
        usleep(1000);
    }
    for (uint32_t rank = 1; rank < PES; rank++) {
        assert_int_equal(prs_window_import(pe->orderer, rank, shared->blobs[rank].bytes,
                                           shared->blobs[rank].n, &pe->remotes[rank]),
                         PERSEUS_OK);
    }
}

/* ---- what PE 0 does ---- */

/* PUT_BYTES and a signal behind them. */
static enum perseus_status put_signal(struct pe *pe, uint32_t rank, uint32_t token, uint64_t value)
{
    const struct prs_request request = {.kind = PRS_REQUEST_PUT_SIGNAL,
                                        .op = PERSEUS_SIGNAL_SET,
                                        .peer = rank,
                                        .token = token,
                                        .local = prs_window_region(pe->heap),
                                        .remote = pe->remotes[rank],
                                        .bytes = PUT_BYTES,
                                        .signal_remote = pe->remotes[rank],
                                        .signal_offset = HEAP_BYTES - 8,
                                        .value = value};
    uint64_t until_ns = now_ns() + PATIENCE_S * UINT64_C(1000000000);
    enum perseus_status status;
    while ((status = prs_orderer_submit(pe->orderer, &request)) == PERSEUS_AGAIN) {
        bool did;
        assert_int_equal(prs_orderer_progress(pe->orderer, 64, &did), PERSEUS_OK);
        assert_true(now_ns() < until_ns);
    }
    assert_int_equal(prs_orderer_flush(pe->orderer), PERSEUS_OK);
    return status;
}

static enum perseus_status wait_for(struct pe *pe, uint32_t token)
{
    uint64_t until_ns = now_ns() + PATIENCE_S * UINT64_C(1000000000);
    while (!pe->done[token]) {
        bool did;
        assert_int_equal(prs_orderer_progress(pe->orderer, 64, &did), PERSEUS_OK);
        assert_true(now_ns() < until_ns);
    }
    pe->done[token] = false;
    return pe->status[token];
}

static enum perseus_status quiet(struct pe *pe, uint32_t rank)
{
    assert_int_equal(prs_orderer_quiet(pe->orderer, rank, 3), PERSEUS_OK);
    return wait_for(pe, 3);
}

static void expect_loss(struct pe *pe, pid_t victim)
{
    for (uint32_t i = 0; i < BURST; i++) {
        assert_int_equal(put_signal(pe, 1, PRS_ORDER_NO_TOKEN, 2 + i), PERSEUS_OK);
    }
    uint64_t began_ns = now_ns();
    kill(victim, SIGKILL);
    assert_int_equal(waitpid(victim, NULL, 0), victim);
    enum perseus_status status = put_signal(pe, 1, 0, 99);
    status = status == PERSEUS_OK ? wait_for(pe, 0) : status;
    assert_int_equal(status, PERSEUS_PEER_LOST);
    assert_int_equal(quiet(pe, 1), PERSEUS_PEER_LOST);
    assert_int_equal(put_signal(pe, 1, PRS_ORDER_NO_TOKEN, 100), PERSEUS_PEER_LOST);
    uint64_t took_ns = now_ns() - began_ns;
    print_message("lost after %llu ms: %s", (unsigned long long)(took_ns / 1000000), pe->said);
    assert_true(took_ns < 2 * DEADLINE_S * UINT64_C(1000000000));
    assert_non_null(strstr(pe->said, "PE 1"));
}

static void run_mode(enum perseus_ordering ordering)
{
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    pid_t victim = start(1, ordering, shared), other = start(2, ordering, shared);
    static struct pe pe;
    assert_int_equal(pe_open(&pe, 0, ordering, shared), PERSEUS_OK);
    wait_for_all(&pe, shared);
    memset(shared->heaps[0], 7, PUT_BYTES);
    for (uint32_t rank = 1; rank < PES; rank++) {
        assert_int_equal(put_signal(&pe, rank, rank, 1), PERSEUS_OK);
        assert_int_equal(wait_for(&pe, rank), PERSEUS_OK);
    }
    expect_loss(&pe, victim);
    memset(shared->heaps[0], 8, PUT_BYTES);
    assert_int_equal(put_signal(&pe, 2, 2, 5), PERSEUS_OK);
    assert_int_equal(wait_for(&pe, 2), PERSEUS_OK);
    assert_int_equal(quiet(&pe, 2), PERSEUS_OK);
    assert_memory_equal(shared->heaps[2], shared->heaps[0], PUT_BYTES);
    assert_memory_equal(shared->heaps[2] + HEAP_BYTES - 8, &(uint64_t){5}, 8);
    atomic_store(&shared->ends, true);
    int status = 0;
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    pe_close(&pe);
    munmap(shared, sizeof *shared);
}

static void test_fifo(void **state)
{
    (void)state;
    run_mode(PERSEUS_ORDERING_FIFO);
}

static void test_counted(void **state)
{
    (void)state;
    run_mode(PERSEUS_ORDERING_COUNTED);
}

static void test_deferred(void **state)
{
    (void)state;
    run_mode(PERSEUS_ORDERING_DEFERRED);
}

int main(void)
{
    const struct prs_fabric_config config = {.clock = prs_clock_monotonic()};
    struct prs_fabric *fabric;
    if (prs_verbs_ops.open(&config, &fabric) != PERSEUS_OK) {
        return test_skip("no RDMA device");
    }
    fabric->ops->close(fabric);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fifo), cmocka_unit_test(test_counted),
                                       cmocka_unit_test(test_deferred)};
    return cmocka_run_group_tests_name("a PE is killed", tests, NULL, NULL);
}
