/* SPDX-License-Identifier: Apache-2.0 */
/* perseus bench ring: how many descriptors a second pass from producers to a proxy, with nothing
 * else in the way, next to a queue with a mutex. */
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/rng.h"
#include "bench/ring.h"
#include "bench/commands.h"
#include "kit/exit.h"
#include "kit/json_out.h"
#include "kit/options.h"
#include "kit/progress.h"
#include "kit/stats_math.h"
#include "kit/table.h"

enum { N_QUEUES = 2, N_OPTIONS = 7, ROWS_MAX = N_QUEUES * PRS_LIST_MAX };

struct row {
    struct prs_ring_run run;
    double *rates; /* one per repetition, in the one array of all */
    struct prs_percentiles rate;
    uint64_t errors;
};

struct measurement {
    double seconds;
    uint32_t repeat, slots, batch;
    uint32_t cpus; /* that this process may use */
    struct prs_list producers;
    uint64_t seed;
    struct prs_output json;
    struct row rows[ROWS_MAX]; /* per number of producers: the ring, then the mutex queue */
    uint32_t n_rows;
    double *rates;
};

/* ---- options ---- */

static const char *parse_seconds(const char *text, void *target)
{
    char *end;
    double seconds = strtod(text, &end);
    if (end == text || *end != '\0' || !(seconds >= 0.001 && seconds <= 60)) {
        return "a number from 0.001 to 60";
    }
    *(double *)target = seconds;
    return NULL;
}

static const char *parse_slots(const char *text, void *target)
{
    uint64_t slots = 0;
    if (prs_parse_size(text, &slots) != NULL || slots > 1u << 20 || (slots & (slots - 1)) != 0) {
        return "a power of two from 8 to 1M";
    }
    *(uint32_t *)target = (uint32_t)slots;
    return NULL;
}

static const char *parse_producers(const char *text, void *target)
{
    struct prs_list list = {.n = 0};
    const char *expected = prs_parse_counts(text, &list);
    for (uint32_t i = 0; i < list.n && expected == NULL; i++) {
        if (list.values[i] > PRS_RING_PRODUCERS_MAX) {
            expected = "numbers from 1 to 64";
        }
    }
    if (expected == NULL) {
        *(struct prs_list *)target = list;
    }
    return expected;
}

static bool read_options(struct measurement *self, int argc, char **argv, int *out_exit)
{
    const struct prs_option options[N_OPTIONS] = {
        {"producers", "LIST", "threads that push at once (1,4)", parse_producers, &self->producers},
        {"slots", "N", "depth of the queues, a power of two (4096)", parse_slots, &self->slots},
        {"batch", "N", "descriptors that the consumer gives back at once (64)", prs_parse_count,
         &self->batch},
        {"seconds", "S", "of every repetition (0.2)", parse_seconds, &self->seconds},
        {"repeat", "N", "repetitions of every row (9)", prs_parse_count, &self->repeat},
        {"seed", "N", "of the order in which rows take turns (1)", prs_parse_seed, &self->seed},
        {"json", "FILE", "write every row there", prs_parse_text, &self->json.path},
    };
    const struct prs_command command = {
        .name = "perseus bench ring",
        .summary =
            "Measures the channel ring alone: producers push 64-byte descriptors, one consumer\n"
            "takes them out as a proxy does. A queue of the same depth with a mutex runs in turns\n"
            "with it. Every descriptor is checked: none lost, doubled or out of order. With\n"
            "--device cuda it is a GPU's ring, and other options count: --device cuda --help.",
        .options = options,
        .n_options = N_OPTIONS,
    };
    return prs_command_parse(&command, argc, argv, NULL, out_exit);
}

/* ---- the runs ---- */

static bool lay_out(struct measurement *self)
{
    static const struct prs_ring_queue_ops *const queues[N_QUEUES] = {&prs_ring_queue_channel,
                                                                      &prs_ring_queue_mutex};
    self->n_rows = self->producers.n * N_QUEUES;
    self->rates = calloc((size_t)self->n_rows * self->repeat, sizeof *self->rates);
    if (self->rates == NULL) {
        fprintf(stderr, "perseus: out of memory\n");
        return false;
    }
    for (uint32_t r = 0; r < self->n_rows; r++) {
        self->rows[r] = (struct row){
            .run = {.ops = queues[r % N_QUEUES],
                    .slots = self->slots,
                    .producers = (uint32_t)self->producers.values[r / N_QUEUES],
                    .batch = self->batch,
                    .seconds = self->seconds},
            .rates = self->rates + (size_t)r * self->repeat,
        };
    }
    return true;
}

