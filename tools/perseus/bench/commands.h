/* SPDX-License-Identifier: Apache-2.0 */
/* commands.h: the commands of `perseus bench`, for main.c. */
#ifndef PRS_TOOLS_BENCH_COMMANDS_H
#define PRS_TOOLS_BENCH_COMMANDS_H

/* As all commands: argv[0] is the command's own name ("put-signal"), options follow; returns an enum
 * prs_exit. */
int prs_tool_bench_put_signal(int argc, char **argv);
int prs_tool_bench_alltoall(int argc, char **argv);
int prs_tool_bench_ring(int argc, char **argv);

#endif
