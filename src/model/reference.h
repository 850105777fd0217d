/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reference.h: the layer as one process computes it, in float, expert by expert, with no tiles, no
 * wire and no threads of its own. Every run of the layer is checked against it. It shares nothing
 * with what it checks but the plain f32 product, and is itself checked against loops
 * (tests/moe/expert_test.c).
 */
#ifndef PRS_MODEL_REFERENCE_H
#define PRS_MODEL_REFERENCE_H

#include <perseus/moe.h>

#include "base/log.h"

struct prs_reference {
    const struct perseus_moe_config *config;
    uint32_t n_pes;
    uint32_t tokens_per_pe; /* capacity counts within each PE's tokens, which follow one another */
    const float *x;         /* [n_pes * tokens_per_pe, hidden] */
    const int32_t *ids;     /* [n_pes * tokens_per_pe, top_k] */
    const float *weights;   /* the same */
};

/* How many rows each PE gets through to each expert: counts[pe * experts + expert], and how many
 * are dropped in all. */
void prs_reference_counts(const struct prs_reference *reference, uint32_t *counts,
                          uint64_t *out_dropped);
/* y = [n_pes * tokens_per_pe, hidden]. `block` holds the weights (weights.h); may be NULL with
 * communication_only. `progress` (may be NULL) is called with experts done. */
enum perseus_status prs_reference_run(const struct prs_reference *reference, const void *block,
                                      void (*progress)(void *context, uint32_t done), void *context,
                                      const struct prs_log *log, float *y);

/* ||y - expected|| / ||expected|| (Frobenius); the sums of squares are given apart, so that several
 * PEs can add theirs up. */
void prs_reference_compare(const float *y, const float *expected, size_t count,
                           double *out_difference, double *out_expected);

#endif
