/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own_fd.h: sockets whose being open says that this process lives. A child that the program forks
 * has copies of them, and would keep them open when this process has died; so in the child they
 * turn into /dev/null: the numbers stay taken, and what the child sends there reaches nobody.
 *
 * Process-wide, as fork is: one list behind a mutex, and one handler of pthread_atfork.
 */
#ifndef PRS_BASE_OWN_FD_H
#define PRS_BASE_OWN_FD_H

#include <stdbool.h>

/* False, with nothing changed: no memory. */
bool prs_own_fd_add(int fd);
/* Closes the socket, and ends it for whoever is at the other end, also while a child has a copy of
 * it that the handler did not reach (clone without fork's handlers, or fork before it was added).
 * One that was not added is allowed. */
void prs_own_fd_end(int fd);

#endif
