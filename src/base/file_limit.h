/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_limit.h: a file that would grow beyond the limit (ulimit -f) is an error, EFBIG, and not the
 * signal SIGXFSZ, which ends the process.
 *
 * The kernel sends it to the thread that asked. So the thread blocks it for as long as it makes
 * files, and takes what came: the program's handlers and other threads see nothing of it.
 */
#ifndef PRS_BASE_FILE_LIMIT_H
#define PRS_BASE_FILE_LIMIT_H

#include <signal.h>
#include <stdbool.h>

struct prs_file_limit {
    sigset_t mask; /* the thread's, before */
    bool was_pending;
};

/* errno stays as it is. */
void prs_file_limit_begin(struct prs_file_limit *out);
/* The same thread. True: something met the limit since. */
bool prs_file_limit_end(const struct prs_file_limit *limit);

#endif
