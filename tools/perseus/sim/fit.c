/* SPDX-License-Identifier: Apache-2.0 */
/* fit.c: perseus sim --fit: one set of parameters for a platform, from all its published numbers at
 * once, and how well it does on those it was not fitted to. */
#include "sim/fit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "job.h"
#include "kit/exit.h"
#include "kit/json_out.h"
#include "kit/progress.h"
#include "sim/published.h"

static const struct sim_fit_field slingshot_fields[] = {
    {"fabric.step_ns", 50, 1000},       {"fabric.put_ns", 20, 1000},
    {"fabric.ask_ns", 500, 6000},       {"fabric.ack_ns", 200, 3000},
    {"fabric.store_gbit_s", 100, 1000}, {"gpu.tflop_s", 40, 200},
    {"gpu.tile_ns", 200, 5000},         {"gpu.start_ns", 5000, 500000},
    {"gpu.apart_ns", 50000, 2000000},
};
static const struct sim_fit_field ibrc_fields[] = {{"fabric.ask_ns", 10, 3000}};
static const struct sim_fit_field ibgda_fields[] = {{"fabric.post_ns", 20, 3000}};

/* What a preset says is its base and what was fitted. */
static const struct {
    const char *about, *base;
    const struct sim_fit_field *fields;
    uint32_t n;
} searches[SIM_LAB_PLATFORMS] = {
    {"Perlmutter: 4 A100 a node, a 200 Gbit/s Cassini NIC for each, libfabric (cxi).",
     "slingshot11-a100-base", slingshot_fields,
     sizeof slingshot_fields / sizeof slingshot_fields[0]},
    {"H100 cloud: 8 a node, a 400 Gbit/s ConnectX-7 for each, IBRC, 4 queue pairs for each PE.",
     "cx7-h100-ibrc-base", ibrc_fields, sizeof ibrc_fields / sizeof ibrc_fields[0]},
    {"As cx7-h100-ibrc-4qp, without a proxy: CTAs write work requests and ring doorbells "
     "themselves.",
     "cx7-h100-ibgda-base", ibgda_fields, sizeof ibgda_fields / sizeof ibgda_fields[0]},
};

struct search {
    const struct prs_sim_job *job;
    struct sim_lab *lab;
    enum sim_lab_platform which;
    struct prs_progress progress;
};

/* "5,7": whether the row is of one of these figures; NULL: of any. */
static bool is_fitted(const char *figures, const struct sim_published *row)
{
    if (row->is_long || figures == NULL) {
        return !row->is_long;
    }
    for (const char *at = figures; *at != '\0';) {
        size_t length = strcspn(at, ",");
        if (strncmp(row->id, "fig", 3) == 0 && strncmp(row->id + 3, at, length) == 0 &&
            strchr(".abc", row->id[3 + length]) != NULL) {
            return true;
        }
        at += length + (at[length] == ',');
    }
    return false;
}

/* Fourth powers of errors in units of what is allowed, so that no number is given up for many
 * others; but flat beyond twice that, so that none which cannot be met costs the others theirs. */
static double loss(const struct sim_published *row, double simulated)
{
    double allowed = row->is_secondary ? SIM_TOLERANCE_SECONDARY : SIM_TOLERANCE;
    double off = log(simulated / row->value) / log(1 - allowed);
    if (row->kind != SIM_VALUE && sim_published_error(row, simulated) == 0) {
        return 0;
    }
    if (row->kind != SIM_VALUE) {
        off = 1 + fabs(off); /* a bound that is missed, by however little, is missed */
    }
    double power = off * off * off * off;
    return (row->is_secondary ? 0.25 : 1) * power / (1 + power / 16);
}

static double misfit(void *context, const struct sim_platform *platform)
{
    struct search *search = context;
    double sum = 0;
    sim_lab_set_platform(search->lab, search->which, platform);
    for (uint32_t i = 0; i < sim_published_count; i++) {
        const struct sim_published *row = &sim_published[i];
        if (row->platform != search->which || !is_fitted(search->job->fit_on, row)) {
            continue;
        }
        sum += loss(row, row->simulate(search->lab));
    }
    prs_progress_step(&search->progress, platform->name);
    return sum;
}

/* The preset's file. */
static void print_platform(FILE *to, const struct search *search,
                           const struct sim_platform *platform)
{
    static const char *const groups[] = {"fabric", "gpu"};
    fprintf(to, "# SPDX-License-Identifier: Apache-2.0\n# %s\n", searches[search->which].about);
    fprintf(to, "# Printed by perseus sim --fit --scenario %s --rounds %u.\nbased_on = \"%s\";\n",
            sim_lab_preset(search->which), search->job->rounds, searches[search->which].base);
    for (int g = 0; g < 2; g++) {
        size_t length = strlen(groups[g]);
        const char *before = " = {\n";
        for (uint32_t i = 0; i < searches[search->which].n; i++) {
            const char *name = searches[search->which].fields[i].name;
            double value = 0;
            if (strncmp(name, groups[g], length) == 0 &&
                sim_platform_get(platform, name, &value) == PERSEUS_OK) {
                fprintf(to, "%s%s    %s = %.2f;\n", *before == ' ' ? groups[g] : "", before,
                        name + length + 1, value);
                before = "";
            }
        }
        fprintf(to, *before == '\0' ? "};\n" : "");
    }
}

