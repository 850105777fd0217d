/* SPDX-License-Identifier: Apache-2.0 */
/* compare.c: perseus sim --compare: every published number beside the simulated one. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "job.h"
#include "kit/exit.h"
#include "kit/json_out.h"
#include "kit/progress.h"
#include "kit/table.h"
#include "sim/published.h"

enum perseus_status prs_sim_job_lab(const struct prs_sim_job *job, struct sim_lab **out)
{
    struct sim_platform platforms[SIM_LAB_PLATFORMS];
    for (int i = 0; i < SIM_LAB_PLATFORMS; i++) {
        const char *preset = sim_lab_preset((enum sim_lab_platform)i);
        enum perseus_status status = sim_platform_load(preset, &job->log, &platforms[i]);
        if (status != PERSEUS_OK) {
            return status;
        }
        if (strcmp(preset, job->platform.name) == 0) {
            platforms[i] = job->platform;
        }
    }
    return sim_lab_create(platforms, job->seed, &job->log, out);
}

static const char *source_of(const struct sim_published *row)
{
    return row->is_secondary ? "secondary" : "paper";
}

static void add_row(struct prs_table *table, json_t *rows, const struct sim_published *row,
                    double simulated)
{
    static const char *const signs[] = {"", "<= ", ">= "};
    double error = sim_published_error(row, simulated);
    bool ok = sim_published_ok(row, simulated);
    prs_table_cell(table, "%s", row->id);
    prs_table_cell(table, "%s", source_of(row));
    prs_table_cell(table, "%s%.4g", signs[row->kind], row->value);
    prs_table_cell(table, "%.4g", simulated);
    prs_table_cell(table, "%s", row->unit);
    prs_table_cell(table, "%+.0f%%", 100 * error);
    prs_table_cell(table, "%s", ok ? "yes" : "NO");
    prs_table_cell(table, "%s", row->what);
    json_t *object = json_object();
    json_object_set_new(object, "id", json_string(row->id));
    json_object_set_new(object, "source", json_string(source_of(row)));
    json_object_set_new(object, "published", prs_json_number(row->value));
    json_object_set_new(object, "simulated", prs_json_number(simulated));
    json_object_set_new(object, "unit", json_string(row->unit));
    json_object_set_new(object, "error", prs_json_number(error));
    json_object_set_new(object, "ok", json_boolean(ok));
    json_array_append_new(rows, object);
}

static struct prs_table *create_table(void)
{
    static const struct prs_table_column columns[] = {
        {"number", PRS_ALIGN_LEFT},     {"source", PRS_ALIGN_LEFT}, {"published", PRS_ALIGN_RIGHT},
        {"simulated", PRS_ALIGN_RIGHT}, {"unit", PRS_ALIGN_LEFT},   {"error", PRS_ALIGN_RIGHT},
        {"ok", PRS_ALIGN_LEFT},         {"what", PRS_ALIGN_LEFT}};
    return prs_table_create(columns, sizeof columns / sizeof columns[0]);
}

static bool print_all(struct sim_lab *lab, json_t *document)
{
    struct prs_progress progress;
    struct prs_table *table = create_table();
    json_t *rows = json_array();
    uint32_t count[2] = {0, 0}, good[2] = {0, 0};
    prs_progress_init(&progress, sim_published_count);
    for (uint32_t i = 0; i < sim_published_count; i++) {
        const struct sim_published *row = &sim_published[i];
        prs_progress_step(&progress, row->id);
        double simulated = row->simulate(lab);
        add_row(table, rows, row, simulated);
        count[row->is_secondary]++;
        good[row->is_secondary] += sim_published_ok(row, simulated);
    }
    prs_progress_finish(&progress);
    json_object_set_new(document, "rows", rows);
    bool printed = prs_table_print(table, stdout);
    prs_table_destroy(table);
    printf("\n%u of %u numbers of the paper within %.0f%% (bounds: held), %u of %u second-hand "
           "ones within %.0f%%; %.1f million operations simulated.\n"
           "Each platform has one set of parameters; docs/simulator.md says how far to trust it.\n",
           good[0], count[0], 100 * SIM_TOLERANCE, good[1], count[1], 100 * SIM_TOLERANCE_SECONDARY,
           (double)sim_lab_operations(lab) * 1e-6);
    return printed && sim_lab_status(lab) == PERSEUS_OK;
}

int prs_sim_compare(struct prs_sim_job *job)
{
    struct sim_lab *lab;
    if (prs_sim_job_lab(job, &lab) != PERSEUS_OK) {
        return PRS_EXIT_FAILED;
    }
    json_t *document = prs_json_begin("sim --compare", job->seed);
    bool ok = print_all(lab, document);
    ok = prs_json_write(document, &job->json) && ok;
    sim_lab_destroy(lab);
    return ok ? PRS_EXIT_OK : PRS_EXIT_FAILED;
}
