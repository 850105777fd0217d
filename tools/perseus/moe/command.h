/* SPDX-License-Identifier: Apache-2.0 */
/* command.h: the command `perseus moe`, which main.c finds in a module. */
#ifndef PRS_TOOLS_MOE_COMMAND_H
#define PRS_TOOLS_MOE_COMMAND_H

#include "base/export.h"

/* As all commands: argv[0] is the command's own name, options follow; returns an enum prs_exit. */
PRS_PUBLIC int prs_tool_moe(int argc, char **argv);

#endif
