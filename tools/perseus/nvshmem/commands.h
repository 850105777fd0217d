/* SPDX-License-Identifier: Apache-2.0 */
/* commands.h: the commands about NVSHMEM, for main.c. */
#ifndef PRS_TOOLS_NVSHMEM_COMMANDS_H
#define PRS_TOOLS_NVSHMEM_COMMANDS_H

/* As all commands: argv[0] is the command's own name, options follow; returns an enum prs_exit, or
 * the exit code of the program that was profiled. */
int prs_tool_nvshmem_env(int argc, char **argv);
int prs_tool_nvshmem_install(int argc, char **argv);
int prs_tool_nvshmem_profile(int argc, char **argv);

#endif
