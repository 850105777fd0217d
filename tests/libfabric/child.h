/* SPDX-License-Identifier: Apache-2.0 */
/* child.h: a side in a forked process, served by its own poll loop. */
#ifndef PRS_TESTS_LIBFABRIC_CHILD_H
#define PRS_TESTS_LIBFABRIC_CHILD_H

#include <sys/types.h>

#include "libfabric/side.h"

struct child {
    pid_t pid; /* 0 once it has been waited for */
    int fd;
};

/* What the child does after each poll; `events` are what the poll gave. Returns whether it goes on:
 * a child that ends by itself closes its side and exits with 0. NULL: serves until told to stop. */
typedef bool (*child_step)(struct side *side, void *user, const struct prs_event *events,
                           uint32_t n);

/* Forks; the child opens a side on `memory` (side_shared_memory). Call it before this process opens
 * its own side. */
void child_start(struct child *child, const char *provider, bool want_atomics, void *memory,
                 size_t bytes, child_step step, void *user);
/* Exchanges cards with it; child_meet also meets it. */
void child_swap_cards(struct child *child, struct side *side, struct side_card *out);
void child_meet(struct child *child, struct side *side);
/* Stops it if it still serves, and fails the test unless it exits with 0 within ten seconds. */
void child_finish(struct child *child);
/* Kills it and, unless `leave_zombie`, waits for it. */
void child_kill(struct child *child, bool leave_zombie);
/* Waits for a killed child. */
void child_reap(struct child *child);

#endif
