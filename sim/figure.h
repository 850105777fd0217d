/* SPDX-License-Identifier: Apache-2.0 */
/* figure.h: the paper's figures as lines of points, those published among them. */
#ifndef SIM_FIGURE_H
#define SIM_FIGURE_H

#include "sim/published.h"

#define SIM_SERIES_MAX 12
#define SIM_POINTS_MAX 12

struct sim_series {
    char name[SIM_NAME_MAX];
    bool is_published;
    uint32_t n;
    double x[SIM_POINTS_MAX], y[SIM_POINTS_MAX];
};

struct sim_figure {
    const char *id, *title, *x_label, *y_label;
    bool x_log, y_log;
    uint32_t n;
    struct sim_series series[SIM_SERIES_MAX];
};

/* The index-th figure's name, NULL past the last. */
const char *sim_figure_name(uint32_t index);
/* Runs all its points. NOT_FOUND: there is no such figure; else the first failure of a run. */
enum perseus_status sim_figure_make(struct sim_lab *lab, const char *id, struct sim_figure *out);

#endif
