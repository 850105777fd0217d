/* SPDX-License-Identifier: Apache-2.0 */
/* A PE for tests that need processes: started by perseus run or mpirun, it does what its arguments
 * say. Exit code 0: all was as the mode expects; 3: a PE was lost, as expected; 4: it was not. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap/bootstrap.h"
#include "job.h"

enum { AS_EXPECTED = 0, LOST_AS_EXPECTED = 3, NOT_AS_EXPECTED = 4 };

static void print(void *user, enum perseus_log_level level, const char *text)
{
    (void)user;
    if (level <= PERSEUS_LOG_WARN) {
        fprintf(stderr, "pe: %s\n", text);
    }
}

static const struct prs_log stderr_log = {.fn = print, .level = PERSEUS_LOG_WARN, .pe = -1};

static int fail(const char *what)
{
    fprintf(stderr, "pe: not as expected: %s\n", what);
    return NOT_AS_EXPECTED;
}

/* Leaves a number in the file DIRECTORY/NAME. */
static void note(const char *directory, const char *name, int value)
{
    char path[512], hidden[600];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    snprintf(hidden, sizeof hidden, "%s.new", path);
    FILE *file = fopen(hidden, "w");
    if (file != NULL) {
        fprintf(file, "%d\n", value);
        fclose(file);
        rename(hidden, path); /* who sees it sees all of it */
    }
}

static void sign(const char *directory, int rank)
{
    char name[16];
    snprintf(name, sizeof name, "%d", rank);
    note(directory, name, (int)getpid());
}

static int number(char **arguments, int i)
{
    return arguments[i] != NULL ? atoi(arguments[i]) : 0;
}

static int gather(struct prs_bootstrap *bootstrap, int rounds, size_t bytes)
{
    int rank;
    for (int round = 0; round < rounds; round++) {
        if (job_gather(bootstrap, round, bytes) != PERSEUS_OK) {
            return fail("gather");
        }
        if (bootstrap->ops->health(bootstrap, &rank) != PERSEUS_OK) {
            return fail("health");
        }
    }
    return AS_EXPECTED;
}

/* gather SIZE ROUNDS BYTES; SIZE 0: any */
static int mode_gather(struct prs_bootstrap *bootstrap, char **arguments)
{
    if (number(arguments, 0) != 0 && bootstrap->size != number(arguments, 0)) {
        return fail("number of PEs");
    }
    return gather(bootstrap, number(arguments, 1), (size_t)number(arguments, 2));
}

static void end_as(const char *how, int argument)
{
    if (strcmp(how, "exit") == 0) {
        _exit(argument);
    }
    raise(argument);
}

/* lose RANK exit CODE | lose RANK signal NUMBER */
static int mode_lose(struct prs_bootstrap *bootstrap, char **arguments)
{
    const int victim = number(arguments, 0);
    int lost = -2;
    if (job_gather(bootstrap, 0, 8) != PERSEUS_OK) {
        return fail("first gather");
    }
    if (bootstrap->rank == victim) {
        end_as(arguments[1], number(arguments, 2));
    }
    if (job_gather(bootstrap, 1, 8) != PERSEUS_PEER_LOST) {
        return fail("gather without the lost PE");
    }
    if (bootstrap->ops->health(bootstrap, &lost) != PERSEUS_PEER_LOST || lost != victim) {
        return fail("name of the lost PE");
    }
    return LOST_AS_EXPECTED;
}

/* stay DIRECTORY default|ignore|handle [VICTIM CODE]: signs, then stays until it is ended. With
 * handle it notes the signal that ended it as DIRECTORY/signal. */
static int mode_stay(struct prs_bootstrap *bootstrap, char **arguments)
{
    sigset_t signals;
    int got = 0;
    sigemptyset(&signals);
    if (strcmp(arguments[1], "ignore") == 0) {
        signal(SIGTERM, SIG_IGN);
        signal(SIGINT, SIG_IGN);
    } else if (strcmp(arguments[1], "handle") == 0) {
        sigfillset(&signals);
        sigprocmask(SIG_BLOCK, &signals, NULL);
    }
    sign(arguments[0], bootstrap->rank);
    if (gather(bootstrap, 1, 8) != AS_EXPECTED) { /* now all have signed */
        return NOT_AS_EXPECTED;
    }
    if (arguments[2] != NULL && bootstrap->rank == number(arguments, 2)) {
        _exit(number(arguments, 3));
    }
    sigwait(&signals, &got);
    if (bootstrap->rank == 0) {
        note(arguments[0], "signal", got);
    }
    return AS_EXPECTED;
}

/* nested: two more, one after the other, while the first is open, as when MPI has PMIx open. Each
 * gathers other data, so that a value left from an earlier one would show. */
static int mode_nested(struct prs_bootstrap *bootstrap, char **arguments)
{
    (void)arguments;
    int result = gather(bootstrap, 2, 100);
    for (int round = 50; round < 54; round += 2) {
        struct perseus_attr attr = {0};
        struct prs_bootstrap *inner = NULL;
        if (prs_bootstrap_open(&attr, &stderr_log, &inner) != PERSEUS_OK) {
            return fail("opening again");
        }
        if (job_gather(inner, round, 100) != PERSEUS_OK ||
            job_gather(bootstrap, round + 1, 100) != PERSEUS_OK) {
            result = fail("gather while two are open");
        }
        inner->ops->close(inner);
    }
    return result;
}

/* miss RANK: that rank does not gather */
static int mode_miss(struct prs_bootstrap *bootstrap, char **arguments)
{
    if (bootstrap->rank == number(arguments, 0)) {
        for (;;) {
            pause();
        }
    }
    return job_gather(bootstrap, 0, 8) == PERSEUS_TIMEOUT ? LOST_AS_EXPECTED : fail("timeout");
}

static const struct {
    const char *name;
    int (*run)(struct prs_bootstrap *bootstrap, char **arguments);
} modes[] = {
    {"gather", mode_gather}, {"lose", mode_lose}, {"stay", mode_stay},
    {"nested", mode_nested}, {"miss", mode_miss},
};

int main(int argc, char **argv)
{
    struct perseus_attr attr = {0};
    struct prs_bootstrap *bootstrap = NULL;
    if (argc < 2 || prs_bootstrap_open(&attr, &stderr_log, &bootstrap) != PERSEUS_OK) {
        return fail("open");
    }
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(argv[1], modes[i].name) == 0) {
            int result = modes[i].run(bootstrap, argv + 2);
            bootstrap->ops->close(bootstrap);
            return result;
        }
    }
    return fail("mode");
}
