/* SPDX-License-Identifier: Apache-2.0 */
/*
 * progress.h: one line on a terminal that says how far long work is.
 *
 * Silent unless stderr is a terminal, and during the first two seconds. It starts no thread: it
 * draws when told of a step, at most ten times a second.
 */
#ifndef PRS_TOOLS_PROGRESS_H
#define PRS_TOOLS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct prs_progress {
    uint64_t total, done;
    uint64_t start_ns, drawn_ns;
    bool is_terminal, is_drawn;
};

void prs_progress_init(struct prs_progress *progress, uint64_t total);
/* One more unit of work is done; `what` is what comes now. */
void prs_progress_step(struct prs_progress *progress, const char *what);
/* Removes the line. */
void prs_progress_finish(struct prs_progress *progress);

#endif
