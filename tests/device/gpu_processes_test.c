/* SPDX-License-Identifier: Apache-2.0 */
/* PEs as processes whose heaps are GPU memory that libfabric's tcp does not reach, on the scripted
 * driver: the host's calls, kernels, compiled for the CPU, and a PE that is killed. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "bootstrap/hub.h"
#include "core/check.h"
#include "core/pe.h"
#include "kernels.h"

#define PES        3
#define TIMEOUT_MS 60000
#define ROUNDS     30
#define WORDS      20000 /* more than the smallest ring takes at once */

static void *allocate(struct perseus_pe *pe, size_t bytes)
{
    void *memory = NULL;
    CHECK_OK(perseus_malloc(pe, bytes, &memory));
    return memory;
}

/* No CPU reaches the heap here. */
static void move_data(struct perseus_pe *pe)
{
    static uint64_t mine[WORDS], back[WORDS];
    int self = perseus_my_pe(pe), right = (self + 1) % PES, left = (self + PES - 1) % PES;
    uint64_t *data = allocate(pe, sizeof mine), *signal = allocate(pe, sizeof *signal), old = 0;
    uint64_t *count = allocate(pe, sizeof *count);
    CHECK_OK(perseus_buffer_register(pe, mine, sizeof mine));
    CHECK_OK(perseus_buffer_register(pe, back, sizeof back));
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        for (uint64_t i = 0; i < WORDS; i++) {
            mine[i] = round * 1000000 + (uint64_t)self * 100000 + i;
        }
        CHECK_OK(perseus_put_signal_nbi(pe, data, mine, sizeof mine, signal, round,
                                        PERSEUS_SIGNAL_SET, right));
        CHECK_OK(perseus_signal_wait_until(pe, signal, PERSEUS_CMP_EQ, round, TIMEOUT_MS, NULL));
        CHECK_OK(perseus_get(pe, back, data, sizeof back, self));
        for (uint64_t i = 0; i < WORDS; i++) {
            CHECK(back[i] == round * 1000000 + (uint64_t)left * 100000 + i);
        }
        CHECK_OK(perseus_atomic_fetch(pe, count, PERSEUS_ATOMIC_ADD, 1, 0, right, &old));
        CHECK(old == round - 1);
        CHECK_OK(perseus_barrier_all(pe));
        CHECK_OK(perseus_get(pe, back, data, sizeof back, right)); /* of another process */
        CHECK(back[WORDS - 1] == mine[WORDS - 1]);
        CHECK_OK(perseus_barrier_all(pe));
    }
    CHECK_OK(perseus_finalize(pe));
}

static void run_kernel(struct perseus_pe *pe)
{
    struct perseus_device_pe handle;
    struct kernel_memory memory = {
        .signals = allocate(pe, PES * sizeof(uint64_t)),
        .payloads = allocate(pe, PES * KERNEL_WORDS * sizeof(uint64_t)),
        .source = allocate(pe, KERNEL_WORDS * sizeof(uint64_t)),
    };
    CHECK_OK(perseus_gpu_pe_get(pe, &handle));
    CHECK(kernel_exchange(&handle, &memory, ROUNDS));
    CHECK_OK(perseus_gpu_check(pe));
    CHECK_OK(perseus_barrier_all(pe));
    CHECK_OK(perseus_finalize(pe));
}

/* PE 2 dies with work toward it under way. */
static void lose_one(struct perseus_pe *pe)
{
    uint64_t *data = allocate(pe, WORDS * sizeof *data), *word = allocate(pe, sizeof *word);
    if (perseus_my_pe(pe) == 2) {
        raise(SIGKILL);
    }
    enum perseus_status status = PERSEUS_OK;
    while (status == PERSEUS_OK) {
        status = perseus_put_signal(pe, data, data, WORDS * sizeof *data, word, 1,
                                    PERSEUS_SIGNAL_SET, 2);
    }
    CHECK(status == PERSEUS_PEER_LOST);
    CHECK_STATUS(perseus_finalize(pe), PERSEUS_PEER_LOST);
}

static void say(void *user, enum perseus_log_level level, const char *text)
{
    (void)user;
    (void)level;
    fprintf(stderr, "    %s\n", text);
}

/* Never returns. */
static void be_process(int fd, int rank, void (*body)(struct perseus_pe *))
{
    const struct perseus_attr attr = {.fabric = "libfabric",
                                      .provider = "tcp",
                                      .heap_memory = PERSEUS_MEMORY_GPU,
                                      .gpu = rank % 2,
                                      .heap_bytes = 1 << 20,
                                      .timeout_ms = TIMEOUT_MS,
                                      .log = say};
    const struct prs_log log = {.fn = say, .pe = rank};
    struct prs_bootstrap *bootstrap = NULL;
    struct perseus_pe *pe = NULL;
    CHECK_OK(prs_bootstrap_open_local(fd, rank, PES, TIMEOUT_MS, &log, &bootstrap));
    CHECK_OK(prs_pe_open(&attr, bootstrap, &pe));
    body(pe);
    exit(0); /* with the leak check of a sanitized build */
}

static void run_processes(void (*body)(struct perseus_pe *), int killed)
{
    struct prs_hub *hub = NULL;
    pid_t children[PES];
    CHECK_OK(prs_hub_create(PES, NULL, &hub));
    for (int rank = 0; rank < PES; rank++) {
        int fd = prs_hub_take_fd(hub, rank);
        children[rank] = fork();
        CHECK(children[rank] >= 0);
        if (children[rank] == 0) {
            prs_hub_destroy(hub);
            be_process(fd, rank, body);
        }
        close(fd);
    }
    while (prs_hub_serve(hub, 1000) == PERSEUS_AGAIN) {
        /* until every PE has left */
    }
    prs_hub_destroy(hub);
    for (int rank = 0; rank < PES; rank++) {
        int status = 0;
        CHECK(waitpid(children[rank], &status, 0) == children[rank]);
        bool is_right = rank == killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                                       : WIFEXITED(status) && WEXITSTATUS(status) == 0;
        CHECK(is_right);
    }
}

static void the_host_s_calls_never_touch_the_memory(void **state)
{
    (void)state;
    setenv("PERSEUS_SCRIPTED_GUARD", "1", 1);
    run_processes(move_data, -1);
    setenv("PERSEUS_STAGE_BYTES", "64K", 1); /* rings wrap and fill */
    run_processes(move_data, -1);
    unsetenv("PERSEUS_STAGE_BYTES");
    unsetenv("PERSEUS_SCRIPTED_GUARD");
}

static void kernels_put_to_other_processes(void **state)
{
    (void)state;
    run_processes(run_kernel, -1);
}

static void a_process_that_dies_is_noticed(void **state)
{
    (void)state;
    run_processes(lose_one, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_s_calls_never_touch_the_memory),
        cmocka_unit_test(kernels_put_to_other_processes),
        cmocka_unit_test(a_process_that_dies_is_noticed),
    };
    return cmocka_run_group_tests_name("heaps of GPU memory in processes", tests, NULL, NULL);
}
