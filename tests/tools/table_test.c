/* SPDX-License-Identifier: Apache-2.0 */
/* Tables: alignment, widths, wide characters, short last rows. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "kit/table.h"

static const struct prs_table_column columns[] = {
    {"name", PRS_ALIGN_LEFT}, {"n", PRS_ALIGN_RIGHT}, {"why", PRS_ALIGN_LEFT}};

static void assert_prints(struct prs_table *table, const char *expected)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    assert_true(prs_table_print(table, to));
    fclose(to);
    assert_string_equal(text, expected);
    free(text);
    prs_table_destroy(table);
}

static void test_aligns(void **state)
{
    (void)state;
    struct prs_table *table = prs_table_create(columns, 3);
    prs_table_cell(table, "a");
    prs_table_cell(table, "%d", 12345);
    prs_table_cell(table, "short");
    prs_table_cell(table, "longer name");
    prs_table_cell(table, "%d", 6);
    prs_table_cell(table, "x");
    assert_prints(table, "name             n  why\n"
                         "a            12345  short\n"
                         "longer name      6  x\n");
}

static void test_counts_characters_not_bytes(void **state)
{
    (void)state;
    struct prs_table *table = prs_table_create(columns, 3);
    prs_table_cell(table, "µµµµµ");
    prs_table_cell(table, "1");
    prs_table_end_row(table);
    prs_table_end_row(table); /* between rows: nothing */
    prs_table_cell(table, "abcde");
    prs_table_cell(table, "2");
    prs_table_cell(table, "y");
    assert_prints(table, "name   n  why\n"
                         "µµµµµ  1  \n"
                         "abcde  2  y\n");
}

static void test_prints_a_row_not_ended(void **state)
{
    (void)state;
    struct prs_table *table = prs_table_create(columns, 3);
    prs_table_cell(table, "only");
    assert_prints(table, "name  n  why\nonly\n");
}

static void test_sizes(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {{8, "8 bytes"},
                 {1024, "1 KiB"},
                 {1536, "1536 bytes"},
                 {1 << 20, "1 MiB"},
                 {(1 << 20) + 1024, "1025 KiB"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[32];
        assert_string_equal(prs_size_text(cases[i].bytes, text, sizeof text), cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_aligns),
        cmocka_unit_test(test_counts_characters_not_bytes),
        cmocka_unit_test(test_prints_a_row_not_ended),
        cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
