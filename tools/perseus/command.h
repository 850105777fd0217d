/* SPDX-License-Identifier: Apache-2.0 */
/* command.h: the commands that are one file beside main.c; those of a folder have a header
 * there. */
#ifndef PRS_TOOLS_COMMAND_H
#define PRS_TOOLS_COMMAND_H

#include "base/export.h"

/* As all commands: argv[0] is the command's own name, options follow; returns an enum prs_exit, or
 * the exit code of the program that `run` started. */
PRS_PUBLIC int prs_tool_info(int argc, char **argv);
PRS_PUBLIC int prs_tool_run(int argc, char **argv);
PRS_PUBLIC int prs_tool_unique_id(int argc, char **argv);

#endif
