/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/put_signal.h"

#include <stdio.h>

#include "kit/table.h"

enum { TITLE_BYTES = 40, OVERVIEW_COLUMNS = 6, FENCE_COLUMNS = 2 };

static struct prs_bench_summary summary_of(const struct prs_put_signal *self, uint32_t cell,
                                           uint32_t mode, enum prs_bench_protocol protocol)
{
    return prs_comparison_summary(&self->shared, cell, mode, protocol);
}

static const char *mode_name(const struct prs_put_signal *self, uint32_t mode)
{
    return perseus_ordering_name(self->shared.modes.mode[mode].ordering);
}

/* ---- the overview: a line per cell ---- */

/* A protocol and a mode whose efficiency is a column. */
struct column {
    enum prs_bench_protocol protocol;
    uint32_t mode;
    char title[TITLE_BYTES];
};

/* What the two levers do, apart and together: who signals when, and how order is kept. */
static size_t choose_columns(const struct prs_put_signal *self, struct column *out)
{
    uint32_t base = prs_bench_baseline(&self->shared.modes),
             reference = self->shared.modes.reference;
    const struct column wanted[OVERVIEW_COLUMNS] = {
        {.protocol = PRS_BENCH_COUPLED, .mode = base},
        {.protocol = PRS_BENCH_COUPLED, .mode = reference},
        {.protocol = PRS_BENCH_DECOUPLED, .mode = base},
        {.protocol = PRS_BENCH_DECOUPLED, .mode = reference},
        {.protocol = PRS_BENCH_DECOUPLED_VECTOR, .mode = reference},
        {.protocol = PRS_BENCH_COLLECTIVE, .mode = reference},
    };
    size_t n = 0;
    for (size_t i = 0; i < OVERVIEW_COLUMNS; i++) {
        bool is_double =
            n > 0 && out[n - 1].protocol == wanted[i].protocol && out[n - 1].mode == wanted[i].mode;
        if (!is_double && prs_bench_has_protocol(&self->shared.setup, wanted[i].protocol)) {
            out[n] = wanted[i];
            snprintf(out[n].title, TITLE_BYTES, "%s %s",
                     prs_bench_protocol_info(wanted[i].protocol)->title,
                     mode_name(self, wanted[i].mode));
            n++;
        }
    }
    return n;
}

/* What fences cost whom signals put by put: the time and its share (the paper's figures 5b, 5c). */
static bool has_fence_columns(const struct prs_put_signal *self)
{
    return prs_bench_has_protocol(&self->shared.setup, PRS_BENCH_COUPLED);
}

static void add_cell(const struct prs_put_signal *self, uint32_t index,
                     const struct column *columns, size_t n, struct prs_table *table)
{
    char size[32];
    const struct prs_put_signal_cell *cell = &self->cells[index];
    struct prs_bench_summary ceiling =
        summary_of(self, index, self->shared.modes.reference, PRS_BENCH_PUT_ONLY);
    prs_table_cell(table, "%u", cell->peers);
    prs_table_cell(table, "%s", prs_size_text(cell->bytes, size, sizeof size));
    prs_table_cell(table, "%u", cell->transfers);
    prs_table_cell(table, "%.0f", ceiling.time_us.median);
    for (size_t i = 0; i < n; i++) {
        struct prs_bench_summary summary =
            summary_of(self, index, columns[i].mode, columns[i].protocol);
        prs_table_cell(table, "%.0f%%", 100 * summary.efficiency);
    }
    struct prs_bench_summary coupled =
        summary_of(self, index, prs_bench_baseline(&self->shared.modes), PRS_BENCH_COUPLED);
    if (has_fence_columns(self)) {
        prs_table_cell(table, "%.0f", coupled.fence_us);
        prs_table_cell(table, "%.0f%%", 100 * coupled.fence_share);
    }
}

