/* SPDX-License-Identifier: Apache-2.0 */
/* command.h: the sub-commands of the program, one entry point each; main.c lists them. */
#ifndef PRS_TOOLS_COMMAND_H
#define PRS_TOOLS_COMMAND_H

/* What every command returns to the shell. */
enum prs_exit { PRS_EXIT_OK = 0, PRS_EXIT_FAILED = 1, PRS_EXIT_USAGE = 2 };

/* argv[0] is the command's own name ("put-signal"); options follow. Returns an enum prs_exit, or
 * the exit code of the program that `run` started. */
int prs_tool_info(int argc, char **argv);
int prs_tool_run(int argc, char **argv);
int prs_tool_unique_id(int argc, char **argv);
int prs_tool_moe(int argc, char **argv);
int prs_tool_nvshmem_env(int argc, char **argv);
int prs_tool_nvshmem_install(int argc, char **argv);
int prs_tool_nvshmem_profile(int argc, char **argv);
int prs_tool_bench_put_signal(int argc, char **argv);
int prs_tool_bench_alltoall(int argc, char **argv);
int prs_tool_bench_ring(int argc, char **argv);

#endif
