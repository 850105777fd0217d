/* SPDX-License-Identifier: Apache-2.0 */
/* command.h: the command `perseus moe`, for main.c. */
#ifndef PRS_TOOLS_MOE_COMMAND_H
#define PRS_TOOLS_MOE_COMMAND_H

/* As all commands: argv[0] is the command's own name, options follow; returns an enum prs_exit. */
int prs_tool_moe(int argc, char **argv);

#endif