static bool print_overview(const struct prs_put_signal *self)
{
    struct column chosen[OVERVIEW_COLUMNS];
    size_t n = choose_columns(self, chosen);
    struct prs_table_column columns[4 + OVERVIEW_COLUMNS + FENCE_COLUMNS] = {
        {"PEs", PRS_ALIGN_RIGHT},
        {"each", PRS_ALIGN_RIGHT},
        {"transfers", PRS_ALIGN_RIGHT},
        {"put-only us", PRS_ALIGN_RIGHT}};
    for (size_t i = 0; i < n; i++) {
        columns[4 + i] = (struct prs_table_column){chosen[i].title, PRS_ALIGN_RIGHT};
    }
    size_t n_columns = 4 + n;
    if (has_fence_columns(self)) {
        columns[n_columns++] = (struct prs_table_column){"fence us", PRS_ALIGN_RIGHT};
        columns[n_columns++] = (struct prs_table_column){"of its time", PRS_ALIGN_RIGHT};
    }
    struct prs_table *table = prs_table_create(columns, n_columns);
    if (table == NULL) {
        return false;
    }
    for (uint32_t c = 0; c < self->n_cells; c++) {
        if (!prs_put_signal_is_left_out(&self->shared, c)) {
            add_cell(self, c, chosen, n, table);
        }
    }
    printf("\nEfficiency: the time of put-only under %s over that of",
           mode_name(self, self->shared.modes.reference));
    if (has_fence_columns(self)) {
        printf(" each;\nfence: what coupled under %s stands still in fences, of all senders",
               mode_name(self, prs_bench_baseline(&self->shared.modes)));
    }
    printf("\n\n");
    bool is_printed = prs_table_print(table, stdout);
    prs_table_destroy(table);
    return is_printed;
}

/* ---- one cell: a line per protocol and mode ---- */

static void add_row(const struct prs_put_signal *self, uint32_t cell, uint32_t mode,
                    enum prs_bench_protocol protocol, struct prs_table *table)
{
    struct prs_bench_summary row = summary_of(self, cell, mode, protocol);
    prs_table_cell(table, "%s", prs_bench_protocol_info(protocol)->title);
    prs_table_cell(table, "%s", mode_name(self, mode));
    prs_table_cell(table, "%.0f%%", 100 * row.efficiency);
    prs_table_cell(table, "%.0f%%", 100 * row.efficiency_signalled);
    prs_table_cell(table, "%.0f", row.time_us.median);
    prs_table_cell(table, "%.0f", row.time_us.p10);
    prs_table_cell(table, "%.0f", row.time_us.p90);
    prs_table_cell(table, "%.0f", row.fences);
    prs_table_cell(table, "%.0f", row.drains);
    prs_table_cell(table, "%.0f", row.fence_us);
    prs_table_cell(table, "%.0f%%", 100 * row.fence_share);
    prs_table_cell(table, "%.1f", row.again);
    prs_table_cell(table, "%.0f", row.signal_messages);
    prs_table_cell(table, "%llu", (unsigned long long)row.payload_errors);
}

static bool print_cell(const struct prs_put_signal *self, uint32_t index)
{
    static const struct prs_table_column columns[] = {
        {"protocol", PRS_ALIGN_LEFT},     {"ordering", PRS_ALIGN_LEFT},
        {"efficiency", PRS_ALIGN_RIGHT},  {"of signalled", PRS_ALIGN_RIGHT},
        {"median us", PRS_ALIGN_RIGHT},   {"p10", PRS_ALIGN_RIGHT},
        {"p90", PRS_ALIGN_RIGHT},         {"fences", PRS_ALIGN_RIGHT},
        {"drains", PRS_ALIGN_RIGHT},      {"fence us", PRS_ALIGN_RIGHT},
        {"of its time", PRS_ALIGN_RIGHT}, {"AGAIN", PRS_ALIGN_RIGHT},
        {"messages", PRS_ALIGN_RIGHT},    {"errors", PRS_ALIGN_RIGHT},
    };
    char size[32];
    const struct prs_put_signal_cell *cell = &self->cells[index];
    struct prs_table *table = prs_table_create(columns, sizeof columns / sizeof columns[0]);
    if (table == NULL) {
        return false;
    }
    for (int p = 0; p < PRS_BENCH_PROTOCOL_COUNT; p++) {
        enum prs_bench_protocol protocol = (enum prs_bench_protocol)p;
        for (uint32_t m = 0; m < self->shared.modes.n; m++) {
            if (self->shared.modes.mode[m].is_kept &&
                prs_bench_has_protocol(&self->shared.setup, protocol)) {
                add_row(self, index, m, protocol, table);
            }
        }
    }
    printf("\n%u transfer%s of %s to %u PE%s\n\n", cell->transfers, cell->transfers == 1 ? "" : "s",
           prs_size_text(cell->bytes, size, sizeof size), cell->peers, cell->peers == 1 ? "" : "s");
    bool is_printed = prs_table_print(table, stdout);
    prs_table_destroy(table);
    return is_printed;
}

