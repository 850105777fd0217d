/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/comparison.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/drive.h"
#include "kit/exit.h"
#include "kit/json_out.h"

struct prs_bench_summary prs_comparison_summary(const struct prs_comparison *comparison,
                                                uint32_t cell, uint32_t mode,
                                                enum prs_bench_protocol protocol)
{
    return prs_bench_results_summary(comparison->results, cell, mode, protocol,
                                     comparison->modes.reference);
}

void prs_comparison_print_place(const struct prs_comparison *comparison)
{
    const struct prs_bench_setup *setup = &comparison->setup;
    printf("fabric %s, provider %s", comparison->modes.fabric, comparison->modes.provider);
    if (comparison->modes.lanes > 1) {
        printf(", %u lanes to each PE", comparison->modes.lanes);
    }
    printf("%s%s, %u nodes x %u PE%s", setup->link != NULL ? ", link " : "",
           setup->link != NULL ? setup->link : "", setup->nodes, setup->pes_per_node,
           setup->pes_per_node == 1 ? "" : "s");
}

/* ---- options ---- */

/* Whether to go on; else *out_exit is set. */
static bool read_options(const struct prs_comparison_kind *kind, struct prs_comparison *comparison,
                         int argc, char **argv, int *out_exit)
{
    char name[64];
    size_t n_options = kind->n_options + PRS_BENCH_SETUP_OPTIONS;
    struct prs_option *options = calloc(n_options, sizeof *options);
    if (options == NULL) {
        fprintf(stderr, "perseus: out of memory\n");
        *out_exit = PRS_EXIT_FAILED;
        return false;
    }
    memcpy(options, kind->options, kind->n_options * sizeof *options);
    prs_bench_setup_options(&comparison->setup, options + kind->n_options);
    snprintf(name, sizeof name, "perseus %s", kind->name);
    const struct prs_command command = {
        .name = name,
        .summary = kind->summary,
        .options = options,
        .n_options = n_options,
    };
    bool goes_on = prs_command_parse(&command, argc, argv, NULL, out_exit);
    const char *mistake = goes_on ? kind->check(comparison) : NULL;
    if (mistake != NULL) {
        *out_exit = prs_command_mistake(&command, "%s", mistake);
    }
    free(options);
    return goes_on && mistake == NULL;
}

/* ---- the file ---- */

static json_t *rows_json(const struct prs_comparison_kind *kind,
                         const struct prs_comparison *comparison, uint32_t cell)
{
    json_t *rows = json_array();
    for (int p = 0; p < PRS_BENCH_PROTOCOL_COUNT; p++) {
        enum prs_bench_protocol protocol = (enum prs_bench_protocol)p;
        for (uint32_t mode = 0; mode < comparison->modes.n; mode++) {
            if (!prs_bench_has_protocol(&comparison->setup, protocol)) {
                continue;
            }
            json_t *row = kind->cell_json(comparison, cell);
            struct prs_bench_summary summary =
                prs_comparison_summary(comparison, cell, mode, protocol);
            prs_bench_summary_json(&summary, &comparison->modes.mode[mode], protocol, row);
            json_array_append_new(rows, row);
        }
    }
    return rows;
}

static bool write_json(const struct prs_comparison_kind *kind,
                       const struct prs_comparison *comparison)
{
    if (comparison->setup.json.path == NULL) {
        return true;
    }
    json_t *document = prs_json_begin(kind->name, comparison->setup.seed), *rows = json_array();
    prs_bench_job_json(&comparison->setup, &comparison->modes, document);
    for (uint32_t cell = 0; cell < comparison->workload.n_cells; cell++) {
        if (!kind->is_left_out(comparison, cell)) {
            json_t *of_cell = rows_json(kind, comparison, cell);
            json_array_extend(rows, of_cell);
            json_decref(of_cell);
        }
    }
    kind->describe(comparison, document);
    json_object_set_new(document, "rows", rows);
    json_object_set_new(document, "counters",
                        prs_bench_counters_json(comparison->results, &comparison->modes));
    return prs_json_write(document, &comparison->setup.json);
}

/* ---- the run ---- */

static bool run(const struct prs_comparison_kind *kind, struct prs_comparison *comparison)
{
    if (!prs_output_check(&comparison->setup.json, 1) ||
        !prs_bench_modes_find(&comparison->setup, &comparison->modes) ||
        !kind->lay_out(comparison)) {
        return false;
    }
    comparison->results =
        prs_bench_drive(&comparison->setup, &comparison->modes, &comparison->workload);
    if (comparison->results == NULL) {
        return false;
    }
    bool is_told = kind->print(comparison) &&
                   (!comparison->setup.has_stats ||
                    prs_bench_print_counters(comparison->results, &comparison->modes));
    return write_json(kind, comparison) && is_told && prs_bench_is_right(comparison->results);
}

int prs_comparison_run(const struct prs_comparison_kind *kind, struct prs_comparison *comparison,
                       int argc, char **argv)
{
    int exit_code = PRS_EXIT_OK;
    if (read_options(kind, comparison, argc, argv, &exit_code)) {
        exit_code = run(kind, comparison) ? PRS_EXIT_OK : PRS_EXIT_FAILED;
    }
    prs_bench_results_destroy(comparison->results);
    comparison->results = NULL;
    return exit_code;
}
