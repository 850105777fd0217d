/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h: text tables whose columns are as wide as their widest cell. Lines are kept until print.
 *
 * A failed allocation makes the table print what it has and report failure there, so callers need
 * not check every cell.
 */
#ifndef PRS_TOOLS_TABLE_H
#define PRS_TOOLS_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct prs_table;

enum prs_align { PRS_ALIGN_LEFT, PRS_ALIGN_RIGHT };

struct prs_table_column {
    const char *title;
    enum prs_align align;
};

/* columns: kept by the caller until destroy. */
struct prs_table *prs_table_create(const struct prs_table_column *columns, size_t n);
void prs_table_destroy(struct prs_table *table); /* NULL allowed */

/* The next cell of the current row; a row ends by itself after its last column. */
void prs_table_cell(struct prs_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Fills the rest of the current row with empty cells; does nothing between rows. */
void prs_table_end_row(struct prs_table *table);

/* False when memory ran out or writing failed. */
bool prs_table_print(const struct prs_table *table, FILE *to);

/* "4 KiB", "1 MiB", "24 bytes", into out, which is returned. */
const char *prs_size_text(uint64_t bytes, char *out, size_t out_bytes);

#endif