/* ---- around them ---- */

static void print_head(const struct prs_put_signal *self)
{
    printf("perseus bench put-signal: ");
    prs_comparison_print_place(&self->shared);
    printf(", %s\n", self->do_all ? "every PE sends" : "PE 0 sends");
    prs_bench_print_not_kept(&self->shared.modes);
}

/* The cell that shows the matter best: most peers, smallest transfers, most of them. */
static uint32_t telling_cell(const struct prs_put_signal *self)
{
    uint32_t best = 0;
    for (uint32_t c = 1; c < self->n_cells; c++) {
        if (prs_put_signal_is_left_out(&self->shared, c)) {
            continue;
        }
        const struct prs_put_signal_cell *a = &self->cells[c], *b = &self->cells[best];
        if (a->peers != b->peers) {
            best = a->peers > b->peers ? c : best;
        } else if (a->bytes != b->bytes) {
            best = a->bytes < b->bytes ? c : best;
        } else if (a->transfers > b->transfers) {
            best = c;
        }
    }
    return best;
}

static void print_conclusion(const struct prs_put_signal *self, uint32_t c)
{
    const struct prs_bench_modes *modes = &self->shared.modes;
    uint32_t base = prs_bench_baseline(modes);
    const struct prs_put_signal_cell *cell = &self->cells[c];
    struct prs_bench_summary coupled = summary_of(self, c, base, PRS_BENCH_COUPLED);
    struct prs_bench_summary plain = summary_of(self, c, modes->reference, PRS_BENCH_DECOUPLED);
    struct prs_bench_summary vector =
        summary_of(self, c, modes->reference, PRS_BENCH_DECOUPLED_VECTOR);
    const struct prs_bench_summary *best = plain.n_rounds > 0 ? &plain : &vector;
    char size[32];
    if (coupled.n_rounds == 0 || best->n_rounds == 0) {
        return; /* nothing to compare was asked for */
    }
    printf("\nWith %u transfers of %s to %u PE%s, signaling every put by itself under %s (coupled) "
           "leaves\n%.0f%% of the put-only rate, with %.0f drains a round. ",
           cell->transfers, prs_size_text(cell->bytes, size, sizeof size), cell->peers,
           cell->peers == 1 ? "" : "s", mode_name(self, base), 100 * coupled.efficiency,
           coupled.drains);
    printf("Signaling in groups (decoupled) under %s leaves\n%.0f%%, which is %.0f%% of puts with "
           "bare signals and %.1f times as fast",
           mode_name(self, modes->reference), 100 * best->efficiency,
           100 * best->efficiency_signalled, coupled.time_us.median / best->time_us.median);
    if (plain.n_rounds > 0 && vector.n_rounds > 0) {
        printf("; vector signals make it %.0f%%", 100 * vector.efficiency);
    }
    printf(".\n");
}

bool prs_put_signal_print(const struct prs_comparison *shared)
{
    const struct prs_put_signal *self = (const struct prs_put_signal *)shared;
    uint32_t telling = telling_cell(self);
    print_head(self);
    bool is_printed = self->n_cells == 1 || print_overview(self);
    for (uint32_t c = 0; c < self->n_cells && is_printed; c++) {
        if (c == telling || (self->has_details && !prs_put_signal_is_left_out(&self->shared, c))) {
            is_printed = print_cell(self, c);
        }
    }
    print_conclusion(self, telling);
    return is_printed;
}
