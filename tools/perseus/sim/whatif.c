/* SPDX-License-Identifier: Apache-2.0 */
/* whatif.c: perseus sim --model: a forward on a cluster that is not here; what bounds it, and what
 * each change to it would win. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "job.h"
#include "kit/exit.h"
#include "kit/json_out.h"
#include "kit/table.h"

static enum perseus_status run(const struct prs_sim_what *what, struct sim_moe_result *out)
{
    struct sim_moe_config config = what->config;
    config.platform = &what->platform;
    config.log = &what->log;
    /* What the stock transport does, it does with its own proxy. */
    config.stock = config.ordering == what->platform.vanilla;
    return sim_moe_run(&config, out);
}

/* ---- levers ---- */

struct lever {
    const char *name;
    void (*pull)(struct prs_sim_what *what);
};

static void decouple(struct prs_sim_what *what)
{
    what->config.protocol = SIM_DECOUPLED;
}

static void decouple_answers(struct prs_sim_what *what)
{
    decouple(what);
    what->config.answers_decoupled = true;
}

static void order_by_nic(struct prs_sim_what *what)
{
    what->config.ordering = what->platform.perseus;
}

static void both(struct prs_sim_what *what)
{
    decouple(what);
    order_by_nic(what);
}

static void defer(struct prs_sim_what *what)
{
    what->config.ordering = PERSEUS_ORDERING_DEFERRED;
}

static void count(struct prs_sim_what *what)
{
    what->config.ordering = PERSEUS_ORDERING_COUNTED;
}

static void keep_order(struct prs_sim_what *what)
{
    what->config.ordering = PERSEUS_ORDERING_FIFO;
}

static void batch(struct prs_sim_what *what)
{
    decouple(what);
    what->config.bulk = true;
}

static void add_channels(struct prs_sim_what *what)
{
    what->config.channels = 4;
}

static void begin_in_turn(struct prs_sim_what *what)
{
    both(what);
    what->config.in_turn = true;
}

static void double_line(struct prs_sim_what *what)
{
    what->platform.fabric.line_gbit_s *= 2;
    what->platform.fabric.pcie_gbit_s *= 2;
    what->platform.fabric.receive_gbit_s *= 2;
}

static void double_gpu(struct prs_sim_what *what)
{
    what->platform.gpu.tflop_s *= 2;
    what->platform.gpu.memory_gbyte_s *= 2;
}

static const struct lever levers[] = {
    {"decoupled dispatch", decouple},
    {"decoupled dispatch and answers", decouple_answers},
    {"order by the platform's own means", order_by_nic},
    {"decoupled, and that order", both},
    {"the same, and every PE begins with another", begin_in_turn},
    {"deferred order", defer},
    {"counted order", count},
    {"order of the connection (fifo)", keep_order},
    {"bulk: one put for all experts of a PE", batch},
    {"four proxy channels", add_channels},
    {"a line twice as fast", double_line},
    {"a GPU twice as fast", double_gpu},
};

static bool is_granted(const struct prs_sim_what *what)
{
    const struct prs_sim_model *fabric = &what->platform.fabric;
    const bool is_answered = what->config.ordering == PERSEUS_ORDERING_COUNTED ||
                             what->config.ordering == PERSEUS_ORDERING_DEFERRED ||
                             what->config.ordering == PERSEUS_ORDERING_FIFO;
    if (is_answered && what->config.channels > 1) {
        return false; /* sim/pe.h */
    }
    return what->config.ordering == PERSEUS_ORDERING_COUNTED     ? fabric->immediate_bits >= 32
           : what->config.ordering == PERSEUS_ORDERING_FIFO      ? fabric->ordered
           : what->config.ordering == PERSEUS_ORDERING_NIC_FENCE ? fabric->fence
                                                                 : true;
}

static void add_run(struct prs_table *table, json_t *rows, const char *name,
                    const struct sim_moe_result *result, double base_ms)
{
    prs_table_cell(table, "%s", name);
    prs_table_cell(table, "%.3f", result->total_ms);
    prs_table_cell(table, "%.2fx", base_ms / result->total_ms);
    prs_table_cell(table, "%.0f%%", 100 * result->busy);
    prs_table_cell(table, "%.3f", result->drain_ms);
    prs_table_cell(table, "%.3f", result->bytes_floor_ms);
    prs_table_cell(table, "%.3f", result->compute_floor_ms);
    json_t *row = json_object();
    json_object_set_new(row, "run", json_string(name));
    json_object_set_new(row, "total_ms", prs_json_number(result->total_ms));
    json_object_set_new(row, "busy", prs_json_number(result->busy));
    json_object_set_new(row, "drain_ms", prs_json_number(result->drain_ms));
    json_object_set_new(row, "bytes_floor_ms", prs_json_number(result->bytes_floor_ms));
    json_object_set_new(row, "compute_floor_ms", prs_json_number(result->compute_floor_ms));
    json_object_set_new(row, "operations", json_integer((json_int_t)result->operations));
    json_array_append_new(rows, row);
}

