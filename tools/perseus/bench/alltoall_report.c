/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/alltoall.h"

#include <math.h>
#include <stdio.h>

#include "kit/json_out.h"
#include "kit/table.h"

enum { TITLE_BYTES = 24, FIXED_COLUMNS = 9 };

static struct prs_bench_summary summary_of(const struct prs_alltoall *self, uint32_t cell,
                                           uint32_t mode, enum prs_bench_protocol protocol)
{
    return prs_comparison_summary(&self->shared, cell, mode, protocol);
}

static bool is_measured(const struct prs_alltoall *self, uint32_t mode,
                        enum prs_bench_protocol protocol)
{
    return self->shared.modes.mode[mode].is_kept &&
           prs_bench_has_protocol(&self->shared.setup, protocol);
}

/* Median time as alpha us + beta us per byte that a PE sends. NaN with fewer than two points. */
static struct prs_fit fit_of(const struct prs_alltoall *self, uint32_t mode,
                             enum prs_bench_protocol protocol)
{
    double bytes[PRS_LIST_MAX], time_us[PRS_LIST_MAX];
    for (uint32_t cell = 0; cell < self->tokens.n; cell++) {
        bytes[cell] = prs_alltoall_bytes(self, cell);
        time_us[cell] = summary_of(self, cell, mode, protocol).time_us.median;
    }
    struct prs_fit fit = {NAN, NAN, NAN};
    prs_fit_line(bytes, time_us, self->tokens.n, &fit);
    return fit;
}

/* Gigabytes a second that one PE sends, by the fitted slope; NaN if more bytes took no longer. */
static double bandwidth_of(const struct prs_fit *fit)
{
    return fit->beta > 0 ? 1e-3 / fit->beta : NAN;
}

/* ---- text ---- */

static void number_cell(struct prs_table *table, int decimals, double value)
{
    if (isnan(value)) {
        prs_table_cell(table, "-");
    } else {
        prs_table_cell(table, "%.*f", decimals, value);
    }
}

static void add_row(const struct prs_alltoall *self, uint32_t mode,
                    enum prs_bench_protocol protocol, struct prs_table *table)
{
    struct prs_bench_summary first = summary_of(self, 0, mode, protocol);
    uint64_t errors = 0;
    prs_table_cell(table, "%s", prs_bench_protocol_info(protocol)->title);
    prs_table_cell(table, "%s", perseus_ordering_name(self->shared.modes.mode[mode].ordering));
    for (uint32_t cell = 0; cell < self->tokens.n; cell++) {
        struct prs_bench_summary summary = summary_of(self, cell, mode, protocol);
        errors += summary.payload_errors;
        prs_table_cell(table, "%.0f", summary.time_us.median);
    }
    struct prs_fit fit = fit_of(self, mode, protocol);
    number_cell(table, 0, fit.alpha);
    number_cell(table, 2, bandwidth_of(&fit));
    prs_table_cell(table, "%.0f%%", 100 * first.efficiency);
    prs_table_cell(table, "%.0f", first.fences);
    prs_table_cell(table, "%.0f", first.drains);
    prs_table_cell(table, "%.1f", first.again);
    prs_table_cell(table, "%llu", (unsigned long long)errors);
}

static bool print_table(const struct prs_alltoall *self)
{
    static const char *const behind[] = {"alpha us", "GB/s",  "of put-only", "fences",
                                         "drains",   "AGAIN", "errors"};
    char titles[PRS_LIST_MAX][TITLE_BYTES];
    struct prs_table_column columns[PRS_LIST_MAX + FIXED_COLUMNS] = {{"protocol", PRS_ALIGN_LEFT},
                                                                     {"ordering", PRS_ALIGN_LEFT}};
    size_t n = 2;
    for (uint32_t cell = 0; cell < self->tokens.n; cell++) {
        snprintf(titles[cell], TITLE_BYTES, "%llu tokens, us",
                 (unsigned long long)self->tokens.values[cell]);
        columns[n++] = (struct prs_table_column){titles[cell], PRS_ALIGN_RIGHT};
    }
    for (size_t i = 0; i < sizeof behind / sizeof behind[0]; i++) {
        columns[n++] = (struct prs_table_column){behind[i], PRS_ALIGN_RIGHT};
    }
    struct prs_table *table = prs_table_create(columns, n);
    if (table == NULL) {
        return false;
    }
    for (int p = 0; p < PRS_BENCH_PROTOCOL_COUNT; p++) {
        for (uint32_t mode = 0; mode < self->shared.modes.n; mode++) {
            if (is_measured(self, mode, (enum prs_bench_protocol)p)) {
                add_row(self, mode, (enum prs_bench_protocol)p, table);
            }
        }
    }
    bool is_printed = prs_table_print(table, stdout);
    prs_table_destroy(table);
    return is_printed;
}

static void print_head(const struct prs_alltoall *self)
{
    const struct prs_bench_modes *modes = &self->shared.modes;
    char size[32];
    printf("perseus bench alltoall: ");
    prs_comparison_print_place(&self->shared);
    printf(", %u experts, top %u, hidden %u;\nwith %llu tokens a PE sends %s to other nodes\n",
           self->experts, self->top_k, self->hidden, (unsigned long long)self->tokens.values[0],
           prs_size_text((uint64_t)prs_alltoall_bytes(self, 0) / 1024 * 1024, size, sizeof size));
    printf("Median time; alpha and GB/s: the line through the medians, against the bytes of a PE; "
           "the rest is\nfor %llu tokens: efficiency against put-only under %s, and counts per "
           "round over all PEs.\n",
           (unsigned long long)self->tokens.values[0],
           perseus_ordering_name(modes->mode[modes->reference].ordering));
    prs_bench_print_not_kept(modes);
    putchar('\n');
}