/* "fig5a.coupled_efficiency" is of "fig5", the all-to-all and the rest of themselves. */
static size_t figure_length(const char *id)
{
    size_t figure = strspn(id, "fig0123456789");
    return figure > 3 ? figure : strcspn(id, ".");
}

/* Root mean squares of the figures' errors, in the order of the rows. */
static void report_figures(const struct search *search, const double *errors)
{
    for (uint32_t i = 0; i < sim_published_count;) {
        const char *id = sim_published[i].id;
        size_t length = figure_length(id);
        double squares = 0;
        uint32_t n = 0, fitted = 0;
        for (; i < sim_published_count && strncmp(sim_published[i].id, id, length) == 0 &&
               figure_length(sim_published[i].id) == length;
             i++) {
            if (sim_published[i].platform == search->which) {
                squares += errors[i] * errors[i];
                n++;
                fitted += is_fitted(search->job->fit_on, &sim_published[i]);
            }
        }
        if (n > 0) {
            printf("%-10.*s root mean square error %3.0f%% over %2u numbers, %u fitted\n",
                   (int)length, id, 100 * sqrt(squares / n), n, fitted);
        }
    }
}

static void report(struct search *search, json_t *rows)
{
    double errors[SIM_PUBLISHED_MAX] = {0};
    for (uint32_t i = 0; i < sim_published_count; i++) {
        const struct sim_published *row = &sim_published[i];
        if (row->platform != search->which) {
            continue;
        }
        double simulated = row->simulate(search->lab);
        double error = errors[i] = sim_published_error(row, simulated);
        bool fitted = is_fitted(search->job->fit_on, row);
        printf("  %-34s %-9s %-8s published %-8.4g simulated %-8.4g %+4.0f%% %s\n", row->id,
               row->is_secondary ? "secondary" : "paper", fitted ? "fitted" : "held out",
               row->value, simulated, 100 * error, sim_published_ok(row, simulated) ? "" : "NO");
        json_t *object = json_object();
        json_object_set_new(object, "id", json_string(row->id));
        json_object_set_new(object, "fitted", json_boolean(fitted));
        json_object_set_new(object, "published", prs_json_number(row->value));
        json_object_set_new(object, "simulated", prs_json_number(simulated));
        json_object_set_new(object, "error", prs_json_number(error));
        json_object_set_new(object, "ok", json_boolean(sim_published_ok(row, simulated)));
        json_array_append_new(rows, object);
    }
    report_figures(search, errors);
}

static bool fit_platform(struct search *search, json_t *rows, FILE *to)
{
    struct sim_platform platform;
    if (sim_platform_load(searches[search->which].base, &search->job->log, &platform) !=
        PERSEUS_OK) {
        return false;
    }
    struct sim_fit fit = {.platform = &platform,
                          .fields = searches[search->which].fields,
                          .n_fields = searches[search->which].n,
                          .rounds = search->job->rounds,
                          .misfit = misfit,
                          .context = search};
    prs_progress_init(&search->progress, fit.rounds);
    /* InfiniBand's published peak may be anywhere, and is quickly found. */
    sim_lab_set_quick(search->lab, search->which == SIM_LAB_SLINGSHOT);
    enum perseus_status status = sim_fit_run(&fit, &search->job->log);
    prs_progress_finish(&search->progress);
    if (status != PERSEUS_OK) {
        return false;
    }
    sim_lab_set_quick(search->lab, false);
    sim_lab_set_platform(search->lab, search->which, &platform);
    print_platform(stdout, search, &platform);
    printf("\n%u rounds, misfit %.3f\n", fit.rounds_taken, fit.best);
    if (to != NULL) {
        print_platform(to, search, &platform);
    }
    report(search, rows);
    return sim_lab_status(search->lab) == PERSEUS_OK;
}

int prs_sim_fit(struct prs_sim_job *job)
{
    struct search search = {.job = job, .which = SIM_LAB_PLATFORMS};
    for (int i = 0; i < SIM_LAB_PLATFORMS; i++) {
        if (strcmp(sim_lab_preset((enum sim_lab_platform)i), job->platform.name) == 0) {
            search.which = (enum sim_lab_platform)i;
        }
    }
    if (search.which == SIM_LAB_PLATFORMS) {
        fprintf(stderr,
                "perseus sim: the paper has numbers for %s, %s and %s; choose one with "
                "--scenario, or fit your own fabric with --calibrate\n",
                sim_lab_preset(0), sim_lab_preset(1), sim_lab_preset(2));
        return PRS_EXIT_USAGE;
    }
    if (prs_sim_job_lab(job, &search.lab) != PERSEUS_OK) {
        return PRS_EXIT_FAILED;
    }
    json_t *document = prs_json_begin("sim --fit", job->seed), *rows = json_array();
    FILE *to = job->write.path != NULL ? prs_output_open(&job->write) : NULL;
    bool ok = (job->write.path == NULL || to != NULL) && fit_platform(&search, rows, to);
    ok = (to == NULL || prs_output_close(&job->write, to)) && ok;
    json_object_set_new(document, "rows", rows);
    ok = prs_json_write(document, &job->json) && ok;
    sim_lab_destroy(search.lab);
    return ok ? PRS_EXIT_OK : PRS_EXIT_FAILED;
}
