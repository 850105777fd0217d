/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/fit.h"

#include <math.h>

#include <nlopt.h>

#define FIELDS_MAX 24
#define FAR_AWAY   1e6
#define STEP       0.3 /* of logarithms */

/* Three digits: what is found is what a preset says. */
static double rounded(double value)
{
    double unit = pow(10, floor(log10(value)) - 2);
    return round(value / unit) * unit;
}

static struct sim_platform platform_at(const struct sim_fit *fit, const double *x)
{
    struct sim_platform platform = *fit->platform;
    for (uint32_t i = 0; i < fit->n_fields; i++) {
        (void)sim_platform_set(&platform, fit->fields[i].name, rounded(exp(x[i])), NULL);
    }
    return platform;
}

static double objective(unsigned n, const double *x, double *gradient, void *context)
{
    struct sim_fit *fit = context;
    (void)n;
    (void)gradient; /* the method asks for none */
    struct sim_platform platform = platform_at(fit, x);
    double misfit = fit->misfit(fit->context, &platform);
    fit->rounds_taken++;
    return isfinite(misfit) ? misfit : FAR_AWAY;
}

/* Subplex: no gradients, and at home with valleys of a simulated, slightly rough surface. */
enum perseus_status sim_fit_run(struct sim_fit *fit, const struct prs_log *messages)
{
    double x[FIELDS_MAX], low[FIELDS_MAX], high[FIELDS_MAX], best;
    if (fit->n_fields > FIELDS_MAX) {
        return prs_fail(messages, PERSEUS_LIMIT, "a fit has at most %d fields", FIELDS_MAX);
    }
    for (uint32_t i = 0; i < fit->n_fields; i++) {
        double value = 0;
        enum perseus_status status = sim_platform_get(fit->platform, fit->fields[i].name, &value);
        if (status != PERSEUS_OK) {
            return prs_fail(messages, status, "there is no field %s to fit", fit->fields[i].name);
        }
        low[i] = log(fit->fields[i].low);
        high[i] = log(fit->fields[i].high);
        x[i] = (low[i] + high[i]) / 2;
    }
    nlopt_opt method = nlopt_create(NLOPT_LN_SBPLX, fit->n_fields);
    if (method == NULL) {
        return prs_fail(messages, PERSEUS_OUT_OF_MEMORY, "no memory for a fit");
    }
    nlopt_set_lower_bounds(method, low);
    nlopt_set_upper_bounds(method, high);
    nlopt_set_initial_step1(method, STEP);
    nlopt_set_min_objective(method, objective, fit);
    nlopt_set_maxeval(method, (int)fit->rounds);
    nlopt_set_xtol_rel(method, 1e-3);
    nlopt_result result = nlopt_optimize(method, x, &best);
    nlopt_destroy(method);
    if (result < 0 && result != NLOPT_ROUNDOFF_LIMITED) {
        return prs_fail(messages, PERSEUS_IO, "the fit failed (NLopt result %d)", (int)result);
    }
    *fit->platform = platform_at(fit, x);
    fit->best = best;
    return PERSEUS_OK;
}
