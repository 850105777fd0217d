/* SPDX-License-Identifier: Apache-2.0 */
/* bootstrap/warnings.h: warnings that strangers can cause: so many in a window, the rest is counted
 * and told in one line. */
#ifndef PRS_BOOTSTRAP_WARNINGS_H
#define PRS_BOOTSTRAP_WARNINGS_H

#include <stdint.h>

#include "base/log.h"

struct prs_warnings {
    const struct prs_log *log;
    uint64_t window_end_ns;
    int n_said;
    uint64_t n_silent;
};

/* A connection from `name` was dropped. */
void prs_warnings_dropped(struct prs_warnings *warnings, uint64_t now_ns, const char *name,
                          const char *why);
/* Tells what was only counted. */
void prs_warnings_finish(struct prs_warnings *warnings);

#endif
