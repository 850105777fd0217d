/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/results.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/json_out.h"
#include "kit/table.h"

/* One cell, mode and protocol. */
struct tally {
    double *time_us, *seen_us; /* room for samples_max */
    uint32_t n_rounds, n_seen;
    double fences, drains, again, signals, signal_messages; /* sums */
    double fence_us, sender_us; /* sums: of standing still, and of first submit until delivered */
    uint64_t payload_errors;
};

struct prs_bench_results {
    uint32_t n_cells, n_modes, n_pes, samples_max;
    struct tally *tallies;
    double *samples;                /* of all tallies */
    struct perseus_stats *counters; /* by mode: toward each PE, then over all */
};

static size_t n_tallies(const struct prs_bench_results *results)
{
    return (size_t)results->n_cells * results->n_modes * PRS_BENCH_PROTOCOL_COUNT;
}

struct prs_bench_results *prs_bench_results_create(uint32_t n_cells, uint32_t n_modes,
                                                   uint32_t n_pes, uint32_t samples_max)
{
    struct prs_bench_results *results = calloc(1, sizeof *results);
    if (results == NULL) {
        return NULL;
    }
    results->n_cells = n_cells;
    results->n_modes = n_modes;
    results->n_pes = n_pes;
    results->samples_max = samples_max;
    size_t n = n_tallies(results);
    results->tallies = calloc(n, sizeof *results->tallies);
    results->samples = calloc(n * 2 * samples_max, sizeof *results->samples);
    results->counters = calloc(n_modes * ((size_t)n_pes + 1), sizeof *results->counters);
    if (results->tallies == NULL || results->samples == NULL || results->counters == NULL) {
        prs_bench_results_destroy(results);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        results->tallies[i].time_us = results->samples + 2 * i * samples_max;
        results->tallies[i].seen_us = results->samples + (2 * i + 1) * samples_max;
    }
    return results;
}

void prs_bench_results_destroy(struct prs_bench_results *results)
{
    if (results != NULL) {
        free(results->tallies);
        free(results->samples);
        free(results->counters);
        free(results);
    }
}

static struct tally *tally_of(const struct prs_bench_results *results, uint32_t cell, uint32_t mode,
                              enum prs_bench_protocol protocol)
{
    size_t row = (size_t)cell * results->n_modes + mode;
    return &results->tallies[row * PRS_BENCH_PROTOCOL_COUNT + protocol];
}

void prs_bench_results_add(struct prs_bench_results *results, uint32_t cell, uint32_t mode,
                           enum prs_bench_protocol protocol, struct prs_bench_board *board,
                           uint32_t round)
{
    struct tally *tally = tally_of(results, cell, mode, protocol);
    uint64_t start_ns = UINT64_MAX, end_ns = 0, seen_ns = 0;
    for (uint32_t pe = 0; pe < results->n_pes; pe++) {
        const struct prs_bench_sample *sample = prs_bench_board_sample(board, pe, protocol, round);
        if (sample->start_ns != 0 && sample->start_ns < start_ns) {
            start_ns = sample->start_ns;
        }
        end_ns = sample->end_ns > end_ns ? sample->end_ns : end_ns;
        seen_ns = sample->seen_ns > seen_ns ? sample->seen_ns : seen_ns;
        tally->fences += (double)sample->fences;
        tally->drains += (double)sample->drains;
        tally->fence_us += (double)sample->drain_ns / 1e3;
        tally->sender_us += (double)(sample->end_ns - sample->start_ns) / 1e3;
        tally->again += (double)sample->again;
        tally->signals += (double)sample->signals;
        tally->signal_messages += (double)sample->signal_messages;
        tally->payload_errors += sample->payload_errors;
    }
    tally->time_us[tally->n_rounds++] = (double)(end_ns - start_ns) / 1e3;
    if (seen_ns != 0) {
        tally->seen_us[tally->n_seen++] = (double)(seen_ns - start_ns) / 1e3;
    }
}

static struct perseus_stats *counters_of(const struct prs_bench_results *results, uint32_t mode)
{
    return &results->counters[mode * ((size_t)results->n_pes + 1)];
}

void prs_bench_results_keep_counters(struct prs_bench_results *results, uint32_t mode,
                                     struct prs_bench_board *board)
{
    memcpy(counters_of(results, mode), prs_bench_board_counters(board, results->n_pes),
           ((size_t)results->n_pes + 1) * sizeof *results->counters);
}

