/* SPDX-License-Identifier: Apache-2.0 */
/* check.c: perseus sim --check: schedules that are legal and hostile, on every mode. */
#include "sim/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "job.h"
#include "kit/exit.h"
#include "kit/json_out.h"
#include "kit/progress.h"
#include "kit/table.h"

static const char *const kinds[SIM_CHECK_KINDS] = {"put_signal", "puts, fence, signals",
                                                   "puts, fence, vector", "fence, counter"};

/* What is left of a schedule that fails, smallest first found. */
static void show(struct sim_check *check, const char *why)
{
    printf("%s, seed %llu: %s\n", perseus_ordering_name(check->ordering),
           (unsigned long long)check->seed, why);
    uint32_t left = sim_check_shrink(check);
    printf("It still fails with %u steps: %s\n", left, check->why);
    for (uint32_t pe = 0; pe < SIM_CHECK_PES; pe++) {
        for (uint32_t i = 0; i < SIM_CHECK_STEPS; i++) {
            const struct sim_check_step *step = &check->steps[pe][i];
            if (!step->is_left_out) {
                printf("  PE %u step %-2u to PE %u: %s%s, %u members, next after %u ns, leader "
                       "preempted for %u ns\n",
                       pe, i, step->target, kinds[step->kind], step->adds ? " (ADD)" : "",
                       step->members, step->delay_ns, step->preempted_ns);
            }
        }
    }
}

/* ---- mode by protocol ---- */

/* How many signals and counters of each protocol were looked at, under one mode. */
struct row {
    uint64_t seen[SIM_CHECK_KINDS];
};

static const char *const protocols[SIM_CHECK_KINDS] = {"put_signal", "group", "vector", "counter"};

static uint32_t lanes_of(const struct sim_check *check)
{
    return check->lanes > 0 ? check->lanes : 1;
}

/* Returns in how many cells nothing was looked at. */
static uint32_t add_matrix(const struct row *matrix, json_t *rows, struct prs_table *table)
{
    uint32_t empty = 0;
    for (uint32_t i = 0; i < sim_check_cases_count; i++) {
        const struct sim_check *check = &sim_check_cases[i];
        const char *ordering = perseus_ordering_name(check->ordering);
        prs_table_cell(table, "%s", ordering);
        prs_table_cell(table, "%u", lanes_of(check));
        prs_table_cell(table, "%s%s", check->ordered ? "order " : "", check->fence ? "flag " : "");
        prs_table_cell(table, "%u", check->immediate_bits);
        for (int kind = 0; kind < SIM_CHECK_KINDS; kind++) {
            empty += matrix[i].seen[kind] == 0;
            prs_table_cell(table, "%llu", (unsigned long long)matrix[i].seen[kind]);
            json_array_append_new(rows,
                                  json_pack("{s:s, s:i, s:b, s:b, s:i, s:s, s:I}", "ordering",
                                            ordering, "lanes", (int)lanes_of(check), "ordered",
                                            check->ordered, "fence", check->fence, "immediate_bits",
                                            (int)check->immediate_bits, "protocol", protocols[kind],
                                            "seen", (json_int_t)matrix[i].seen[kind]));
        }
    }
    return empty;
}

static uint32_t show_matrix(const struct row *matrix, json_t *document)
{
    static const struct prs_table_column columns[] = {
        {"ordering", PRS_ALIGN_LEFT},    {"lanes", PRS_ALIGN_RIGHT},
        {"granted", PRS_ALIGN_LEFT},     {"immediate bits", PRS_ALIGN_RIGHT},
        {"put_signal", PRS_ALIGN_RIGHT}, {"group", PRS_ALIGN_RIGHT},
        {"vector", PRS_ALIGN_RIGHT},     {"counter", PRS_ALIGN_RIGHT}};
    struct prs_table *table = prs_table_create(columns, sizeof columns / sizeof columns[0]);
    json_t *rows = json_array();
    uint32_t empty = add_matrix(matrix, rows, table);
    json_object_set_new(document, "rows", rows);
    (void)prs_table_print(table, stdout);
    prs_table_destroy(table);
    return empty;
}

/* One case at one seed; what was seen is added to its row. */
static const char *run_one(struct sim_check *check, const struct prs_sim_job *job, uint32_t n,
                           struct row *row)
{
    *check = sim_check_cases[n % sim_check_cases_count];
    check->seed = job->seed + n / sim_check_cases_count;
    check->log = &job->log;
    sim_check_plan(check);
    const char *why = sim_check_run(check);
    for (int kind = 0; kind < SIM_CHECK_KINDS; kind++) {
        row->seen[kind] += check->seen[kind];
    }
    return why;
}

int prs_sim_check(struct prs_sim_job *job)
{
    struct prs_progress progress;
    struct sim_check check;
    const char *why = NULL;
    uint64_t operations = 0;
    struct row *matrix = calloc(sim_check_cases_count, sizeof *matrix);
    if (matrix == NULL) {
        fprintf(stderr, "perseus sim: no memory\n");
        return PRS_EXIT_FAILED;
    }
    prs_progress_init(&progress, job->schedules);
    for (uint32_t n = 0; n < job->schedules && why == NULL; n++) {
        uint32_t i = n % sim_check_cases_count;
        prs_progress_step(&progress, perseus_ordering_name(sim_check_cases[i].ordering));
        why = run_one(&check, job, n, &matrix[i]);
        operations += check.operations;
    }
    prs_progress_finish(&progress);
    if (why != NULL) {
        show(&check, why);
    }
    json_t *document = prs_json_begin("sim --check", job->seed);
    json_object_set_new(document, "schedules", json_integer(job->schedules));
    json_object_set_new(document, "operations", json_integer((json_int_t)operations));
    json_object_set_new(document, "failures", json_integer(why != NULL));
    uint32_t empty = show_matrix(matrix, document);
    free(matrix);
    bool ok = prs_json_write(document, &job->json);
    if (why == NULL) {
        printf("\n%u schedules of %u PEs, %llu operations: every promise kept, in every %s.\n",
               job->schedules, SIM_CHECK_PES, (unsigned long long)operations,
               empty == 0 ? "mode" : "row above that is not 0");
    }
    return ok && why == NULL ? PRS_EXIT_OK : PRS_EXIT_FAILED;
}
