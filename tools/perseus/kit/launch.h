/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch.h: PEs as forked children of the calling process, joined by the local bootstrap.
 *
 * The caller has one thread and has opened no fabric: its children inherit its memory and only the
 * descriptors that the local bootstrap names in the environment (plus those the caller opened).
 * When the caller dies, its children are killed.
 */
#ifndef PRS_TOOLS_LAUNCH_H
#define PRS_TOOLS_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"

struct prs_launch {
    int size; /* number of PEs */
    /* Runs in the child of `rank`, whose environment names rank, size and bootstrap; what it
     * returns is the child's exit code. It may exec: the bootstrap descriptor survives that. */
    int (*pe_main)(int rank, void *context);
    void *context;
    /* What the others get to end by themselves once a PE failed; then SIGTERM, the same time
     * again, and SIGKILL. */
    uint32_t grace_ms;
    /* 0: none. Then all PEs are ended as above, and the exit code is PRS_LAUNCH_TIMEOUT. */
    uint32_t timeout_ms;
    /* For programs that are not ours: every PE leads a process group, of which nothing is left
     * behind, and signals that ask this process to end are passed on to the groups. */
    bool owns_groups;
};
enum { PRS_LAUNCH_TIMEOUT = 124 }; /* as timeout(1) has it */

/* Serves the bootstrap until every child has ended. Returns 0, or the exit code of the first PE
 * that failed (128 + signal number if one killed it), after a message that names the PE. */
int prs_launch(const struct prs_launch *launch, const struct prs_log *log);

#endif