static struct prs_percentiles percentiles_or_nan(double *samples, uint32_t n)
{
    return n > 0 ? prs_percentiles_of(samples, n) : (struct prs_percentiles){NAN, NAN, NAN};
}

static double median_us(const struct tally *tally)
{
    return percentiles_or_nan(tally->time_us, tally->n_rounds).median;
}

struct prs_bench_summary prs_bench_results_summary(const struct prs_bench_results *results,
                                                   uint32_t cell, uint32_t mode,
                                                   enum prs_bench_protocol protocol,
                                                   uint32_t reference)
{
    const struct tally *tally = tally_of(results, cell, mode, protocol);
    double median = median_us(tally), n = tally->n_rounds > 0 ? tally->n_rounds : 1;
    return (struct prs_bench_summary){
        .n_rounds = tally->n_rounds,
        .time_us = percentiles_or_nan(tally->time_us, tally->n_rounds),
        .seen_us = percentiles_or_nan(tally->seen_us, tally->n_seen),
        .efficiency = median_us(tally_of(results, cell, reference, PRS_BENCH_PUT_ONLY)) / median,
        .efficiency_signalled =
            median_us(tally_of(results, cell, reference, PRS_BENCH_PUT_ONLY_SIGNALS)) / median,
        .fences = tally->fences / n,
        .drains = tally->drains / n,
        .again = tally->again / n,
        .fence_us = tally->fence_us / n,
        .fence_share = tally->sender_us > 0 ? tally->fence_us / tally->sender_us : 0,
        .signals = tally->signals / n,
        .signal_messages = tally->signal_messages / n,
        .payload_errors = tally->payload_errors,
    };
}

/* ---- counters ---- */

/* A counter as it is printed and written. */
struct counter {
    const char *title, *key;
    size_t offset; /* in struct perseus_stats */
};
static const struct counter counters[] = {
    {"puts", "puts", offsetof(struct perseus_stats, puts)},
    {"bytes", "put_bytes", offsetof(struct perseus_stats, put_bytes)},
    {"signals", "signals", offsetof(struct perseus_stats, signals)},
    {"messages", "signal_messages", offsetof(struct perseus_stats, signal_messages)},
    {"fences", "fences", offsetof(struct perseus_stats, fences)},
    {"flagged", "fence_flags", offsetof(struct perseus_stats, fence_flags)},
    {"drains", "drains", offsetof(struct perseus_stats, drains)},
    {"drain ns", "drain_ns", offsetof(struct perseus_stats, drain_ns)},
    {"AGAIN", "again", offsetof(struct perseus_stats, again)},
    {"deferred", "deferred", offsetof(struct perseus_stats, deferred)},
    {"most in flight", "in_flight_max", offsetof(struct perseus_stats, in_flight_max)},
};
enum { N_COUNTERS = sizeof counters / sizeof counters[0] };

static uint64_t counter_value(const struct perseus_stats *stats, const struct counter *counter)
{
    uint64_t value;
    memcpy(&value, (const char *)stats + counter->offset, sizeof value);
    return value;
}

static void add_counters(struct prs_table *table, const char *mode, uint32_t pe, uint32_t n_pes,
                         const struct perseus_stats *stats)
{
    prs_table_cell(table, "%s", mode);
    if (pe < n_pes) {
        prs_table_cell(table, "%u", pe);
    } else {
        prs_table_cell(table, "all");
    }
    for (size_t i = 0; i < N_COUNTERS; i++) {
        prs_table_cell(table, "%llu", (unsigned long long)counter_value(stats, &counters[i]));
    }
}

bool prs_bench_print_counters(const struct prs_bench_results *results,
                              const struct prs_bench_modes *modes)
{
    struct prs_table_column columns[2 + N_COUNTERS] = {{"ordering", PRS_ALIGN_LEFT},
                                                       {"to PE", PRS_ALIGN_RIGHT}};
    for (size_t i = 0; i < N_COUNTERS; i++) {
        columns[2 + i] = (struct prs_table_column){counters[i].title, PRS_ALIGN_RIGHT};
    }
    struct prs_table *table = prs_table_create(columns, 2 + N_COUNTERS);
    if (table == NULL) {
        return false;
    }
    for (uint32_t mode = 0; mode < modes->n; mode++) {
        const char *name = perseus_ordering_name(modes->mode[mode].ordering);
        for (uint32_t pe = 1; pe <= results->n_pes && modes->mode[mode].is_kept; pe++) {
            add_counters(table, name, pe, results->n_pes, &counters_of(results, mode)[pe]);
        }
    }
    printf("\nCounters of PE 0 over the whole run, all protocols and preparations\n\n");
    bool is_printed = prs_table_print(table, stdout);
    prs_table_destroy(table);
    return is_printed;
}

