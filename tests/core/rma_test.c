/* SPDX-License-Identifier: Apache-2.0 */
/* Puts and gets, to the own PE, to a neighbour and across nodes, from the heap and from registered
 * buffers, nonblocking and blocking; and every wrong argument. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/check.h"
#include "core/pes.h"

#define BYTES_MAX ((size_t)1 << 20)

static void fill(unsigned char *memory, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++) {
        memory[i] = (unsigned char)(i * 7 + i / 251 + seed);
    }
}

static void check_filled(const unsigned char *memory, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++) {
        CHECK(memory[i] == (unsigned char)(i * 7 + i / 251 + seed));
    }
}

/* Ring of PEs: each puts to the next, checks what came, and gets it back from there. */
static void transfer(struct pes *job, struct perseus_pe *pe, unsigned char *landing,
                     unsigned char *local, size_t bytes, bool blocking)
{
    int me = perseus_my_pe(pe), next = (me + 1) % job->size;
    unsigned seed = (unsigned)(bytes + blocking);
    int before = (me + job->size - 1) % job->size;
    fill(local, bytes, seed + (unsigned)me);
    if (blocking) {
        CHECK_OK(perseus_put(pe, landing, local, bytes, next));
    } else {
        CHECK_OK(perseus_put_nbi(pe, landing, local, bytes, next));
    }
    CHECK_OK(perseus_barrier_all(pe));
    check_filled(landing, bytes, seed + (unsigned)before);
    memset(local, 0, bytes);
    if (blocking) {
        CHECK_OK(perseus_get(pe, local, landing, bytes, next));
    } else {
        CHECK_OK(perseus_get_nbi(pe, local, landing, bytes, next));
        CHECK_OK(perseus_quiet(pe));
    }
    check_filled(local, bytes, seed + (unsigned)me);
    CHECK_OK(perseus_barrier_all(pe));
}

static void transfer_sizes(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)context;
    static const size_t sizes[] = {0, 1, 7, 8, 9, 64, 4096, 65537, BYTES_MAX};
    void *landing = NULL, *source = NULL;
    unsigned char *buffer = malloc(BYTES_MAX);
    CHECK_OK(perseus_malloc(pe, BYTES_MAX, &landing));
    CHECK_OK(perseus_malloc(pe, BYTES_MAX, &source));
    CHECK_OK(perseus_buffer_register(pe, buffer, BYTES_MAX));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        transfer(job, pe, landing, source, sizes[i], false);
        transfer(job, pe, landing, source, sizes[i], true);
        transfer(job, pe, landing, buffer, sizes[i], false);
        transfer(job, pe, landing, buffer, sizes[i], true);
    }
    CHECK_OK(perseus_buffer_unregister(pe, buffer));
    free(buffer);
}

static void test_transfers(void **state)
{
    (void)state;
    for (int size = 1; size <= 4; size++) {
        struct perseus_attr attr = pes_attr(0);
        pes_with(size, &attr, transfer_sizes, NULL);
        attr = pes_attr(2); /* some neighbours, some not */
        pes_with(size, &attr, transfer_sizes, NULL);
    }
    struct perseus_attr attr = pes_attr(1);
    attr.ring_slots = 2; /* back-pressure at every step */
    pes_with(3, &attr, transfer_sizes, NULL);
}

/* A fabric whose longest message is short: everything else goes in pieces. */
static void transfer_pieces(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)context;
    const size_t bytes = 64 * 1000 + 123;
    int me = perseus_my_pe(pe), next = (me + 1) % job->size;
    int before = (me + job->size - 1) % job->size;
    void *landing = NULL, *source = NULL, *signal = NULL;
    CHECK_OK(perseus_malloc(pe, bytes, &landing));
    CHECK_OK(perseus_malloc(pe, bytes, &source));
    CHECK_OK(perseus_malloc(pe, sizeof(uint64_t), &signal));
    pe->message_bytes_max = 1000;
    transfer(job, pe, landing, source, 1000, true);
    transfer(job, pe, landing, source, bytes, false);
    transfer(job, pe, landing, source, bytes, true);
    for (uint64_t round = 1; round <= 20; round++) {
        fill(source, bytes, (unsigned)(round * 10) + (unsigned)me);
        if (round % 2 == 0) {
            CHECK_OK(perseus_put_signal(pe, landing, source, bytes, signal, 1, PERSEUS_SIGNAL_ADD,
                                        next));
        } else {
            CHECK_OK(perseus_put_signal_nbi(pe, landing, source, bytes, signal, 1,
                                            PERSEUS_SIGNAL_ADD, next));
        }
        CHECK_OK(perseus_signal_wait_until(pe, signal, PERSEUS_CMP_EQ, round, 60000, NULL));
        check_filled(landing, bytes, (unsigned)(round * 10) + (unsigned)before);
        CHECK_OK(perseus_barrier_all(pe));
    }
}

