/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/pmix_start.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What PMIx reads, and where it puts it. */
static const char mode_name[] = "PMIX_SECURITY_MODE", psec_name[] = "PMIX_MCA_psec";

/* An environment with one variable more. Never freed: whoever began to read it, or got the variable
 * from it, may still do so. */
struct copy {
    struct copy *next;
    char psec[128];
    char *variables[];
};

/* Of the process, as its environment is. */
static struct {
    pthread_mutex_t mutex;
    struct copy *copies;
} state = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static struct copy *copy_with_psec(char **environment, const char *mode)
{
    size_t n = 0;
    while (environment[n] != NULL) {
        n++;
    }
    struct copy *copy = malloc(sizeof *copy + (n + 2) * sizeof *copy->variables);
    if (copy == NULL) {
        return NULL;
    }
    snprintf(copy->psec, sizeof copy->psec, "%s=%s", psec_name, mode);
    memcpy(copy->variables, environment, n * sizeof *copy->variables);
    copy->variables[n] = copy->psec;
    copy->variables[n + 1] = NULL;
    copy->next = state.copies;
    state.copies = copy;
    return copy;
}

pmix_status_t prs_pmix_start(pmix_proc_t *out_self)
{
    pthread_mutex_lock(&state.mutex);
    char **before = environ;
    const char *mode = getenv(mode_name);
    struct copy *copy =
        mode != NULL && getenv(psec_name) == NULL ? copy_with_psec(before, mode) : NULL;
    if (copy != NULL) {
        /* Release: a reader that takes this pointer finds the array behind it. Readers depend on
         * the pointer, so theirs is getenv's plain load. */
        __atomic_store_n(&environ, copy->variables, __ATOMIC_RELEASE);
    }
    pmix_status_t result = PMIx_Init(out_self, NULL, 0);
    if (copy != NULL && environ == copy->variables) { /* else somebody has set one meanwhile */
        __atomic_store_n(&environ, before, __ATOMIC_RELEASE); /* as above */
    }
    pthread_mutex_unlock(&state.mutex);
    return result;
}
