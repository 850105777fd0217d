/* SPDX-License-Identifier: Apache-2.0 */
/* bench/alltoall.h: the parts of `perseus bench alltoall`: bench/alltoall.c asks and measures,
 * bench/alltoall_report.c prints and writes. */
#ifndef PRS_TOOLS_BENCH_ALLTOALL_H
#define PRS_TOOLS_BENCH_ALLTOALL_H

#include "bench/results.h"

struct prs_alltoall {
    struct prs_bench_setup setup;
    struct prs_list tokens; /* per PE; one cell each */
    uint32_t experts, top_k, hidden;
    uint32_t *routed; /* tokens, by cell, sender and expert */
    struct prs_bench_workload workload;
    struct prs_bench_modes modes;
    struct prs_bench_results *results;
};

/* Tokens that `sender` routes to `expert`, and the PE that has the expert. */
uint32_t prs_alltoall_routed(const struct prs_alltoall *bench, uint32_t cell, uint32_t sender,
                             uint32_t expert);
uint32_t prs_alltoall_home(const struct prs_alltoall *bench, uint32_t expert);
/* What one PE sends to other nodes in a cell, on average. */
double prs_alltoall_bytes(const struct prs_alltoall *bench, uint32_t cell);

/* The table and the closing sentences, on standard output. */
bool prs_alltoall_print(const struct prs_alltoall *bench);
/* The --json file, if one was asked for. */
bool prs_alltoall_write(const struct prs_alltoall *bench);

#endif
