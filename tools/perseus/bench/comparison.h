/* SPDX-License-Identifier: Apache-2.0 */
/*
 * comparison.h: a benchmark that compares protocols under ordering modes: what put-signal and
 * alltoall share, from the command line to the exit code.
 *
 * A kind lays out cells, and says what they are; the options about PEs, protocols and modes, the
 * probe of the fabric, the turns, the --json file and the verdict are the same for all.
 */
#ifndef PRS_TOOLS_BENCH_COMPARISON_H
#define PRS_TOOLS_BENCH_COMPARISON_H

#include "bench/results.h"
#include "bench/setup.h"

struct prs_comparison {
    struct prs_bench_setup setup;
    struct prs_bench_workload workload; /* from lay_out */
    struct prs_bench_modes modes;
    struct prs_bench_results *results;
};

/* The functions get the comparison that is the first member of the kind's own struct. */
struct prs_comparison_kind {
    const char *name;    /* "bench put-signal" */
    const char *summary; /* of its --help */
    const struct prs_option *options;
    size_t n_options; /* its own; those of prs_bench_setup_options follow */
    /* NULL, or what is wrong with the options seen together. */
    const char *(*check)(struct prs_comparison *comparison);
    /* Fills the workload; false after a message. */
    bool (*lay_out)(struct prs_comparison *comparison);
    bool (*is_left_out)(const struct prs_comparison *comparison, uint32_t cell);
    /* Tables and closing sentences, on standard output; false when memory ran out. */
    bool (*print)(const struct prs_comparison *comparison);
    /* What the --json file says beyond rows and counters. */
    void (*describe)(const struct prs_comparison *comparison, json_t *document);
    /* The beginning of every row of a cell: what the cell is. */
    json_t *(*cell_json)(const struct prs_comparison *comparison, uint32_t cell);
};

/* Reads options, measures, tells; returns an enum prs_exit. The comparison's setup holds the kind's
 * defaults; the caller frees what lay_out made. */
int prs_comparison_run(const struct prs_comparison_kind *kind, struct prs_comparison *comparison,
                       int argc, char **argv);

/* prs_bench_results_summary of this comparison, against its reference mode. */
struct prs_bench_summary prs_comparison_summary(const struct prs_comparison *comparison,
                                                uint32_t cell, uint32_t mode,
                                                enum prs_bench_protocol protocol);
/* "fabric tcp, provider ..., 8 nodes x 1 PE": where a comparison ran. */
void prs_comparison_print_place(const struct prs_comparison *comparison);

#endif
