/* SPDX-License-Identifier: Apache-2.0 */
/* commands.h: the benchmarks with kernels as producers, which main.c finds in a module: `--device
 * cuda`. */
#ifndef PRS_TOOLS_DEVICE_COMMANDS_H
#define PRS_TOOLS_DEVICE_COMMANDS_H

#include "base/export.h"

/* As all commands: argv[0] is the command's own name ("put-signal"), options follow; returns an
 * enum prs_exit. */
PRS_PUBLIC int prs_tool_bench_put_signal_cuda(int argc, char **argv);
PRS_PUBLIC int prs_tool_bench_ring_cuda(int argc, char **argv);

#endif
