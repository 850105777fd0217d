/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static size_t total_bytes(int n_pes)
{
    return sizeof(struct rendezvous) + (size_t)n_pes * RENDEZVOUS_BLOCK_MAX;
}

struct rendezvous *rendezvous_create(int n_pes, int timeout_ms)
{
    void *memory =
        mmap(NULL, total_bytes(n_pes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        abort();
    }
    struct rendezvous *meeting = memory;
    meeting->n_pes = n_pes;
    meeting->timeout_ms = timeout_ms;
    meeting->slots = (unsigned char *)(meeting + 1);
    return meeting;
}

void rendezvous_destroy(struct rendezvous *meeting)
{
    munmap(meeting, total_bytes(meeting->n_pes));
}

int rendezvous_barrier(struct rendezvous *meeting)
{
    unsigned round = atomic_load(&meeting->round);
    if (atomic_fetch_add(&meeting->arrived, 1) + 1 == (unsigned)meeting->n_pes) {
        atomic_store(&meeting->arrived, 0);
        atomic_fetch_add(&meeting->round, 1);
        return atomic_load(&meeting->broken);
    }
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    while (atomic_load(&meeting->round) == round) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (atomic_load(&meeting->broken) ||
            (now.tv_sec - start.tv_sec) * 1000 > meeting->timeout_ms) {
            atomic_store(&meeting->broken, true);
            return 1;
        }
        usleep(20);
    }
    return atomic_load(&meeting->broken);
}

int rendezvous_allgather(struct rendezvous *meeting, int pe, const void *send, void *receive,
                         int bytes)
{
    if (bytes > RENDEZVOUS_BLOCK_MAX) {
        return 1;
    }
    memcpy(meeting->slots + (size_t)pe * RENDEZVOUS_BLOCK_MAX, send, (size_t)bytes);
    int failed = rendezvous_barrier(meeting);
    for (int i = 0; i < meeting->n_pes && failed == 0; i++) {
        memcpy((char *)receive + (size_t)i * (size_t)bytes,
               meeting->slots + (size_t)i * RENDEZVOUS_BLOCK_MAX, (size_t)bytes);
    }
    return failed != 0 ? failed : rendezvous_barrier(meeting);
}
