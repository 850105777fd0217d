/* SPDX-License-Identifier: Apache-2.0 */
#include "kit/stats_math.h"

#include <math.h>
#include <stdlib.h>

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double interpolated(const double *sorted, size_t n, double share)
{
    double position = share * (double)(n - 1);
    size_t below = (size_t)position;
    size_t above = below + 1 < n ? below + 1 : below;
    return sorted[below] + (position - (double)below) * (sorted[above] - sorted[below]);
}

struct prs_percentiles prs_percentiles_of(double *samples, size_t n)
{
    qsort(samples, n, sizeof *samples, compare_doubles);
    return (struct prs_percentiles){
        .p10 = interpolated(samples, n, 0.1),
        .median = interpolated(samples, n, 0.5),
        .p90 = interpolated(samples, n, 0.9),
    };
}

bool prs_fit_line(const double *x, const double *y, size_t n, struct prs_fit *out)
{
    double mean_x = 0, mean_y = 0;
    for (size_t i = 0; i < n; i++) {
        mean_x += x[i] / (double)n;
        mean_y += y[i] / (double)n;
    }
    double xx = 0, xy = 0, yy = 0;
    for (size_t i = 0; i < n; i++) {
        double dx = x[i] - mean_x, dy = y[i] - mean_y;
        xx += dx * dx;
        xy += dx * dy;
        yy += dy * dy;
    }
    if (xx == 0) {
        return false;
    }
    out->beta = xy / xx;
    out->alpha = mean_y - out->beta * mean_x;
    out->r2 = yy == 0 ? 1 : xy * xy / (xx * yy);
    return true;
}
