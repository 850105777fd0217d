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
    {"fabric.tail_ns", 500, 8000},      {"fabric.tail_exponent", 0.6, 1.2},
    {"fabric.post_ns", 40, 200},        {"fabric.put_ns", 50, 800},
    {"fabric.ack_ns", 300, 2000},       {"fabric.store_gbit_s", 150, 800},
    {"fabric.receive_gbit_s", 90, 200}, {"gpu.tflop_s", 60, 200},
    {"gpu.tile_ns", 200, 5000},         {"gpu.start_ns", 5000, 500000},
};
static const struct sim_fit_field ibrc_fields[] = {
    {"fabric.tail_ns", 20, 5000}, {"fabric.completion_ns", 100, 3000}, {"gpu.tflop_s", 150, 600}};
static const struct sim_fit_field ibgda_fields[] = {{"fabric.post_ns", 20, 3000}};

static const struct {
    const struct sim_fit_field *fields;
    uint32_t n;
} searches[SIM_LAB_PLATFORMS] = {
    {slingshot_fields, sizeof slingshot_fields / sizeof slingshot_fields[0]},
    {ibrc_fields, sizeof ibrc_fields / sizeof ibrc_fields[0]},
    {ibgda_fields, sizeof ibgda_fields / sizeof ibgda_fields[0]},
};

struct search {
    const struct prs_sim_job *job;
    struct sim_lab *lab;
    enum sim_lab_platform which;
    struct prs_progress progress;
};

/* "5,7": whether the row is of one of these figures; NULL: every row is. */
static bool is_fitted(const char *figures, const struct sim_published *row)
{
    if (figures == NULL) {
        return true;
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

static void print_platform(FILE *to, const struct sim_platform *platform,
                           const struct sim_fit_field *fields, uint32_t n)
{
    static const char *const groups[] = {"fabric", "gpu"};
    fprintf(to, "# Found by perseus sim --fit.\nbased_on = \"%s\";\n", platform->name);
    for (int g = 0; g < 2; g++) {
        fprintf(to, "%s = {", groups[g]);
        for (uint32_t i = 0; i < n; i++) {
            size_t length = strlen(groups[g]);
            double value = 0;
            if (strncmp(fields[i].name, groups[g], length) == 0 &&
                sim_platform_get(platform, fields[i].name, &value) == PERSEUS_OK) {
                fprintf(to, " %s = %#.4g;", fields[i].name + length + 1, value);
            }
        }
        fprintf(to, " };\n");
    }
}

static void report(struct search *search, json_t *rows)
{
    double squares[2] = {0, 0};
    uint32_t count[2] = {0, 0};
    for (uint32_t i = 0; i < sim_published_count; i++) {
        const struct sim_published *row = &sim_published[i];
        if (row->platform != search->which) {
            continue;
        }
        double simulated = row->simulate(search->lab);
        double error = sim_published_error(row, simulated);
        bool fitted = is_fitted(search->job->fit_on, row);
        printf("  %-34s %-9s %-8s published %-8.4g simulated %-8.4g %+4.0f%% %s\n", row->id,
               row->is_secondary ? "secondary" : "paper", fitted ? "fitted" : "held out",
               row->value, simulated, 100 * error, sim_published_ok(row, simulated) ? "" : "NO");
        squares[fitted] += error * error;
        count[fitted]++;
        json_t *object = json_object();
        json_object_set_new(object, "id", json_string(row->id));
        json_object_set_new(object, "fitted", json_boolean(fitted));
        json_object_set_new(object, "published", prs_json_number(row->value));
        json_object_set_new(object, "simulated", prs_json_number(simulated));
        json_object_set_new(object, "error", prs_json_number(error));
        json_object_set_new(object, "ok", json_boolean(sim_published_ok(row, simulated)));
        json_array_append_new(rows, object);
    }
    for (int fitted = 1; fitted >= 0; fitted--) {
        if (count[fitted] > 0) {
            printf("%s: root mean square error %.0f%% over %u numbers\n",
                   fitted ? "fitted" : "held out", 100 * sqrt(squares[fitted] / count[fitted]),
                   count[fitted]);
        }
    }
}

static bool fit_platform(struct search *search, json_t *rows, FILE *to)
{
    struct sim_platform platform = *sim_lab_get_platform(search->lab, search->which);
    struct sim_fit fit = {.platform = &platform,
                          .fields = searches[search->which].fields,
                          .n_fields = searches[search->which].n,
                          .rounds = search->job->rounds,
                          .misfit = misfit,
                          .context = search};
    prs_progress_init(&search->progress, fit.rounds);
    sim_lab_set_quick(search->lab, true);
    enum perseus_status status = sim_fit_run(&fit, &search->job->log);
    prs_progress_finish(&search->progress);
    if (status != PERSEUS_OK) {
        return false;
    }
    sim_lab_set_quick(search->lab, false);
    sim_lab_set_platform(search->lab, search->which, &platform);
    print_platform(stdout, &platform, fit.fields, fit.n_fields);
    printf("# %u rounds, misfit %.3f\n", fit.rounds_taken, fit.best);
    if (to != NULL) {
        print_platform(to, &platform, fit.fields, fit.n_fields);
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
