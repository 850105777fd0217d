#include "bench_put_signal.h"

#include <stdio.h>

#include "table.h"

enum { TITLE_BYTES = 16, FIXED_COLUMNS = 11 };

static struct prs_bench_summary summary_of(const struct prs_put_signal *bench, uint32_t cell,
                                           uint32_t mode, enum prs_bench_protocol protocol)
{
    return prs_bench_results_summary(bench->results, cell, mode, protocol, bench->modes.reference);
}

/* ---- one block: a number of peers and a size ---- */

struct columns {
    char titles[PRS_LIST_MAX][TITLE_BYTES]; /* of the numbers of transfers */
    struct prs_table_column column[PRS_LIST_MAX + FIXED_COLUMNS];
    size_t n;
};

static void lay_columns(const struct prs_put_signal *bench, struct columns *out)
{
    static const char *const behind[] = {"of signalled", "median us", "p10",      "p90",   "fences",
                                         "drains",       "AGAIN",     "messages", "errors"};
    out->n = 0;
    out->column[out->n++] = (struct prs_table_column){"protocol", PRS_ALIGN_LEFT};
    out->column[out->n++] = (struct prs_table_column){"ordering", PRS_ALIGN_LEFT};
    for (uint32_t t = 0; t < bench->transfers.n; t++) {
        snprintf(out->titles[t], TITLE_BYTES, "x%llu",
                 (unsigned long long)bench->transfers.values[t]);
        out->column[out->n++] = (struct prs_table_column){out->titles[t], PRS_ALIGN_RIGHT};
    }
    for (size_t i = 0; i < sizeof behind / sizeof behind[0]; i++) {
        out->column[out->n++] = (struct prs_table_column){behind[i], PRS_ALIGN_RIGHT};
    }
}

/* first: the block's first cell; its others follow, one per number of transfers. */
static void add_row(const struct prs_put_signal *bench, uint32_t first, uint32_t mode,
                    enum prs_bench_protocol protocol, struct prs_table *table)
{
    const struct prs_bench_protocol_info *info = prs_bench_protocol_info(protocol);
    uint64_t errors = 0;
    prs_table_cell(table, "%s%s", info->name, info->is_vector ? " vector" : "");
    prs_table_cell(table, "%s", perseus_ordering_name(bench->modes.mode[mode].ordering));
    struct prs_bench_summary last = {0};
    for (uint32_t t = 0; t < bench->transfers.n; t++) {
        last = summary_of(bench, first + t, mode, protocol);
        errors += last.payload_errors;
        prs_table_cell(table, "%.0f%%", 100 * last.efficiency);
    }
    prs_table_cell(table, "%.0f%%", 100 * last.efficiency_signalled);
    prs_table_cell(table, "%.0f", last.time_us.median);
    prs_table_cell(table, "%.0f", last.time_us.p10);
    prs_table_cell(table, "%.0f", last.time_us.p90);
    prs_table_cell(table, "%.0f", last.fences);
    prs_table_cell(table, "%.0f", last.drains);
    prs_table_cell(table, "%.1f", last.again);
    prs_table_cell(table, "%.0f", last.signal_messages);
    prs_table_cell(table, "%llu", (unsigned long long)errors);
}

static bool print_block(const struct prs_put_signal *bench, uint32_t first)
{
    char size[32];
    const struct prs_put_signal_cell *cell = &bench->cells[first];
    struct columns columns;
    lay_columns(bench, &columns);
    struct prs_table *table = prs_table_create(columns.column, columns.n);
    if (table == NULL) {
        return false;
    }
    for (int p = 0; p < PRS_BENCH_PROTOCOL_COUNT; p++) {
        for (uint32_t m = 0; m < bench->modes.n; m++) {
            if (bench->modes.mode[m].is_kept &&
                prs_bench_has_protocol(&bench->setup, (enum prs_bench_protocol)p)) {
                add_row(bench, first, m, (enum prs_bench_protocol)p, table);
            }
        }
    }
    printf("\n%s each, to %u PE%s\n", prs_size_text(cell->bytes, size, sizeof size), cell->peers,
           cell->peers == 1 ? "" : "s");
    bool is_printed = prs_table_print(table, stdout);
    prs_table_destroy(table);
    return is_printed;
}

