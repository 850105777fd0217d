/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file_limit.h"

#include <errno.h>
#include <time.h>

static sigset_t the_signal(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    return set;
}

static bool is_pending(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
}

void prs_file_limit_begin(struct prs_file_limit *out)
{
    const sigset_t set = the_signal();
    pthread_sigmask(SIG_BLOCK, &set, &out->mask);
    out->was_pending = is_pending();
}

bool prs_file_limit_end(const struct prs_file_limit *limit)
{
    const int error = errno;
    const sigset_t set = the_signal();
    const struct timespec now = {0};
    bool has_come = !limit->was_pending && is_pending();
    if (has_come) {
        sigtimedwait(&set, NULL, &now);
    }
    pthread_sigmask(SIG_SETMASK, &limit->mask, NULL);
    errno = error;
    return has_come;
}
