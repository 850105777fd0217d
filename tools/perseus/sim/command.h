/* SPDX-License-Identifier: Apache-2.0 */
/* command.h: the command `perseus sim`, for main.c. */
#ifndef PRS_TOOLS_SIM_COMMAND_H
#define PRS_TOOLS_SIM_COMMAND_H

#include "base/export.h"

/* As all commands: argv[0] is the command's own name, options follow; returns an enum prs_exit. */
PRS_PUBLIC int prs_tool_sim(int argc, char **argv);

#endif
