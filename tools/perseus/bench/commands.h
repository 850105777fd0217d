/* SPDX-License-Identifier: Apache-2.0 */
/* commands.h: the commands of `perseus bench`, which main.c finds in a module. */
#ifndef PRS_TOOLS_BENCH_COMMANDS_H
#define PRS_TOOLS_BENCH_COMMANDS_H

#include "base/export.h"

/* As all commands: argv[0] is the command's own name ("put-signal"), options follow; returns an
 * enum prs_exit. */
PRS_PUBLIC int prs_tool_bench_put_signal(int argc, char **argv);
PRS_PUBLIC int prs_tool_bench_alltoall(int argc, char **argv);
PRS_PUBLIC int prs_tool_bench_ring(int argc, char **argv);

#endif