/* How an unchanged program, which calls put_signal_nbi, does under drain and under the reference
 * mode. False when either was not measured. */
struct unchanged {
    struct prs_bench_summary drain, best; /* of one cell */
};

static bool unchanged_of(const struct prs_alltoall *self, uint32_t cell, struct unchanged *out)
{
    const struct prs_bench_modes *modes = &self->shared.modes;
    uint32_t drain = prs_bench_baseline(modes);
    out->drain = summary_of(self, cell, drain, PRS_BENCH_COUPLED);
    out->best = summary_of(self, cell, modes->reference, PRS_BENCH_COUPLED);
    return drain != modes->reference && out->drain.n_rounds > 0 && out->best.n_rounds > 0;
}

static double speedup_of(const struct unchanged *unchanged)
{
    return unchanged->drain.time_us.median / unchanged->best.time_us.median;
}

static void print_conclusion(const struct prs_alltoall *self)
{
    const struct prs_bench_modes *modes = &self->shared.modes;
    struct unchanged unchanged;
    double peak = 0, sum = 0;
    for (uint32_t cell = 0; cell < self->tokens.n; cell++) {
        if (!unchanged_of(self, cell, &unchanged)) {
            return;
        }
        double speedup = speedup_of(&unchanged);
        peak = speedup > peak ? speedup : peak;
        sum += speedup / self->tokens.n;
    }
    struct prs_fit drain = fit_of(self, prs_bench_baseline(modes), PRS_BENCH_COUPLED);
    struct prs_fit best = fit_of(self, modes->reference, PRS_BENCH_COUPLED);
    printf("\nA program that calls put_signal_nbi and is not changed (coupled) gains by the "
           "ordering mode alone:\n%s instead of %s makes it %.1f times as fast at best, %.1f "
           "times on average",
           perseus_ordering_name(modes->mode[modes->reference].ordering),
           perseus_ordering_name(modes->mode[prs_bench_baseline(modes)].ordering), peak, sum);
    if (!isnan(best.alpha)) {
        printf("; its fitted alpha goes from %.0f us to %.0f us", drain.alpha, best.alpha);
    }
    printf(".\n");
}

bool prs_alltoall_print(const struct prs_comparison *shared)
{
    const struct prs_alltoall *self = (const struct prs_alltoall *)shared;
    print_head(self);
    bool is_printed = print_table(self);
    print_conclusion(self);
    return is_printed;
}

/* ---- JSON ---- */

json_t *prs_alltoall_cell_json(const struct prs_comparison *shared, uint32_t cell)
{
    const struct prs_alltoall *self = (const struct prs_alltoall *)shared;
    return json_pack("{s:I, s:o}", "tokens", (json_int_t)self->tokens.values[cell], "bytes",
                     prs_json_number(prs_alltoall_bytes(self, cell)));
}

static json_t *fits_json(const struct prs_alltoall *self)
{
    json_t *fits = json_array();
    for (int p = 0; p < PRS_BENCH_PROTOCOL_COUNT; p++) {
        enum prs_bench_protocol protocol = (enum prs_bench_protocol)p;
        for (uint32_t mode = 0; mode < self->shared.modes.n; mode++) {
            if (!is_measured(self, mode, protocol)) {
                continue;
            }
            struct prs_fit fit = fit_of(self, mode, protocol);
            const struct prs_bench_protocol_info *info = prs_bench_protocol_info(protocol);
            json_array_append_new(
                fits,
                json_pack("{s:s, s:b, s:s, s:o, s:o, s:o, s:o}", "protocol", info->name, "vector",
                          info->is_vector, "ordering",
                          perseus_ordering_name(self->shared.modes.mode[mode].ordering), "alpha_us",
                          prs_json_number(fit.alpha), "beta_us_per_byte", prs_json_number(fit.beta),
                          "gigabytes_per_s", prs_json_number(bandwidth_of(&fit)), "r2",
                          prs_json_number(fit.r2)));
        }
    }
    return fits;
}

static json_t *unchanged_json(const struct prs_alltoall *self)
{
    const struct prs_bench_modes *modes = &self->shared.modes;
    json_t *rows = json_array();
    for (uint32_t cell = 0; cell < self->tokens.n; cell++) {
        struct unchanged unchanged;
        if (unchanged_of(self, cell, &unchanged)) {
            json_array_append_new(
                rows, json_pack("{s:I, s:o, s:s, s:o, s:o}", "tokens",
                                (json_int_t)self->tokens.values[cell], "drain_us",
                                prs_json_number(unchanged.drain.time_us.median), "ordering",
                                perseus_ordering_name(modes->mode[modes->reference].ordering),
                                "time_us", prs_json_number(unchanged.best.time_us.median),
                                "speedup", prs_json_number(speedup_of(&unchanged))));
        }
    }
    return rows;
}

void prs_alltoall_describe(const struct prs_comparison *shared, json_t *document)
{
    const struct prs_alltoall *self = (const struct prs_alltoall *)shared;
    json_object_set_new(document, "experts", json_integer(self->experts));
    json_object_set_new(document, "top_k", json_integer(self->top_k));
    json_object_set_new(document, "hidden", json_integer(self->hidden));
    json_object_set_new(document, "fits", fits_json(self));
    json_object_set_new(document, "unchanged_callers", unchanged_json(self));
}
