/* SPDX-License-Identifier: Apache-2.0 */
/* calibrate.c: perseus sim --calibrate: the model fitted to a file of perseus bench put-signal, and
 * what it then says of a forward. */
#include "sim/calibrate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"
#include "kit/exit.h"
#include "kit/json_out.h"
#include "kit/table.h"

static const struct {
    const char *name;
    enum sim_exchange_kind kind;
} protocols[] = {{"put-only", SIM_EXCHANGE_PUTS},
                 {"coupled", SIM_EXCHANGE_COUPLED},
                 {"decoupled", SIM_EXCHANGE_DECOUPLED}};
enum { N_PROTOCOLS = sizeof protocols / sizeof protocols[0] };

/* False: a protocol that the model does not know, or one that was not measured. */
static bool read_row(const json_t *row, bool all_send, struct sim_measured *out)
{
    const char *protocol = json_string_value(json_object_get(row, "protocol"));
    const char *ordering = json_string_value(json_object_get(row, "ordering"));
    const json_t *time = json_object_get(json_object_get(row, "time_us"), "median");
    if (protocol == NULL || ordering == NULL || !json_is_number(time) ||
        json_is_true(json_object_get(row, "vector")) ||
        perseus_ordering_parse(ordering, &out->ordering) != PERSEUS_OK) {
        return false;
    }
    out->transfers = (uint32_t)json_integer_value(json_object_get(row, "transfers"));
    out->peers = (uint32_t)json_integer_value(json_object_get(row, "peers"));
    out->bytes = (uint64_t)json_integer_value(json_object_get(row, "bytes"));
    out->ms = json_number_value(time) * 1e-3;
    out->all_send = all_send;
    bool known = false;
    for (int i = 0; i < N_PROTOCOLS; i++) {
        if (strcmp(protocols[i].name, protocol) == 0) {
            out->kind = protocols[i].kind;
            known = true;
        }
    }
    return known && out->transfers > 0 && out->peers > 0 && out->peers < 1024 &&
           out->transfers <= 65536 && out->bytes > 0 && out->ms > 0;
}

/* *out is freed by the caller; 0 after a message. */
static uint32_t read_file(const char *path, struct sim_measured **out)
{
    json_error_t error;
    json_t *document = json_load_file(path, 0, &error);
    const json_t *rows = json_object_get(document, "rows");
    const char *command = json_string_value(json_object_get(document, "command"));
    size_t n_rows = json_array_size(rows);
    uint32_t n = 0;
    *out = NULL;
    if (document == NULL) {
        fprintf(stderr, "perseus sim: %s:%d: %s\n", path, error.line, error.text);
    } else if (command == NULL || strcmp(command, "bench put-signal") != 0) {
        fprintf(stderr, "perseus sim: %s is no file of perseus bench put-signal --json\n", path);
    } else {
        *out = calloc(n_rows + 1, sizeof **out);
        for (size_t i = 0; *out != NULL && i < n_rows; i++) {
            n += read_row(json_array_get(rows, i),
                          json_is_true(json_object_get(document, "all_send")), &(*out)[n]);
        }
        if (n == 0) {
            fprintf(stderr, "perseus sim: %s has no row of put-only, coupled or decoupled\n", path);
        }
    }
    json_decref(document);
    return n;
}

