/* SPDX-License-Identifier: Apache-2.0 */
/* stats_math.h: the arithmetic of the benchmarks; pure. */
#ifndef PRS_TOOLS_STATS_MATH_H
#define PRS_TOOLS_STATS_MATH_H

#include <stdbool.h>
#include <stddef.h>

struct prs_percentiles {
    double p10, median, p90;
};

/* Sorts samples in place. Percentiles between two samples are interpolated; n >= 1. */
struct prs_percentiles prs_percentiles_of(double *samples, size_t n);

/* time = alpha + beta * bytes */
struct prs_fit {
    double alpha, beta;
    double r2; /* share of the variance that the line explains, 0 to 1 */
};

/* Least squares. False when the points do not determine a line (fewer than two distinct x). */
bool prs_fit_line(const double *x, const double *y, size_t n, struct prs_fit *out);

#endif