static void test_pieces(void **state)
{
    (void)state;
    struct perseus_attr attr = pes_attr(1);
    pes_with_every_mode(2, &attr, 2, transfer_pieces, NULL);
}

#define THREADS      4
#define THREAD_BYTES 512

struct caller {
    struct pes *job;
    struct perseus_pe *pe;
    unsigned char *landing; /* THREAD_BYTES for each thread of each PE */
    int number;
    pthread_t thread;
};

/* Registers a buffer of its own, puts from it to all, reads back, and unregisters,
 * over and over. */
static void *call_often(void *context)
{
    struct caller *caller = context;
    struct perseus_pe *pe = caller->pe;
    int me = perseus_my_pe(pe);
    unsigned char buffer[2 * THREAD_BYTES];
    unsigned char *mine = caller->landing + (me * THREADS + caller->number) * THREAD_BYTES;
    for (unsigned round = 0; round < 40; round++) {
        unsigned seed = round * 16 + (unsigned)(me * THREADS + caller->number);
        CHECK_OK(perseus_buffer_register(pe, buffer, sizeof buffer));
        fill(buffer, THREAD_BYTES, seed);
        for (int target = 0; target < caller->job->size; target++) {
            CHECK_OK(perseus_put_nbi(pe, mine, buffer, THREAD_BYTES, target));
        }
        CHECK_OK(perseus_quiet(pe));
        for (int target = 0; target < caller->job->size; target++) {
            CHECK_OK(perseus_get(pe, buffer + THREAD_BYTES, mine, THREAD_BYTES, target));
            check_filled(buffer + THREAD_BYTES, THREAD_BYTES, seed);
        }
        CHECK_OK(perseus_buffer_unregister(pe, buffer));
    }
    return NULL;
}

static void call_from_threads(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)context;
    struct caller callers[THREADS];
    void *landing = NULL;
    CHECK_OK(perseus_malloc(pe, (size_t)job->size * THREADS * THREAD_BYTES, &landing));
    for (int i = 0; i < THREADS; i++) {
        callers[i] = (struct caller){.job = job, .pe = pe, .landing = landing, .number = i};
        CHECK(pthread_create(&callers[i].thread, NULL, call_often, &callers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(callers[i].thread, NULL);
    }
    CHECK_OK(perseus_barrier_all(pe));
}

static void test_threads(void **state)
{
    (void)state;
    for (int pes_per_node = 0; pes_per_node <= 2; pes_per_node++) {
        struct perseus_attr attr = pes_attr(pes_per_node);
        attr.ring_slots = 4;
        pes_with(3, &attr, call_from_threads, NULL);
    }
}

/* A failed call says so once, in the log and as last error, and changes nothing. */
static void refused(struct pes *job, struct perseus_pe *pe, enum perseus_status got,
                    enum perseus_status expected, const char *part)
{
    struct messages *messages = &job->messages[perseus_my_pe(pe)];
    CHECK_STATUS(got, expected);
    CHECK(messages_errors(messages) == 1);
    CHECK(messages_have(messages, part));
    CHECK(strstr(perseus_last_error(pe), part) != NULL);
    messages_clear(messages);
}

static void wrong_arguments(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)context;
    void *memory = NULL;
    unsigned char stack[64] = {0};
    int other = 1 - perseus_my_pe(pe);
    CHECK_OK(perseus_malloc(pe, 4096, &memory));
    unsigned char *object = memory;
    unsigned char *end = pe->heap->base + pe->heap->bytes;
    refused(job, pe, perseus_put_nbi(pe, stack, object, 8, other), PERSEUS_OUT_OF_RANGE, "dst");
    refused(job, pe, perseus_put_nbi(pe, object, stack, 8, other), PERSEUS_OUT_OF_RANGE,
            "perseus_buffer_register");
    refused(job, pe, perseus_put_nbi(pe, object, NULL, 8, other), PERSEUS_OUT_OF_RANGE, "src");
    refused(job, pe, perseus_put(pe, end - 8, object, 9, other), PERSEUS_OUT_OF_RANGE, "dst");
    refused(job, pe, perseus_put(pe, object, object, SIZE_MAX, other), PERSEUS_OUT_OF_RANGE, "dst");
    refused(job, pe, perseus_put(pe, pe->heap->base, object, 8, other), PERSEUS_OUT_OF_RANGE,
            "outside the symmetric heap"); /* the library's own words */
    refused(job, pe, perseus_get(pe, stack, object, 8, other), PERSEUS_OUT_OF_RANGE, "dst");
    refused(job, pe, perseus_get_nbi(pe, object, stack, 8, other), PERSEUS_OUT_OF_RANGE, "src");
    refused(job, pe, perseus_put_nbi(pe, object, object, 8, -1), PERSEUS_INVALID_ARGUMENT,
            "no PE -1");
    refused(job, pe, perseus_put_nbi(pe, object, object, 8, 2), PERSEUS_INVALID_ARGUMENT,
            "PEs 0 to 1");
    refused(job, pe, perseus_get(pe, object, object, 0, 2), PERSEUS_INVALID_ARGUMENT, "no PE 2");
    CHECK_OK(perseus_put_nbi(pe, NULL, NULL, 0, other)); /* nothing to move, nothing to check */
    CHECK_OK(perseus_quiet(pe));
}

