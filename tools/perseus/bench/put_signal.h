/* SPDX-License-Identifier: Apache-2.0 */
/* bench/put_signal.h: the parts of `perseus bench put-signal`: bench/put_signal.c asks and
 * measures, bench/put_signal_table.c prints. */
#ifndef PRS_TOOLS_BENCH_PUT_SIGNAL_H
#define PRS_TOOLS_BENCH_PUT_SIGNAL_H

#include "bench/comparison.h"

struct prs_put_signal_cell {
    uint32_t transfers, peers;
    uint64_t bytes;
};

struct prs_put_signal {
    struct prs_comparison shared; /* first: prs_comparison_kind gets it */
    struct prs_list transfers, bytes, peers;
    bool do_all;                       /* every PE sends, not only PE 0 */
    bool has_details;                  /* every cell gets its table */
    uint64_t round_bytes_max;          /* cells of which a PE sends more are left out */
    struct prs_put_signal_cell *cells; /* by peers, then bytes, then transfers */
    uint32_t n_cells;
};

/* Cells of which a PE would send more than round_bytes_max. */
bool prs_put_signal_is_left_out(const struct prs_comparison *shared, uint32_t cell);

/* The tables and the closing sentences, on standard output. */
bool prs_put_signal_print(const struct prs_comparison *shared);

#endif
