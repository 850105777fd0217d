/* SPDX-License-Identifier: Apache-2.0 */
/* exit.h: what every command returns to the shell. */
#ifndef PRS_TOOLS_EXIT_H
#define PRS_TOOLS_EXIT_H

enum prs_exit { PRS_EXIT_OK = 0, PRS_EXIT_FAILED = 1, PRS_EXIT_USAGE = 2 };

#endif
