/* SPDX-License-Identifier: Apache-2.0 */
#include "kit/table.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct prs_table {
    const struct prs_table_column *columns;
    size_t n_columns;
    char **cells; /* row after row */
    size_t n_cells, capacity;
    bool has_failed;
};

struct prs_table *prs_table_create(const struct prs_table_column *columns, size_t n)
{
    struct prs_table *table = calloc(1, sizeof *table);
    if (table != NULL) {
        table->columns = columns;
        table->n_columns = n;
    }
    return table;
}

void prs_table_destroy(struct prs_table *table)
{
    if (table == NULL) {
        return;
    }
    for (size_t i = 0; i < table->n_cells; i++) {
        free(table->cells[i]);
    }
    free(table->cells);
    free(table);
}

static bool reserve_cell(struct prs_table *table)
{
    if (table->n_cells < table->capacity) {
        return true;
    }
    size_t capacity = table->capacity == 0 ? 64 : table->capacity * 2;
    char **cells = realloc(table->cells, capacity * sizeof *cells);
    if (cells == NULL) {
        return false;
    }
    table->cells = cells;
    table->capacity = capacity;
    return true;
}

void prs_table_cell(struct prs_table *table, const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (!reserve_cell(table) || vasprintf(&text, format, arguments) < 0) {
        table->has_failed = true;
    } else {
        table->cells[table->n_cells++] = text;
    }
    va_end(arguments);
}

void prs_table_end_row(struct prs_table *table)
{
    while (table->n_cells % table->n_columns != 0 && !table->has_failed) {
        prs_table_cell(table, "%s", "");
    }
}

/* Columns on the terminal: UTF-8 continuation bytes take none. */
static int width_of(const char *text)
{
    int width = 0;
    for (; *text != '\0'; text++) {
        width += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return width;
}

static int column_width(const struct prs_table *table, size_t column)
{
    int width = width_of(table->columns[column].title);
    for (size_t i = column; i < table->n_cells; i += table->n_columns) {
        int cell = width_of(table->cells[i]);
        width = cell > width ? cell : width;
    }
    return width;
}

/* cells NULL: the titles. */
static void print_row(const struct prs_table *table, char *const *cells, size_t n,
                      const int *widths, FILE *to)
{
    for (size_t i = 0; i < n; i++) {
        const char *text = cells != NULL ? cells[i] : table->columns[i].title;
        int padding = widths[i] - width_of(text);
        bool is_right = table->columns[i].align == PRS_ALIGN_RIGHT;
        /* The last column is not padded. */
        int after = is_right || i + 1 == n ? 0 : padding;
        fprintf(to, "%s%*s%s%*s", i == 0 ? "" : "  ", is_right ? padding : 0, "", text, after, "");
    }
    fputc('\n', to);
}

bool prs_table_print(const struct prs_table *table, FILE *to)
{
    int *widths = calloc(table->n_columns, sizeof *widths);
    if (widths == NULL) {
        return false;
    }
    for (size_t i = 0; i < table->n_columns; i++) {
        widths[i] = column_width(table, i);
    }
    print_row(table, NULL, table->n_columns, widths, to);
    for (size_t i = 0; i < table->n_cells; i += table->n_columns) {
        size_t left = table->n_cells - i;
        print_row(table, table->cells + i, left < table->n_columns ? left : table->n_columns,
                  widths, to);
    }
    free(widths);
    return !table->has_failed && ferror(to) == 0;
}

const char *prs_size_text(uint64_t bytes, char *out, size_t out_bytes)
{
    bool is_mib = bytes >= 1 << 20 && bytes % (1 << 20) == 0;
    bool is_kib = bytes >= 1 << 10 && bytes % (1 << 10) == 0;
    uint64_t number = is_mib ? bytes >> 20 : is_kib ? bytes >> 10 : bytes;
    snprintf(out, out_bytes, "%llu %s", (unsigned long long)number,
             is_mib   ? "MiB"
             : is_kib ? "KiB"
                      : "bytes");
    return out;
}
