/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/rng.h"
#include "traffic.h"

#define FLAGS   4096
#define FETCHES 8192
#define WORDS   12288
#define AREA    (256 << 10)
#define BACK    (512 << 10)
#define BYTES   (20 << 10)

static unsigned char pattern(int owner, size_t i)
{
    return (unsigned char)(owner * 37 + (int)(i * 7) + (int)(i >> 8));
}

static bool is_pattern(const unsigned char *at, int owner, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (at[i] != pattern(owner, i)) {
            return false;
        }
    }
    return true;
}

/* Gets of everyone's area, also into a user buffer and from one's own PE. */
static void get_everything(struct host_pe *pe, unsigned char *user)
{
    for (int target = 0; target < pe->n_pes; target++) {
        memset(pe->view + BACK, 0xee, BYTES + 1);
        CHECK(pe, device_get(pe, target, AREA, pe->heap + BACK, BYTES) == 0);
        CHECK(pe, device_quiet(pe) == 0);
        CHECK(pe, is_pattern(pe->view + BACK, target, BYTES) && pe->view[BACK + BYTES] == 0xee);
        memset(user, 0xee, BYTES);
        CHECK(pe, device_get(pe, target, AREA, user, BYTES) == 0);
        CHECK(pe, device_quiet(pe) == 0);
        CHECK(pe, is_pattern(user, target, BYTES));
    }
}

/* P of every width leaves its neighbours alone. */
static void write_values(struct host_pe *pe, uint64_t *barriers)
{
    int target = (pe->rank + 1) % pe->n_pes;
    static const int widths[] = {1, 2, 4, 8};
    for (int i = 0; i < 4; i++) {
        CHECK(pe,
              device_p(pe, target, WORDS + 16 * (size_t)i, 0x8877665544332211u, widths[i]) == 0);
    }
    CHECK(pe, device_barrier(pe, FLAGS, barriers));
    for (int i = 0; i < 4; i++) {
        uint64_t mask = widths[i] == 8 ? UINT64_MAX : (UINT64_C(1) << (8 * widths[i])) - 1;
        CHECK(pe, host_word(pe, WORDS + 16 * (size_t)i) == (0x8877665544332211u & mask));
    }
}

/* An array sent word by word, as nvshmem_float_p sends one: up, down, and every other word; words
 * of other widths between them; then a flag. Nothing else changes. */
static void write_arrays(struct host_pe *pe, uint64_t *barriers)
{
    enum { N = 200 };
    int target = (pe->rank + 1) % pe->n_pes;
    static const int widths[] = {4, 8, 2};
    for (int pass = 0; pass < 3; pass++) {
        size_t bytes = (size_t)widths[pass], at = AREA + 4 * bytes;
        memset(pe->view + AREA, 0x5b, (N + 8) * 8);
        CHECK(pe, device_barrier(pe, FLAGS, barriers));
        for (size_t i = 0; i < N; i++) {
            size_t k = pass == 0 ? i : pass == 1 ? N - 1 - i : i * 2 % N + i * 2 / N;
            CHECK(pe, device_p(pe, target, at + k * bytes, 0x1234567800010001u * (k + 1),
                               (int)bytes) == 0);
        }
        CHECK(pe, device_fence(pe) == 0);
        CHECK(pe, device_p(pe, target, WORDS + 256, (uint64_t)pass + 1, 8) == 0);
        CHECK(pe, device_wait(pe, WORDS + 256, (uint64_t)pass + 1));
        for (size_t k = 0; k < N; k++) {
            uint64_t value = 0x1234567800010001u * (k + 1);
            CHECK(pe, memcmp(pe->view + at + k * bytes, &value, bytes) == 0);
        }
        for (size_t i = 0; i < 4 * bytes; i++) {
            CHECK(pe, pe->view[AREA + i] == 0x5b && pe->view[at + N * bytes + i] == 0x5b);
        }
        CHECK(pe, device_barrier(pe, FLAGS, barriers));
    }
}

/* put_signal without data, and with data across the chunks' border from a user buffer. */
static void signal_shapes(struct host_pe *pe, unsigned char *user, uint64_t *barriers)
{
    int target = (pe->rank + 1) % pe->n_pes, source = (pe->rank + pe->n_pes - 1) % pe->n_pes;
    CHECK(pe,
          device_put_signal(pe, target, 0, NULL, 0, WORDS + 128, 5, PRS_ABI_AMO_SIGNAL_SET) == 0);
    CHECK(pe, device_wait(pe, WORDS + 128, 5));
    for (size_t i = 0; i < BYTES; i++) {
        user[i] = pattern(pe->rank, i);
    }
    size_t across = HOST_CHUNK_BYTES - BYTES / 2;
    CHECK(pe, device_put_signal(pe, target, across, user, BYTES, WORDS + 136, 9,
                                PRS_ABI_AMO_SIGNAL_ADD) == 0);
    CHECK(pe, device_wait(pe, WORDS + 136, 9));
    CHECK(pe, is_pattern(pe->view + across, source, BYTES));
    CHECK(pe, device_barrier(pe, FLAGS, barriers));
}

