/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard.h: a process that outlives its launcher by a moment, to leave nothing behind: when the
 * launcher ends however it ends (kill -9), the guard kills the process groups that it was told of.
 * The kernel's own way (PR_SET_PDEATHSIG) reaches a PE but not what the PE has started.
 */
#ifndef PRS_TOOLS_GUARD_H
#define PRS_TOOLS_GUARD_H

#include <sys/types.h>

/* Starts it for at most `groups` groups. Returns the descriptor to tell it through (close-on-exec),
 * -1 if it could not be started. Closing it, with groups left, kills those. */
int prs_guard_start(int groups);
/* The group is there, or is gone; -1 as descriptor is allowed. */
void prs_guard_add(int fd, pid_t group);
void prs_guard_remove(int fd, pid_t group);

#endif
