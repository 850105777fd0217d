/* SPDX-License-Identifier: Apache-2.0 */
/* fit.h: one parameter set of a platform, fitted to all that is known of it at once. */
#ifndef SIM_FIT_H
#define SIM_FIT_H

#include "sim/platform.h"

struct sim_fit_field {
    const char *name;
    double low, high; /* searched on a logarithmic scale, from the middle on */
};

struct sim_fit {
    struct sim_platform *platform; /* its other fields stay; afterwards the best found */
    const struct sim_fit_field *fields;
    uint32_t n_fields, rounds;
    /* What is to be small, of a platform; NaN counts as far away. */
    double (*misfit)(void *context, const struct sim_platform *platform);
    void *context;
    double best;           /* the misfit of *platform, afterwards */
    uint32_t rounds_taken; /* misfits asked for */
};

enum perseus_status sim_fit_run(struct sim_fit *fit, const struct prs_log *messages);

#endif
