#include "bench_results.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "json_out.h"

/* One cell, mode and protocol. */
struct tally {
    double *time_us, *seen_us; /* room for samples_max */
    uint32_t n_rounds, n_seen;
    double fences, drains, again, signals, signal_messages; /* sums */
    uint64_t payload_errors;
};

struct prs_bench_results {
    uint32_t n_cells, n_modes, samples_max;
    struct tally *tallies;
    double *samples; /* of all tallies */
};

static size_t n_tallies(const struct prs_bench_results *results)
{
    return (size_t)results->n_cells * results->n_modes * PRS_BENCH_PROTOCOL_COUNT;
}

struct prs_bench_results *prs_bench_results_create(uint32_t n_cells, uint32_t n_modes,
                                                   uint32_t samples_max)
{
    struct prs_bench_results *results = calloc(1, sizeof *results);
    if (results == NULL) {
        return NULL;
    }
    results->n_cells = n_cells;
    results->n_modes = n_modes;
    results->samples_max = samples_max;
    size_t n = n_tallies(results);
    results->tallies = calloc(n, sizeof *results->tallies);
    results->samples = calloc(n * 2 * samples_max, sizeof *results->samples);
    if (results->tallies == NULL || results->samples == NULL) {
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
                           uint32_t n_pes, uint32_t round)
{
    struct tally *tally = tally_of(results, cell, mode, protocol);
    uint64_t start_ns = UINT64_MAX, end_ns = 0, seen_ns = 0;
    for (uint32_t pe = 0; pe < n_pes; pe++) {
        const struct prs_bench_sample *sample = prs_bench_board_sample(board, pe, protocol, round);
        if (sample->start_ns != 0 && sample->start_ns < start_ns) {
            start_ns = sample->start_ns;
        }
        end_ns = sample->end_ns > end_ns ? sample->end_ns : end_ns;
        seen_ns = sample->seen_ns > seen_ns ? sample->seen_ns : seen_ns;
        tally->fences += (double)sample->fences;
        tally->drains += (double)sample->drains;
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
        .signals = tally->signals / n,
        .signal_messages = tally->signal_messages / n,
        .payload_errors = tally->payload_errors,
    };
}

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
    json_object_set_new(row, "again", prs_json_number(summary->again));
    json_object_set_new(row, "signals", prs_json_number(summary->signals));
    json_object_set_new(row, "signal_messages", prs_json_number(summary->signal_messages));
    json_object_set_new(row, "payload_errors", json_integer((json_int_t)summary->payload_errors));
}