static bool pull_levers(const struct prs_sim_what *base, struct prs_table *table, json_t *rows)
{
    struct sim_moe_result first, result;
    if (run(base, &first) != PERSEUS_OK) {
        return false;
    }
    add_run(table, rows, "as asked", &first, first.total_ms);
    double best = 1;
    const char *name = NULL;
    for (uint32_t i = 0; i < sizeof levers / sizeof levers[0]; i++) {
        struct prs_sim_what changed = *base;
        levers[i].pull(&changed);
        if (!is_granted(&changed)) {
            continue;
        }
        if (run(&changed, &result) != PERSEUS_OK) {
            return false;
        }
        add_run(table, rows, levers[i].name, &result, first.total_ms);
        if (first.total_ms / result.total_ms > best * 1.005) {
            best = first.total_ms / result.total_ms;
            name = levers[i].name;
        }
    }
    bool printed = prs_table_print(table, stdout);
    double floor_ms = fmax(first.bytes_floor_ms, first.compute_floor_ms);
    printf("\nThe floor is %.3f ms (%s). ", floor_ms,
           first.bytes_floor_ms > first.compute_floor_ms ? "bytes over the line" : "computing");
    printf(name == NULL ? "No lever wins anything.\n" : "The lever that wins most: %s, %.2fx.\n",
           name, best);
    return printed;
}

/* ---- sweeps ---- */

static void print_dimensions(void)
{
    fprintf(stderr, "; it sweeps");
    for (uint32_t i = 0; i < PRS_SIM_DIMENSIONS; i++) {
        fprintf(stderr, " %s", prs_sim_dimensions[i].name);
    }
    fprintf(stderr, ", and every field of --fields\n");
}

static bool sweep(const struct prs_sim_what *base, const char *text, struct prs_table *table,
                  json_t *rows)
{
    char name[SIM_NAME_MAX], value[SIM_NAME_MAX], label[2 * SIM_NAME_MAX + 2];
    const char *equals = strchr(text, '=');
    double base_ms = 0;
    if (equals == NULL || (size_t)(equals - text) >= sizeof name) {
        fprintf(stderr, "perseus sim: --sweep takes NAME=VALUE,VALUE,...");
        print_dimensions();
        return false;
    }
    snprintf(name, sizeof name, "%.*s", (int)(equals - text), text);
    for (const char *at = equals + 1; *at != '\0';) {
        struct prs_sim_what changed = *base;
        struct sim_moe_result result;
        size_t length = strcspn(at, ",");
        snprintf(value, sizeof value, "%.*s", (int)length, at);
        const char *takes = prs_sim_what_set(&changed, name, value);
        if (takes != NULL) {
            fprintf(stderr, "perseus sim: --sweep %s stops at \"%s\", which is not %s", text, value,
                    takes);
            print_dimensions();
            return false;
        }
        if (run(&changed, &result) != PERSEUS_OK) {
            return false;
        }
        base_ms = base_ms > 0 ? base_ms : result.total_ms;
        snprintf(label, sizeof label, "%s=%s", name, value);
        add_run(table, rows, label, &result, base_ms);
        at += length + (at[length] == ',');
    }
    return prs_table_print(table, stdout);
}

/* The run that the options ask for. False: a mistake, which is printed. */
static bool fill_what(const struct prs_sim_job *job, struct prs_sim_what *what)
{
    *what = (struct prs_sim_what){.platform = job->platform,
                                  .config = {.nodes = 8, .tokens = 1024, .seed = job->seed},
                                  .log = job->log};
    for (uint32_t i = 0; i < PRS_SIM_DIMENSIONS; i++) {
        const char *name = prs_sim_dimensions[i].name, *value = job->dimensions[i];
        const char *takes = value == NULL ? NULL : prs_sim_what_set(what, name, value);
        if (takes != NULL) {
            fprintf(stderr, "perseus sim: --%s %s is not %s\n", name, value, takes);
            return false;
        }
    }
    if (what->config.ordering == PERSEUS_ORDERING_AUTO) {
        what->config.ordering = what->config.protocol == SIM_DECOUPLED ? what->platform.perseus
                                                                       : what->platform.vanilla;
    }
    return true;
}

int prs_sim_whatif(struct prs_sim_job *job)
{
    static const struct prs_table_column columns[] = {{"run", PRS_ALIGN_LEFT},
                                                      {"ms", PRS_ALIGN_RIGHT},
                                                      {"against first", PRS_ALIGN_RIGHT},
                                                      {"GPU busy", PRS_ALIGN_RIGHT},
                                                      {"drained ms", PRS_ALIGN_RIGHT},
                                                      {"bytes floor", PRS_ALIGN_RIGHT},
                                                      {"compute floor", PRS_ALIGN_RIGHT}};
    struct prs_sim_what what;
    if (!fill_what(job, &what)) {
        return PRS_EXIT_USAGE;
    }
    json_t *document = prs_json_begin("sim --model", job->seed), *rows = json_array();
    struct prs_table *table = prs_table_create(columns, sizeof columns / sizeof columns[0]);
    bool ok = job->sweep != NULL ? sweep(&what, job->sweep, table, rows)
                                 : pull_levers(&what, table, rows);
    prs_table_destroy(table);
    json_object_set_new(document, "rows", rows);
    ok = prs_json_write(document, &job->json) && ok;
    return ok ? PRS_EXIT_OK : PRS_EXIT_FAILED;
}
