/* SPDX-License-Identifier: Apache-2.0 */
/* figure.c: perseus sim --figure: a figure of the paper as a table, JSON, CSV, and drawn by
 * gnuplot. */
#include "sim/figure.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "job.h"
#include "kit/exit.h"
#include "kit/json_out.h"
#include "kit/table.h"

static const char *source_of(const struct sim_series *series)
{
    return series->is_published ? "published" : "simulated";
}

static bool print_table(const struct sim_figure *figure)
{
    const struct prs_table_column columns[] = {{"line", PRS_ALIGN_LEFT},
                                               {"source", PRS_ALIGN_LEFT},
                                               {figure->x_label, PRS_ALIGN_RIGHT},
                                               {figure->y_label, PRS_ALIGN_RIGHT}};
    struct prs_table *table = prs_table_create(columns, sizeof columns / sizeof columns[0]);
    for (uint32_t s = 0; s < figure->n; s++) {
        const struct sim_series *series = &figure->series[s];
        for (uint32_t i = 0; i < series->n; i++) {
            prs_table_cell(table, "%s", series->name);
            prs_table_cell(table, "%s", source_of(series));
            prs_table_cell(table, "%.0f", series->x[i]);
            prs_table_cell(table, "%.4g", series->y[i]);
        }
    }
    printf("Figure %s: %s\n", figure->id, figure->title);
    bool printed = prs_table_print(table, stdout);
    prs_table_destroy(table);
    return printed;
}

static void add_rows(const struct sim_figure *figure, json_t *document)
{
    json_t *rows = json_array();
    for (uint32_t s = 0; s < figure->n; s++) {
        const struct sim_series *series = &figure->series[s];
        for (uint32_t i = 0; i < series->n; i++) {
            json_t *row = json_object();
            json_object_set_new(row, "line", json_string(series->name));
            json_object_set_new(row, "source", json_string(source_of(series)));
            json_object_set_new(row, "x", prs_json_number(series->x[i]));
            json_object_set_new(row, "y", prs_json_number(series->y[i]));
            json_array_append_new(rows, row);
        }
    }
    json_object_set_new(document, "figure", json_string(figure->id));
    json_object_set_new(document, "x_label", json_string(figure->x_label));
    json_object_set_new(document, "y_label", json_string(figure->y_label));
    json_object_set_new(document, "rows", rows);
}

static bool write_csv(const struct sim_figure *figure, struct prs_output *output)
{
    if (output->path == NULL) {
        return true;
    }
    FILE *to = prs_output_open(output);
    if (to == NULL) {
        return false;
    }
    fprintf(to, "line,source,x,y\n");
    for (uint32_t s = 0; s < figure->n; s++) {
        const struct sim_series *series = &figure->series[s];
        for (uint32_t i = 0; i < series->n; i++) {
            fprintf(to, "\"%s\",%s,%.9g,%.9g\n", series->name, source_of(series), series->x[i],
                    series->y[i]);
        }
    }
    return prs_output_close(output, to);
}

/* No name here needs quoting; the file's is written as gnuplot reads it. */
static void write_script(const struct sim_figure *figure, const char *path, FILE *to)
{
    fprintf(to, "set terminal svg size 900,560 noenhanced\nset output \"");
    for (const char *at = path; *at != '\0'; at++) {
        fprintf(to, *at == '"' || *at == '\\' ? "\\%c" : "%c", *at);
    }
    fprintf(to, "\"\nset title \"%s\"\nset xlabel \"%s\"\nset ylabel \"%s\"\n", figure->title,
            figure->x_label, figure->y_label);
    fprintf(to, "set grid\nset key outside right\nset yrange [%s:*]\n%s%s",
            figure->y_log ? "*" : "0", figure->x_log ? "set logscale x 2\n" : "",
            figure->y_log ? "set logscale y\n" : "");
    for (uint32_t s = 0; s < figure->n; s++) {
        fprintf(to, "$line%u << END\n", s);
        for (uint32_t i = 0; i < figure->series[s].n; i++) {
            fprintf(to, "%.9g %.9g\n", figure->series[s].x[i], figure->series[s].y[i]);
        }
        fprintf(to, "END\n");
    }
    for (uint32_t s = 0; s < figure->n; s++) {
        const struct sim_series *series = &figure->series[s];
        fprintf(to, "%s$line%u with %s title \"%s%s\"", s == 0 ? "plot " : ", ", s,
                series->is_published ? "points pt 7 ps 1.2" : "linespoints", series->name,
                series->is_published ? " (published)" : "");
    }
    fprintf(to, "\n");
}

/* gnuplot writes to its standard output what it cannot write to a file, and goes on: the file is
 * made first, and must have grown. */
static bool draw(const struct sim_figure *figure, const char *path)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        fprintf(stderr, "perseus sim: cannot write %s: %s\n", path, strerror(errno));
        return false;
    }
    fclose(file);
    FILE *gnuplot = popen("exec gnuplot", "w");
    if (gnuplot != NULL) {
        write_script(figure, path, gnuplot);
    }
    long bytes = 0;
    bool is_done = gnuplot != NULL && pclose(gnuplot) == 0;
    file = is_done ? fopen(path, "rb") : NULL;
    if (file != NULL) {
        bytes = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : 0;
        fclose(file);
    }
    if (bytes <= 0) {
        fprintf(stderr,
                "perseus sim: gnuplot did not draw %s; is it installed (package gnuplot-nox)?\n",
                path);
    }
    return bytes > 0;
}

int prs_sim_figure(struct prs_sim_job *job)
{
    struct sim_lab *lab;
    if (prs_sim_job_lab(job, &lab) != PERSEUS_OK) {
        return PRS_EXIT_FAILED;
    }
    struct sim_figure figure;
    enum perseus_status status = sim_figure_make(lab, job->figure, &figure);
    sim_lab_destroy(lab);
    if (status == PERSEUS_NOT_FOUND) {
        fprintf(stderr, "perseus sim: there is no figure %s; there are", job->figure);
        for (uint32_t i = 0; sim_figure_name(i) != NULL; i++) {
            fprintf(stderr, " %s", sim_figure_name(i));
        }
        fprintf(stderr, "\n");
        return PRS_EXIT_USAGE;
    }
    if (status != PERSEUS_OK) {
        return PRS_EXIT_FAILED;
    }
    json_t *document = prs_json_begin("sim --figure", job->seed);
    add_rows(&figure, document);
    bool ok = print_table(&figure);
    ok = prs_json_write(document, &job->json) && ok;
    ok = write_csv(&figure, &job->csv) && ok;
    ok = (job->plot == NULL || draw(&figure, job->plot)) && ok;
    return ok ? PRS_EXIT_OK : PRS_EXIT_FAILED;
}
