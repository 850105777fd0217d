/* SPDX-License-Identifier: Apache-2.0 */
/* PEs as processes, as `perseus run` starts them: memory shared between processes, libfabric
 * between nodes, a PE that is killed, and nothing left behind. */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "bootstrap/hub.h"
#include "core/check.h"
#include "core/messages.h"
#include "core/pe.h"

#define PES        4
#define TIMEOUT_MS 60000
#define ROUNDS     50
#define WORDS      100

static void *allocate(struct perseus_pe *pe, size_t bytes)
{
    void *memory = NULL;
    CHECK_OK(perseus_malloc(pe, bytes, &memory));
    return memory;
}

static void all_to_all(struct perseus_pe *pe, bool all_local)
{
    int me = perseus_my_pe(pe);
    uint64_t *signals = allocate(pe, PES * sizeof *signals);
    uint64_t *landing = allocate(pe, PES * WORDS * sizeof *landing);
    uint64_t *source = allocate(pe, WORDS * sizeof *source), *count = allocate(pe, sizeof *count);
    CHECK(perseus_is_local(pe, (me + 1) % PES) == (all_local || me % 2 == 0));
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < WORDS; i++) {
            source[i] = round * 1000 + (uint64_t)me;
        }
        for (int target = 0; target < PES; target++) {
            CHECK_OK(perseus_put_signal_nbi(pe, landing + me * WORDS, source,
                                            WORDS * sizeof *source, signals + me, round,
                                            PERSEUS_SIGNAL_SET, target));
            CHECK_OK(perseus_atomic_nbi(pe, count, PERSEUS_ATOMIC_ADD, 1, target));
        }
        for (int sender = 0; sender < PES; sender++) {
            CHECK_OK(perseus_signal_wait_until(pe, signals + sender, PERSEUS_CMP_EQ, round,
                                               TIMEOUT_MS, NULL));
            for (int i = 0; i < WORDS; i++) {
                CHECK(landing[sender * WORDS + i] == round * 1000 + (uint64_t)sender);
            }
        }
        CHECK_OK(perseus_barrier_all(pe));
    }
    CHECK(perseus_signal_fetch(count) == PES * ROUNDS);
}

static void exchange_on_one_node(struct perseus_pe *pe)
{
    all_to_all(pe, true);
    CHECK_OK(perseus_finalize(pe));
}

static void exchange_on_two_nodes(struct perseus_pe *pe)
{
    all_to_all(pe, false);
    CHECK_OK(perseus_finalize(pe));
}

/* PE 2 dies; the others wait for it in a way of their own. */
static void lose_one(struct perseus_pe *pe)
{
    uint64_t *word = allocate(pe, sizeof *word);
    switch (perseus_my_pe(pe)) {
    case 2:
        raise(SIGKILL);
        break;
    case 0:
        CHECK_STATUS(perseus_signal_wait_until(pe, word, PERSEUS_CMP_EQ, 1, TIMEOUT_MS, NULL),
                     PERSEUS_PEER_LOST);
        break;
    default:
        CHECK_STATUS(perseus_barrier_all(pe), PERSEUS_PEER_LOST);
        break;
    }
    CHECK(strstr(perseus_last_error(pe), "PE 2") != NULL);
    CHECK_STATUS(perseus_finalize(pe), PERSEUS_PEER_LOST);
}

static void say(void *user, enum perseus_log_level level, const char *text)
{
    (void)user;
    (void)level;
    fprintf(stderr, "    %s\n", text);
}

/* Never returns. */
static void be_process(int fd, int rank, int pes_per_node, void (*body)(struct perseus_pe *))
{
    const struct perseus_attr attr = {.fabric = "libfabric",
                                      .provider = "tcp",
                                      .heap_bytes = 1 << 20,
                                      .timeout_ms = TIMEOUT_MS,
                                      .pes_per_node = pes_per_node,
                                      .log = say};
    const struct prs_log log = {.fn = say, .pe = rank};
    struct prs_bootstrap *bootstrap = NULL;
    struct perseus_pe *pe = NULL;
    CHECK_OK(prs_bootstrap_open_local(fd, rank, PES, TIMEOUT_MS, &log, &bootstrap));
    CHECK_OK(prs_pe_open(&attr, bootstrap, &pe));
    body(pe);
    exit(0); /* with the leak check of a sanitized build */
}

/* Files in /dev/shm that bear the number of a process (...PID-RANDOM); those of others of this
 * machine come and go. */
static int count_shm(pid_t pid)
{
    int n = 0;
    char number[16];
    DIR *directory = opendir("/dev/shm");
    snprintf(number, sizeof number, "%d-", (int)pid);
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        n += strstr(entry->d_name, number) != NULL;
    }
    if (directory != NULL) {
        closedir(directory);
    }
    return n;
}

static void run_processes(int pes_per_node, void (*body)(struct perseus_pe *), int killed)
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
            be_process(fd, rank, pes_per_node, body);
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
        if (rank == killed) {
            CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        } else {
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
        CHECK(count_shm(children[rank]) == 0);
    }
}

static void test_one_node(void **state)
{
    (void)state;
    run_processes(0, exchange_on_one_node, -1);
}

static void test_two_nodes(void **state)
{
    (void)state;
    run_processes(2, exchange_on_two_nodes, -1);
}

static void test_killed(void **state)
{
    (void)state;
    run_processes(0, lose_one, 2);
    run_processes(1, lose_one, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_node),
        cmocka_unit_test(test_two_nodes),
        cmocka_unit_test(test_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
