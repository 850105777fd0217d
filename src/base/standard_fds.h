/* SPDX-License-Identifier: Apache-2.0 */
/*
 * standard_fds.h: nothing of ours becomes standard input, output or error.
 *
 * A program may run without the descriptors 0 to 2. The next socket would have such a number, be it
 * ours or one of a library that we call, and what the program prints would go to a peer. While they
 * are held, stand-ins have the numbers that are free: of which reading and writing fail as before,
 * which a program that is executed does not get, and over which the program may dup2 its own.
 *
 * Process-wide, as descriptors are: one count behind a mutex.
 */
#ifndef PRS_BASE_STANDARD_FDS_H
#define PRS_BASE_STANDARD_FDS_H

void prs_standard_fds_hold(void);
void prs_standard_fds_release(void); /* once for each hold */

#endif
