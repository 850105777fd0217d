/* SPDX-License-Identifier: Apache-2.0 */
/* bench/alltoall.h: the parts of `perseus bench alltoall`: bench/alltoall.c asks and measures,
 * bench/alltoall_report.c prints and writes. */
#ifndef PRS_TOOLS_BENCH_ALLTOALL_H
#define PRS_TOOLS_BENCH_ALLTOALL_H

#include "bench/comparison.h"

struct prs_alltoall {
    struct prs_comparison shared; /* first: prs_comparison_kind gets it */
    struct prs_list tokens;       /* per PE; one cell each */
    uint32_t experts, top_k, hidden;
    uint32_t *routed; /* tokens, by cell, sender and expert */
};

/* Tokens that `sender` routes to `expert`, and the PE that has the expert. */
uint32_t prs_alltoall_routed(const struct prs_alltoall *self, uint32_t cell, uint32_t sender,
                             uint32_t expert);
uint32_t prs_alltoall_home(const struct prs_alltoall *self, uint32_t expert);
/* What one PE sends to other nodes in a cell, on average. */
double prs_alltoall_bytes(const struct prs_alltoall *self, uint32_t cell);

/* For prs_comparison_kind; alltoall_report.c. */
bool prs_alltoall_print(const struct prs_comparison *shared);
void prs_alltoall_describe(const struct prs_comparison *shared, json_t *document);
json_t *prs_alltoall_cell_json(const struct prs_comparison *shared, uint32_t cell);

#endif
