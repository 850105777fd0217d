/* SPDX-License-Identifier: Apache-2.0 */
/* bench/setup.h: what the communication benchmarks can be asked for, and the ordering modes that a
 * run has. */
#ifndef PRS_TOOLS_BENCH_SETUP_H
#define PRS_TOOLS_BENCH_SETUP_H

#include "bench/sender.h"
#include "kit/options.h"
#include "kit/output.h"
#include "kit/probe.h"

struct prs_bench_setup {
    struct prs_output json;
    const char *fabric, *provider, *link, *qps; /* NULL: not asked for */
    uint64_t seed;
    uint32_t nodes, pes_per_node; /* nodes 0: as many as needed */
    uint32_t repeat;              /* turns of every mode */
    uint32_t group_size, ctas;
    uint32_t timeout_ms;
    bool protocols[PRS_BENCH_PROTOCOL_COUNT];
    bool orderings[PERSEUS_ORDERING_COUNT]; /* AUTO: the one that auto picks */
    bool has_stats;                         /* the counters are printed too */
    bool has_vector, has_plain;             /* decoupled signals: as a vector, one by one */
};

#define PRS_BENCH_SETUP_OPTIONS 16
void prs_bench_setup_init(struct prs_bench_setup *setup);
/* The rows of the option table that fill *setup. */
void prs_bench_setup_options(struct prs_bench_setup *setup, struct prs_option *out);

struct prs_bench_mode {
    enum perseus_ordering ordering;
    bool is_kept; /* by the fabric; if not, it is never run */
    char why[PRS_PROBE_WHY_BYTES];
};

struct prs_bench_modes {
    char fabric[32], provider[64];
    uint32_t lanes; /* to each peer */
    uint32_t n;
    struct prs_bench_mode mode[PERSEUS_ORDERING_COUNT];
    uint32_t reference; /* whose put-only is the ceiling: what auto picks, if it is among them */
};

/* Probes the fabric. False after a message. */
bool prs_bench_modes_find(struct prs_bench_setup *setup, struct prs_bench_modes *out);

/* The mode to compare with: drain, if it is kept, else the reference. */
uint32_t prs_bench_baseline(const struct prs_bench_modes *modes);
/* A line for every mode that is not run, with the reason. */
void prs_bench_print_not_kept(const struct prs_bench_modes *modes);

/* Whether `protocol` is measured. The two ceilings always are. */
bool prs_bench_has_protocol(const struct prs_bench_setup *setup, enum prs_bench_protocol protocol);

#endif