/* ---- around the blocks ---- */

static void print_head(const struct prs_put_signal *bench)
{
    const struct prs_bench_modes *modes = &bench->modes;
    printf("perseus bench put-signal: fabric %s, provider %s%s%s, %u nodes x %u PE%s, %s\n",
           modes->fabric, modes->provider, bench->setup.link != NULL ? ", link " : "",
           bench->setup.link != NULL ? bench->setup.link : "", bench->setup.nodes,
           bench->setup.pes_per_node, bench->setup.pes_per_node == 1 ? "" : "s",
           bench->do_all ? "every PE sends" : "PE 0 sends");
    printf("Columns x1, x8, ...: efficiency with that many concurrent transfers, which is the time "
           "of put-only\nunder %s over the row's time. What follows is for the last of them: "
           "efficiency against puts with\nbare signals, time, and counts per round; errors are of "
           "all rounds.\n",
           perseus_ordering_name(modes->mode[modes->reference].ordering));
    prs_bench_print_not_kept(modes);
}

/* The cell that shows the matter best: most peers, smallest transfers, most of them. */
static uint32_t telling_cell(const struct prs_put_signal *bench)
{
    uint32_t best = 0;
    for (uint32_t c = 1; c < bench->n_cells; c++) {
        const struct prs_put_signal_cell *a = &bench->cells[c], *b = &bench->cells[best];
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

static void print_conclusion(const struct prs_put_signal *bench)
{
    const struct prs_bench_modes *modes = &bench->modes;
    uint32_t c = telling_cell(bench), base = prs_bench_baseline(modes);
    const struct prs_put_signal_cell *cell = &bench->cells[c];
    struct prs_bench_summary coupled = summary_of(bench, c, base, PRS_BENCH_COUPLED);
    struct prs_bench_summary plain = summary_of(bench, c, modes->reference, PRS_BENCH_DECOUPLED);
    struct prs_bench_summary vector =
        summary_of(bench, c, modes->reference, PRS_BENCH_DECOUPLED_VECTOR);
    const struct prs_bench_summary *best = plain.n_rounds > 0 ? &plain : &vector;
    char size[32];
    if (coupled.n_rounds == 0 || best->n_rounds == 0) {
        return; /* nothing to compare was asked for */
    }
    printf("\nWith %u transfers of %s to %u PE%s, signaling every put by itself under %s (coupled) "
           "leaves\n%.0f%% of the put-only rate, with %.0f drains a round. ",
           cell->transfers, prs_size_text(cell->bytes, size, sizeof size), cell->peers,
           cell->peers == 1 ? "" : "s", perseus_ordering_name(modes->mode[base].ordering),
           100 * coupled.efficiency, coupled.drains);
    printf("Signaling in groups (decoupled) under %s leaves\n%.0f%%, which is %.0f%% of puts with "
           "bare signals and %.1f times as fast",
           perseus_ordering_name(modes->mode[modes->reference].ordering), 100 * best->efficiency,
           100 * best->efficiency_signalled, coupled.time_us.median / best->time_us.median);
    if (plain.n_rounds > 0 && vector.n_rounds > 0) {
        printf("; vector signals make it %.0f%%", 100 * vector.efficiency);
    }
    printf(".\n");
}

bool prs_put_signal_print(const struct prs_put_signal *bench)
{
    print_head(bench);
    bool is_printed = true;
    for (uint32_t c = 0; c < bench->n_cells && is_printed; c += bench->transfers.n) {
        is_printed = print_block(bench, c);
    }
    print_conclusion(bench);
    return is_printed && fflush(stdout) == 0;
}
