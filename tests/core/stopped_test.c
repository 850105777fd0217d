/* SPDX-License-Identifier: Apache-2.0 */
/* A whole job is stopped, in the middle of its traffic, for longer than PERSEUS_PEER_TIMEOUT_MS, as
 * ^Z does it: when it goes on, nobody is taken for lost. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "bootstrap/hub.h"
#include "core/check.h"
#include "core/pe.h"

#define PES        2
#define STOPS      3
#define TIMEOUT_MS 60000
#define PEER_MS    "400"
#define STOP_MS    1000
#define RUN_MS     100

static void sleep_ms(uint32_t ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000},
              NULL);
}

static void say(void *user, enum perseus_log_level level, const char *text)
{
    (void)user;
    (void)level;
    fprintf(stderr, "    %s\n", text);
}

/* Puts with signals to each other, turn by turn, until the launcher closes the pipe: PE 0 sees it
 * and says in its payload which turn is the last. */
static void exchange(struct perseus_pe *pe, int until)
{
    int me = perseus_my_pe(pe), other = 1 - me;
    void *memory = NULL;
    CHECK_OK(perseus_malloc(pe, 4096, &memory));
    uint64_t *words = memory, turns = 0, *last = me == 0 ? &words[2] : &words[3];
    do {
        char end;
        turns++;
        if (me == 0 && words[2] == 0 && read(until, &end, 1) == 0) {
            words[2] = turns;
        }
        CHECK_OK(perseus_put_signal_nbi(pe, words + 3, words + 2, 8, words, turns,
                                        PERSEUS_SIGNAL_SET, other));
        CHECK_OK(perseus_signal_wait_until(pe, words, PERSEUS_CMP_GE, turns, TIMEOUT_MS, NULL));
        CHECK_OK(perseus_quiet(pe));
    } while (*(volatile uint64_t *)last == 0 || turns < *last);
    CHECK_OK(perseus_finalize(pe));
}

/* Never returns. */
static void be_process(int fd, int rank, int until)
{
    const struct perseus_attr attr = {.fabric = "libfabric",
                                      .provider = "tcp",
                                      .heap_bytes = 1 << 20,
                                      .timeout_ms = TIMEOUT_MS,
                                      .pes_per_node = 1,
                                      .log = say};
    const struct prs_log log = {.fn = say, .pe = rank};
    struct prs_bootstrap *bootstrap = NULL;
    struct perseus_pe *pe = NULL;
    CHECK_OK(prs_bootstrap_open_local(fd, rank, PES, TIMEOUT_MS, &log, &bootstrap));
    CHECK_OK(prs_pe_open(&attr, bootstrap, &pe));
    exchange(pe, until);
    exit(0);
}

struct launcher {
    pid_t children[PES];
    int until[2]; /* closed when the job is to end */
};

static void signal_one(const struct launcher *launcher, int rank, int signal)
{
    CHECK(kill(launcher->children[rank], signal) == 0);
    sleep_ms(20);
}

static void *stop_and_go(void *context)
{
    const struct launcher *launcher = context;
    for (int stop = 0; stop < STOPS; stop++) {
        sleep_ms(RUN_MS);
        signal_one(launcher, 1, SIGSTOP);
        signal_one(launcher, 0, SIGSTOP); /* it has asked the other, who does not answer any more */
        sleep_ms(STOP_MS);
        signal_one(launcher, 0, SIGCONT); /* ... nor yet */
        signal_one(launcher, 1, SIGCONT);
    }
    sleep_ms(RUN_MS);
    close(launcher->until[1]);
    return NULL;
}

static void test_a_stopped_job_goes_on(void **state)
{
    (void)state;
    struct prs_hub *hub = NULL;
    struct launcher launcher;
    setenv("PERSEUS_PEER_TIMEOUT_MS", PEER_MS, 1);
    CHECK(pipe2(launcher.until, O_NONBLOCK | O_CLOEXEC) == 0);
    CHECK_OK(prs_hub_create(PES, NULL, &hub));
    for (int rank = 0; rank < PES; rank++) {
        int fd = prs_hub_take_fd(hub, rank);
        launcher.children[rank] = fork();
        CHECK(launcher.children[rank] >= 0);
        if (launcher.children[rank] == 0) {
            prs_hub_destroy(hub);
            close(launcher.until[1]);
            be_process(fd, rank, launcher.until[0]);
        }
        close(fd);
    }
    close(launcher.until[0]);
    pthread_t stopper;
    pthread_create(&stopper, NULL, stop_and_go, &launcher);
    while (prs_hub_serve(hub, 1000) == PERSEUS_AGAIN) {
        /* until every PE has left */
    }
    pthread_join(stopper, NULL);
    prs_hub_destroy(hub);
    for (int rank = 0; rank < PES; rank++) {
        int status = 0;
        CHECK(waitpid(launcher.children[rank], &status, 0) == launcher.children[rank]);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    unsetenv("PERSEUS_PEER_TIMEOUT_MS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_stopped_job_goes_on)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