static void wrong_buffers(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)context;
    static unsigned char memory[2][256];
    unsigned char *buffer = memory[perseus_my_pe(pe)];
    void *object = NULL;
    CHECK_OK(perseus_malloc(pe, 256, &object));
    refused(job, pe, perseus_buffer_register(pe, NULL, 8), PERSEUS_INVALID_ARGUMENT, "no buffer");
    refused(job, pe, perseus_buffer_register(pe, buffer, 0), PERSEUS_INVALID_ARGUMENT, "no buffer");
    refused(job, pe, perseus_buffer_register(pe, buffer, SIZE_MAX), PERSEUS_INVALID_ARGUMENT,
            "no buffer");
    refused(job, pe, perseus_buffer_register(pe, object, 8), PERSEUS_INVALID_ARGUMENT,
            "needs no registration");
    CHECK_OK(perseus_buffer_register(pe, buffer, 128));
    refused(job, pe, perseus_buffer_register(pe, buffer + 64, 128), PERSEUS_INVALID_ARGUMENT,
            "overlaps");
    refused(job, pe, perseus_put_nbi(pe, object, buffer + 64, 65, 0), PERSEUS_OUT_OF_RANGE,
            "registered buffer"); /* beyond its end */
    refused(job, pe, perseus_buffer_unregister(pe, buffer + 1), PERSEUS_INVALID_ARGUMENT,
            "no registered buffer");
    CHECK_OK(perseus_put_nbi(pe, object, buffer, 128, 1 - perseus_my_pe(pe)));
    CHECK_OK(perseus_buffer_unregister(pe, buffer)); /* waits for the put */
    refused(job, pe, perseus_buffer_unregister(pe, buffer), PERSEUS_INVALID_ARGUMENT,
            "no registered buffer");
    refused(job, pe, perseus_put_nbi(pe, object, buffer, 8, 0), PERSEUS_OUT_OF_RANGE,
            "perseus_buffer_register");
}

static void test_wrong_arguments(void **state)
{
    (void)state;
    for (int pes_per_node = 0; pes_per_node <= 1; pes_per_node++) {
        struct perseus_attr attr = pes_attr(pes_per_node);
        pes_with(2, &attr, wrong_arguments, NULL);
        pes_with(2, &attr, wrong_buffers, NULL);
    }
}

static void count_puts(struct pes *job, struct perseus_pe *pe, void *context)
{
    (void)context;
    void *memory = NULL;
    struct perseus_stats stats, all;
    int me = perseus_my_pe(pe), far = (me + 2) % job->size;
    CHECK_OK(perseus_malloc(pe, 4096, &memory));
    unsigned char *landing = memory, *source = landing + 2048;
    CHECK_OK(perseus_put_nbi(pe, landing, source, 100, far));
    CHECK_OK(perseus_put_nbi(pe, landing + 100, source, 100, far));
    CHECK_OK(perseus_put_nbi(pe, landing + 200, source, 100, me));
    CHECK_OK(perseus_quiet(pe));
    CHECK_OK(perseus_stats(pe, far, &stats));
    CHECK(stats.puts == 2 && stats.put_bytes == 200 && stats.local_ops == 0);
    CHECK_OK(perseus_stats(pe, me, &stats));
    CHECK(stats.puts == 0 && stats.local_ops == 1);
    CHECK_OK(perseus_stats(pe, PERSEUS_ALL_PES, &all));
    CHECK(all.puts == 2 && all.local_ops == 1 && all.in_flight == 0 && all.in_flight_max >= 1);
    CHECK_STATUS(perseus_stats(pe, job->size, &stats), PERSEUS_INVALID_ARGUMENT);
    CHECK_OK(perseus_barrier_all(pe));
}

static void test_stats(void **state)
{
    (void)state;
    struct perseus_attr attr = pes_attr(2);
    pes_with(4, &attr, count_puts, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transfers), cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_threads),   cmocka_unit_test(test_wrong_arguments),
        cmocka_unit_test(test_stats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