static bool report(const struct sim_measured *rows, uint32_t n, json_t *out)
{
    static const struct prs_table_column columns[] = {
        {"protocol", PRS_ALIGN_LEFT},   {"ordering", PRS_ALIGN_LEFT},
        {"transfers", PRS_ALIGN_RIGHT}, {"bytes", PRS_ALIGN_RIGHT},
        {"peers", PRS_ALIGN_RIGHT},     {"measured us", PRS_ALIGN_RIGHT},
        {"simulated", PRS_ALIGN_RIGHT}, {"error", PRS_ALIGN_RIGHT}};
    struct prs_table *table = prs_table_create(columns, sizeof columns / sizeof columns[0]);
    for (uint32_t i = 0; i < n; i++) {
        const struct sim_measured *row = &rows[i];
        if (isnan(row->simulated_ms)) {
            continue;
        }
        double error = row->simulated_ms / row->ms - 1;
        prs_table_cell(table, "%s", protocols[row->kind].name);
        prs_table_cell(table, "%s", perseus_ordering_name(row->ordering));
        prs_table_cell(table, "%u", row->transfers);
        prs_table_cell(table, "%llu", (unsigned long long)row->bytes);
        prs_table_cell(table, "%u", row->peers);
        prs_table_cell(table, "%.1f", 1e3 * row->ms);
        prs_table_cell(table, "%.1f", 1e3 * row->simulated_ms);
        prs_table_cell(table, "%+.0f%%", 100 * error);
        json_t *object = json_object();
        json_object_set_new(object, "protocol", json_string(protocols[row->kind].name));
        json_object_set_new(object, "ordering", json_string(perseus_ordering_name(row->ordering)));
        json_object_set_new(object, "transfers", json_integer(row->transfers));
        json_object_set_new(object, "bytes", json_integer((json_int_t)row->bytes));
        json_object_set_new(object, "peers", json_integer(row->peers));
        json_object_set_new(object, "measured_us", prs_json_number(1e3 * row->ms));
        json_object_set_new(object, "simulated_us", prs_json_number(1e3 * row->simulated_ms));
        json_object_set_new(object, "error", prs_json_number(error));
        json_array_append_new(out, object);
    }
    bool printed = prs_table_print(table, stdout);
    prs_table_destroy(table);
    return printed;
}

/* The scenario's fabric, changed; what else it has, and the forward, are the user's. */
static bool write_scenario(const struct prs_sim_job *job, FILE *to)
{
    struct sim_field field;
    fprintf(to, "# Found by perseus sim --calibrate.\nbased_on = \"%s\";\nfabric = {\n",
            job->scenario);
    for (uint32_t i = 0; sim_platform_field(i, &field); i++) {
        double value = 0;
        if (strncmp(field.name, "fabric.", 7) == 0 &&
            sim_platform_get(&job->platform, field.name, &value) == PERSEUS_OK) {
            fprintf(to, "    %s = %.9g;\n", field.name + 7, value);
        }
    }
    fprintf(to, "};\n");
    return ferror(to) == 0;
}

static bool write_found(struct prs_sim_job *job)
{
    if (job->write.path == NULL) {
        return true;
    }
    FILE *to = prs_output_open(&job->write);
    return to != NULL && write_scenario(job, to) & prs_output_close(&job->write, to);
}

int prs_sim_calibrate(struct prs_sim_job *job)
{
    struct sim_measured *rows;
    double error = NAN;
    uint32_t n = read_file(job->calibrate, &rows);
    if (n == 0) {
        free(rows);
        return PRS_EXIT_USAGE;
    }
    bool ok = sim_calibrate(rows, n, job->rounds, job->seed, &job->log, &job->platform, &error) ==
              PERSEUS_OK;
    if (ok) {
        json_t *document = prs_json_begin("sim --calibrate", job->seed), *out = json_array();
        ok = report(rows, n, out) && write_found(job);
        printf("\nThe model fits these times to %.0f%% (root mean square), %u rounds.\n",
               100 * error, job->rounds);
        json_object_set_new(document, "error", prs_json_number(error));
        json_object_set_new(document, "rows", out);
        /* With a model, the file is that of its forward. */
        ok = (job->dimensions[PRS_SIM_DIMENSION_MODEL] != NULL
                  ? (json_decref(document), true)
                  : prs_json_write(document, &job->json)) &&
             ok;
    }
    free(rows);
    if (!ok) {
        return PRS_EXIT_FAILED;
    }
    return job->dimensions[PRS_SIM_DIMENSION_MODEL] != NULL ? prs_sim_whatif(job) : PRS_EXIT_OK;
}