json_t *prs_bench_counters_json(const struct prs_bench_results *results,
                                const struct prs_bench_modes *modes)
{
    json_t *rows = json_array();
    for (uint32_t mode = 0; mode < modes->n; mode++) {
        for (uint32_t pe = 0; pe <= results->n_pes && modes->mode[mode].is_kept; pe++) {
            const struct perseus_stats *stats = &counters_of(results, mode)[pe];
            json_t *row =
                json_pack("{s:s}", "ordering", perseus_ordering_name(modes->mode[mode].ordering));
            json_object_set_new(row, "peer", pe < results->n_pes ? json_integer(pe) : json_null());
            for (size_t i = 0; i < N_COUNTERS; i++) {
                uint64_t value = counter_value(stats, &counters[i]);
                json_object_set_new(row, counters[i].key, json_integer((json_int_t)value));
            }
            json_array_append_new(rows, row);
        }
    }
    return rows;
}

/* ---- what the commands share in their reports ---- */

bool prs_bench_is_right(const struct prs_bench_results *results)
{
    uint64_t errors = 0;
    for (size_t i = 0; i < n_tallies(results); i++) {
        errors += results->tallies[i].payload_errors;
    }
    if (errors > 0) {
        fprintf(stderr,
                "perseus: %llu payloads were wrong or late when their signal was seen; the errors "
                "column says where. Please report it with the output of perseus info.\n",
                (unsigned long long)errors);
    }
    return errors == 0;
}

void prs_bench_job_json(const struct prs_bench_setup *setup, const struct prs_bench_modes *modes,
                        json_t *document)
{
    const char *ceiling = perseus_ordering_name(modes->mode[modes->reference].ordering);
    json_object_set_new(document, "fabric", json_string(modes->fabric));
    json_object_set_new(document, "provider", json_string(modes->provider));
    json_object_set_new(document, "lanes", json_integer(modes->lanes > 1 ? modes->lanes : 1));
    json_object_set_new(document, "link",
                        setup->link != NULL ? json_string(setup->link) : json_null());
    json_object_set_new(document, "nodes", json_integer(setup->nodes));
    json_object_set_new(document, "pes", json_integer(setup->nodes * setup->pes_per_node));
    json_object_set_new(document, "ceiling_ordering", json_string(ceiling));
}

static json_t *percentiles_json(const struct prs_percentiles *percentiles)
{
    return json_pack("{s:o, s:o, s:o}", "p10", prs_json_number(percentiles->p10), "median",
                     prs_json_number(percentiles->median), "p90",
                     prs_json_number(percentiles->p90));
}

void prs_bench_summary_json(const struct prs_bench_summary *summary,
                            const struct prs_bench_mode *mode, enum prs_bench_protocol protocol,
                            json_t *row)
{
    const struct prs_bench_protocol_info *info = prs_bench_protocol_info(protocol);
    json_object_set_new(row, "protocol", json_string(info->name));
    json_object_set_new(row, "ordering", json_string(perseus_ordering_name(mode->ordering)));
    json_object_set_new(row, "vector", json_boolean(info->is_vector));
    json_object_set_new(row, "supported", json_boolean(mode->is_kept));
    json_object_set_new(row, "reason", json_string(mode->why));
    json_object_set_new(row, "rounds", json_integer(summary->n_rounds));
    json_object_set_new(row, "time_us", percentiles_json(&summary->time_us));
    json_object_set_new(row, "seen_us", percentiles_json(&summary->seen_us));
    json_object_set_new(row, "efficiency", prs_json_number(summary->efficiency));
    json_object_set_new(row, "efficiency_signalled",
                        prs_json_number(summary->efficiency_signalled));
    json_object_set_new(row, "fences", prs_json_number(summary->fences));
    json_object_set_new(row, "drains", prs_json_number(summary->drains));
    json_object_set_new(row, "fence_us", prs_json_number(summary->fence_us));
    json_object_set_new(row, "fence_share", prs_json_number(summary->fence_share));
    json_object_set_new(row, "again", prs_json_number(summary->again));
    json_object_set_new(row, "signals", prs_json_number(summary->signals));
    json_object_set_new(row, "signal_messages", prs_json_number(summary->signal_messages));
    json_object_set_new(row, "payload_errors", json_integer((json_int_t)summary->payload_errors));
}
