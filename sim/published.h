/* SPDX-License-Identifier: Apache-2.0 */
/* published.h: the numbers of the paper (arXiv 2605.00686), each with the set-up that gives it
 * here. Where the paper leaves a condition open, the comment at the set-up says what was taken. */
#ifndef SIM_PUBLISHED_H
#define SIM_PUBLISHED_H

#include "sim/lab.h"

enum sim_published_kind { SIM_VALUE, SIM_AT_MOST, SIM_AT_LEAST };

struct sim_published {
    const char *id, *what, *unit;
    double value;
    enum sim_published_kind kind;
    bool is_secondary;              /* second hand, less certain */
    enum sim_lab_platform platform; /* whose parameters it depends on */
    double (*simulate)(struct sim_lab *lab);
    bool is_long; /* the longest sequences tell it, too long for every round of a fit */
};

#define SIM_PUBLISHED_MAX 64
extern const struct sim_published sim_published[]; /* at most so many */
extern const uint32_t sim_published_count;

#define SIM_TOLERANCE           0.20
#define SIM_TOLERANCE_SECONDARY 0.35

/* (simulated - published) / published; of a bound that holds 0, else how far it is missed. */
double sim_published_error(const struct sim_published *row, double simulated);
bool sim_published_ok(const struct sim_published *row, double simulated);

/* Tokens of a PE in Figure 7, which says so, and in Figure 1, which does not: of 256 to 64K, the
 * ones at which its three models' slowdowns fit the fence times of Figure 5. */
#define SIM_FIGURE_7_TOKENS 1024
#define SIM_FIGURE_1_TOKENS 4096

/* The all-to-all of Triton-distributed, as far as its source says it: blocks of four warps, tokens
 * of 7168 values to 8 experts each. Bytes to one PE of 4 nodes, for 8 to 512 tokens. */
#define SIM_ALLTOALL_THREADS 128
extern const uint64_t sim_alltoall_bytes[];
extern const uint32_t sim_alltoall_count;
double sim_alltoall_ms(struct sim_lab *lab, uint64_t bytes, bool by_nic);

#endif