static void shapes_kernel(struct host_pe *pe, void *user)
{
    uint64_t barriers = 0;
    for (size_t i = 0; i < BYTES; i++) {
        pe->view[AREA + i] = pattern(pe->rank, i);
    }
    CHECK(pe, device_barrier(pe, FLAGS, &barriers));
    get_everything(pe, user);
    CHECK(pe, device_put(pe, (pe->rank + 1) % pe->n_pes, AREA, pe->heap + AREA, 0) == 0);
    write_values(pe, &barriers);
    signal_shapes(pe, user, &barriers);
    write_arrays(pe, &barriers);
    /* Fences and quiets with nothing to do, and toward every PE at once. */
    CHECK(pe, device_fence(pe) == 0 && device_quiet(pe) == 0);
    CHECK(pe, host_quiet(pe, true, PRS_ABI_PE_ALL) == 0);
}

void traffic_shapes(struct host_pe *pe, void *traffic)
{
    (void)traffic;
    unsigned char blob[PRS_ABI_HANDLE_BYTES] = {0};
    unsigned char *user =
        mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    host_register_buffer(pe, user, 1 << 16, blob);
    host_on_proxy(pe, shapes_kernel, user);
    host_release_buffer(pe, user, blob);
    munmap(user, 1 << 16);
}

/* ---- user threads ---- */

/* The heap grows and shrinks while the proxy works. */
static void grow_and_shrink(struct host_pe *pe, unsigned char *memory)
{
    unsigned char blob[PRS_ABI_HANDLE_BYTES] = {0};
    CHECK(pe, host_register_memory(pe, memory, 4096, false, blob) == 0);
    CHECK(pe, host_release_memory(pe, blob) == 0);
}

static void busy_kernel(struct host_pe *pe, void *argument)
{
    const struct traffic *traffic = argument;
    for (int i = 0; i < traffic->rounds; i++) {
        for (int target = 0; target < pe->n_pes; target++) {
            CHECK(pe, device_amo(pe, target, PRS_ABI_AMO_ADD, WORDS + 256, 8, 1, 0) == 0);
        }
        CHECK(pe, device_quiet(pe) == 0);
    }
}

static void *busy_main(void *argument)
{
    struct host_pe *pe = argument;
    host_on_proxy(pe, busy_kernel, pe->spec->argument);
    return NULL;
}

static void one_user_round(struct host_pe *pe, unsigned char *user, int round)
{
    int target = (pe->rank + 1 + round % (pe->n_pes - 1)) % pe->n_pes;
    size_t there = AREA + (size_t)pe->rank * 32768;
    for (size_t i = 0; i < 3000; i++) {
        pe->view[BACK + i] = pattern(round, i);
    }
    CHECK(pe, user_put(pe, target, there, pe->heap + BACK, 3000, round % 2 == 0) == 0);
    if (round % 2 != 0) {
        memset(pe->view + BACK, 0, 3000); /* a blocking put's source is free */
    }
    CHECK(pe, user_fence(pe) == 0);
    CHECK(pe, user_p(pe, target, there + 3000, (uint64_t)round, 8) == 0);
    CHECK(pe, user_quiet(pe) == 0);
    memset(user, 0xee, 4096);
    CHECK(pe, user_get(pe, target, there, user, 3008, false) == 0);
    CHECK(pe, is_pattern(user, round, 3000));
    uint64_t value;
    memcpy(&value, user + 3000, sizeof value);
    CHECK(pe, value == (uint64_t)round);
}

void traffic_user(struct host_pe *pe, void *argument)
{
    const struct traffic *traffic = argument;
    unsigned char blob[PRS_ABI_HANDLE_BYTES] = {0};
    unsigned char *user = aligned_alloc(4096, 8192);
    host_register_buffer(pe, user, 4096, blob);
    pthread_t busy;
    CHECK(pe, pthread_create(&busy, NULL, busy_main, pe) == 0);
    for (int round = 0; round < traffic->rounds && pe->failures == 0; round++) {
        one_user_round(pe, user, round);
        grow_and_shrink(pe, user + 4096);
    }
    pthread_join(busy, NULL);
    host_release_buffer(pe, user, blob);
    free(user);
    host_barrier(pe);
    CHECK(pe, host_word(pe, WORDS + 256) == (uint64_t)(traffic->rounds * pe->n_pes));
}
