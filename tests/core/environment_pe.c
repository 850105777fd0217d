/* SPDX-License-Identifier: Apache-2.0 */
/* A PE whose program reads its environment all the time: Perseus, and what it calls, leave that alone. Started
 * by several launchers, as each has a bootstrap, and so a library, of its own. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
enum { VARIABLES = 1 << 15, READERS = 2 };

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

int main(void)
{
    grow_environment();
    char **array = environ;
    char **copy = malloc((VARIABLES + 2) * sizeof *copy);
    CHECK(copy != NULL);
    memcpy(copy, environ, (VARIABLES + 2) * sizeof *copy);

    pthread_t readers[READERS];
    for (int i = 0; i < READERS; i++) {
        CHECK(pthread_create(&readers[i], NULL, read_environment, NULL) == 0);
    }
    struct perseus_pe *pe = NULL;
    CHECK(perseus_init(&pe) == PERSEUS_OK);
    CHECK(perseus_n_pes(pe) == 2);
    CHECK(perseus_barrier_all(pe) == PERSEUS_OK);
    CHECK(environ == array);
    CHECK(memcmp(copy, environ, (VARIABLES + 2) * sizeof *copy) == 0);
    CHECK(perseus_finalize(pe) == PERSEUS_OK);
    atomic_store(&stop, true);
    for (int i = 0; i < READERS; i++) {
        pthread_join(readers[i], NULL);
    }
    CHECK(environ == array);
    CHECK(memcmp(copy, environ, (VARIABLES + 2) * sizeof *copy) == 0);
    free(copy);
    return 0;
}
