/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/libfabric/provider/handlers.h"

#include <pthread.h>

/* Of the process, as the handlers are: a thread must not keep what a provider has just replaced
 * under another thread's eyes. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void prs_lf_handlers_keep(struct prs_lf_handlers *out)
{
    pthread_mutex_lock(&lock);
    for (int number = 1; number < _NSIG; number++) {
        out->is_known[number] = sigaction(number, NULL, &out->action[number]) == 0;
    }
}

void prs_lf_handlers_give_back(const struct prs_lf_handlers *kept)
{
    for (int number = 1; number < _NSIG; number++) {
        struct sigaction now;
        const struct sigaction *then = &kept->action[number];
        if (kept->is_known[number] && sigaction(number, NULL, &now) == 0 &&
            (now.sa_flags != then->sa_flags || now.sa_handler != then->sa_handler)) {
            sigaction(number, then, NULL);
        }
    }
    pthread_mutex_unlock(&lock);
}