static void shuffle(struct prs_rng *rng, uint32_t *order, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = prs_rng_below(rng, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}

/* Rows take turns, in another order every time, so that what disturbs the machine disturbs all. */
static bool measure(struct measurement *self)
{
    struct prs_rng rng = prs_rng_seeded(self->seed);
    struct prs_progress progress;
    prs_progress_init(&progress, (uint64_t)self->n_rows * self->repeat);
    bool is_done = true;
    for (uint32_t i = 0; i < self->repeat && is_done; i++) {
        uint32_t order[ROWS_MAX];
        shuffle(&rng, order, self->n_rows);
        for (uint32_t k = 0; k < self->n_rows && is_done; k++) {
            struct row *row = &self->rows[order[k]];
            struct prs_ring_outcome outcome = {.rate = 0};
            is_done = prs_ring_run(&row->run, &outcome);
            row->rates[i] = outcome.rate;
            row->errors += outcome.errors;
            prs_progress_step(&progress, row->run.ops->name);
        }
    }
    prs_progress_finish(&progress);
    for (uint32_t r = 0; r < self->n_rows; r++) {
        self->rows[r].rate = prs_percentiles_of(self->rows[r].rates, self->repeat);
    }
    return is_done;
}

/* ---- what it found ---- */

static double over_mutex(const struct measurement *self, uint32_t row)
{
    const struct row *mutex = &self->rows[row / N_QUEUES * N_QUEUES + 1];
    return self->rows[row].rate.median / mutex->rate.median;
}

static bool print_table(const struct measurement *self)
{
    static const struct prs_table_column columns[] = {
        {"queue", PRS_ALIGN_LEFT},    {"producers", PRS_ALIGN_RIGHT}, {"M desc/s", PRS_ALIGN_RIGHT},
        {"p10", PRS_ALIGN_RIGHT},     {"p90", PRS_ALIGN_RIGHT},       {"ns each", PRS_ALIGN_RIGHT},
        {"x mutex", PRS_ALIGN_RIGHT}, {"errors", PRS_ALIGN_RIGHT},
    };
    struct prs_table *table = prs_table_create(columns, sizeof columns / sizeof columns[0]);
    if (table == NULL) {
        return false;
    }
    for (uint32_t r = 0; r < self->n_rows; r++) {
        const struct row *row = &self->rows[r];
        prs_table_cell(table, "%s", row->run.ops->name);
        prs_table_cell(table, "%u", row->run.producers);
        prs_table_cell(table, "%.1f", row->rate.median / 1e6);
        prs_table_cell(table, "%.1f", row->rate.p10 / 1e6);
        prs_table_cell(table, "%.1f", row->rate.p90 / 1e6);
        prs_table_cell(table, "%.1f", 1e9 / row->rate.median);
        prs_table_cell(table, "%.1f", over_mutex(self, r));
        prs_table_cell(table, "%llu", (unsigned long long)row->errors);
    }
    printf("perseus bench ring: %u slots, batches of %u, %u repetitions of %g s, %u CPUs\n\n",
           self->slots, self->batch, self->repeat, self->seconds, self->cpus);
    bool is_printed = prs_table_print(table, stdout);
    prs_table_destroy(table);
    return is_printed;
}

static json_t *row_json(const struct measurement *self, uint32_t r)
{
    const struct row *row = &self->rows[r];
    json_t *rate = json_object();
    json_object_set_new(rate, "p10", prs_json_number(row->rate.p10));
    json_object_set_new(rate, "median", prs_json_number(row->rate.median));
    json_object_set_new(rate, "p90", prs_json_number(row->rate.p90));
    json_t *object = json_object();
    json_object_set_new(object, "queue", json_string(row->run.ops->name));
    json_object_set_new(object, "producers", json_integer(row->run.producers));
    json_object_set_new(object, "descriptors_per_s", rate);
    json_object_set_new(object, "over_mutex", prs_json_number(over_mutex(self, r)));
    json_object_set_new(object, "errors", json_integer((json_int_t)row->errors));
    return object;
}

static bool write_json(const struct measurement *self)
{
    if (self->json.path == NULL) {
        return true;
    }
    json_t *rows = json_array();
    for (uint32_t r = 0; r < self->n_rows; r++) {
        json_array_append_new(rows, row_json(self, r));
    }
    json_t *document = prs_json_begin("bench ring", self->seed);
    json_object_set_new(document, "slots", json_integer(self->slots));
    json_object_set_new(document, "batch", json_integer(self->batch));
    json_object_set_new(document, "seconds", prs_json_number(self->seconds));
    json_object_set_new(document, "repeat", json_integer(self->repeat));
    json_object_set_new(document, "cpus", json_integer(self->cpus));
    json_object_set_new(document, "rows", rows);
    return prs_json_write(document, &self->json);
}

static bool is_right(const struct measurement *self)
{
    uint64_t errors = 0;
    for (uint32_t r = 0; r < self->n_rows; r++) {
        errors += self->rows[r].errors;
    }
    if (errors > 0) {
        fprintf(stderr, "perseus: %llu descriptors were lost, doubled or out of order\n",
                (unsigned long long)errors);
    }
    return errors == 0;
}

static bool run(struct measurement *self)
{
    if (!prs_output_check(&self->json, 1) || !lay_out(self) || !measure(self)) {
        return false;
    }
    bool is_told = print_table(self);
    return write_json(self) && is_told && is_right(self);
}

int prs_tool_bench_ring(int argc, char **argv)
{
    struct measurement self = {
        .seconds = 0.2,
        .repeat = 9,
        .slots = 4096,
        .batch = 64,
        .producers = {.values = {1, 4}, .n = 2},
        .seed = 1,
        .json = {.option = "--json"},
    };
    struct prs_limits limits;
    prs_limits_read("", &limits);
    self.cpus = limits.cpus;
    int exit_code = PRS_EXIT_OK;
    if (read_options(&self, argc, argv, &exit_code)) {
        exit_code = run(&self) ? PRS_EXIT_OK : PRS_EXIT_FAILED;
    }
    free(self.rates);
    return exit_code;
}
