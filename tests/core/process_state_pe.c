/* SPDX-License-Identifier: Apache-2.0 */
/* A PE whose program has its process as it wants it, and reads its environment all the time:
 * Perseus, and what it calls, leave that alone. Started by several launchers, as each has a
 * bootstrap, and so a library, of its own. */
#include <limits.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <perseus/perseus.h>

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

/* So many that the array is a mapping of its own: who reads it when it has been freed crashes. */
enum { VARIABLES = 1 << 15, READERS = 2, SIGRTMIN_OF_KERNEL = 32 };

static atomic_bool stop;

static void *read_environment(void *context)
{
    (void)context;
    while (!atomic_load(&stop)) {
        CHECK(getenv("NOT_THERE") == NULL);
    }
    return NULL;
}

/* The environment on the C library's heap, as in a program that has called setenv before. */
static void grow_environment(void)
{
    static char variable[] = "FILLS_THE_ENVIRONMENT=";
    static char *filled[VARIABLES + 1];
    int n = 0;
    for (; environ[n] != NULL && n < VARIABLES; n++) {
        filled[n] = environ[n];
    }
    for (; n < VARIABLES; n++) {
        filled[n] = variable;
    }
    environ = filled;
    CHECK(setenv("OF_THE_PROGRAM", "1", 1) == 0 && environ != filled);
}

/* What there is one of in a process. */
struct state {
    char **array, *variables[VARIABLES + 2];
    struct sigaction actions[SIGRTMIN_OF_KERNEL];
    sigset_t blocked;
    struct rlimit limits[RLIMIT_NLIMITS];
    mode_t mask;
    char folder[PATH_MAX], locale[256];
};

static void handler(int number)
{
    (void)number;
}

static bool may_be_handled(int number)
{
    return number != SIGKILL && number != SIGSTOP;
}

static void take_every_signal(void)
{
    const struct sigaction ours = {.sa_handler = handler, .sa_flags = SA_RESTART};
    for (int number = 1; number < SIGRTMIN_OF_KERNEL; number++) {
        CHECK(!may_be_handled(number) || sigaction(number, &ours, NULL) == 0);
    }
}

static void look(struct state *out)
{
    memset(out, 0, sizeof *out);
    out->array = environ;
    memcpy(out->variables, environ, sizeof out->variables);
    for (int number = 1; number < SIGRTMIN_OF_KERNEL; number++) {
        CHECK(!may_be_handled(number) || sigaction(number, NULL, &out->actions[number]) == 0);
    }
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &out->blocked) == 0);
    for (int i = 0; i < RLIMIT_NLIMITS; i++) {
        CHECK(getrlimit((__rlimit_resource_t)i, &out->limits[i]) == 0);
    }
    out->mask = umask(0);
    umask(out->mask);
    CHECK(getcwd(out->folder, sizeof out->folder) != NULL);
    snprintf(out->locale, sizeof out->locale, "%s", setlocale(LC_ALL, NULL));
}

static void compare(const struct state *before)
{
    static struct state now;
    look(&now);
    CHECK(now.array == before->array);
    CHECK(memcmp(now.variables, before->variables, sizeof now.variables) == 0);
    for (int number = 1; number < SIGRTMIN_OF_KERNEL; number++) {
        CHECK(now.actions[number].sa_handler == before->actions[number].sa_handler);
        CHECK(now.actions[number].sa_flags == before->actions[number].sa_flags);
    }
    CHECK(memcmp(&now.blocked, &before->blocked, sizeof now.blocked) == 0);
    CHECK(memcmp(now.limits, before->limits, sizeof now.limits) == 0);
    CHECK(now.mask == before->mask);
    CHECK(strcmp(now.folder, before->folder) == 0 && strcmp(now.locale, before->locale) == 0);
}

int main(void)
{
    static struct state before;
    grow_environment();
    take_every_signal();
    umask(027);
    look(&before);
    pthread_t readers[READERS];
    for (int i = 0; i < READERS; i++) {
        CHECK(pthread_create(&readers[i], NULL, read_environment, NULL) == 0);
    }
    struct perseus_pe *pe = NULL;
    CHECK(perseus_init(&pe) == PERSEUS_OK);
    CHECK(perseus_n_pes(pe) == 2);
    CHECK(perseus_barrier_all(pe) == PERSEUS_OK);
    compare(&before);
    CHECK(perseus_finalize(pe) == PERSEUS_OK);
    atomic_store(&stop, true);
    for (int i = 0; i < READERS; i++) {
        pthread_join(readers[i], NULL);
    }
    compare(&before);
    return 0;
}
