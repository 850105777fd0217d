/* SPDX-License-Identifier: Apache-2.0 */
/* The option parser: every form that is right, every mistake that must be told. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "kit/options.h"

struct parsed {
    bool flag;
    uint32_t count;
    uint64_t seed, size;
    const char *text;
    struct prs_list sizes;
};

static bool parse_with(struct parsed *out, const char *operands, int argc, char **argv, int *rest,
                       int *exit_code)
{
    const struct prs_option options[] = {
        {"flag", NULL, "a flag", prs_parse_on, &out->flag},
        {"no-flag", NULL, "its contrary", prs_parse_off, &out->flag},
        {"count", "N", "a count", prs_parse_count, &out->count},
        {"seed", "N", "a seed", prs_parse_seed, &out->seed},
        {"size", "N", "a size", prs_parse_size, &out->size},
        {"text", "WORD", "a text", prs_parse_text, &out->text},
        {"sizes", "LIST", "sizes", prs_parse_sizes, &out->sizes},
    };
    const struct prs_command command = {
        .name = "perseus test",
        .operands = operands,
        .summary = "A command of the test.",
        .options = options,
        .n_options = sizeof options / sizeof options[0],
    };
    return prs_command_parse(&command, argc, argv, rest, exit_code);
}

/* Parses words up to NULL; whether the command would go on. */
static bool parse(struct parsed *out, int *exit_code, ...)
{
    char *argv[16] = {(char *)(uintptr_t) "test"};
    int argc = 1, rest = 0;
    va_list words;
    va_start(words, exit_code);
    for (char *word; (word = va_arg(words, char *)) != NULL;) {
        argv[argc++] = word;
    }
    va_end(words);
    *out = (struct parsed){.count = 7, .sizes = {.values = {1, 2}, .n = 2}};
    *exit_code = -1;
    return parse_with(out, NULL, argc, argv, &rest, exit_code);
}

static void test_takes_every_form(void **state)
{
    (void)state;
    struct parsed p;
    int exit_code;
    assert_true(parse(&p, &exit_code, "--flag", "--count", "12", "--size=64K", "--text", "--odd",
                      "--seed", "9223372036854775807", NULL));
    assert_true(p.flag);
    assert_int_equal(p.count, 12);
    assert_int_equal(p.size, 65536);
    assert_string_equal(p.text, "--odd");
    assert_true(p.seed == INT64_MAX);
    assert_int_equal(exit_code, -1);
}

static void test_later_options_win(void **state)
{
    (void)state;
    struct parsed p;
    int exit_code;
    assert_true(parse(&p, &exit_code, "--flag", "--no-flag", "--count=1", "--count=2", NULL));
    assert_false(p.flag);
    assert_int_equal(p.count, 2);
}

static void test_list_replaces_default(void **state)
{
    (void)state;
    struct parsed p;
    int exit_code;
    assert_true(parse(&p, &exit_code, "--sizes", "4K,8,1M", NULL));
    assert_int_equal(p.sizes.n, 3);
    assert_int_equal(p.sizes.values[0], 4096);
    assert_int_equal(p.sizes.values[1], 8);
    assert_int_equal(p.sizes.values[2], 1 << 20);
}

static void test_mistakes_end_with_2(void **state)
{
    (void)state;
    static const char *const mistakes[][2] = {
        {"--unknown", NULL},
        {"--coun", "1"}, /* no abbreviations */
        {"--count", NULL},
        {"--count", "0"},
        {"--count", "1000001"},
        {"--count", "-1"},
        {"--count", "1x"},
        {"--count", ""},
        {"--count", "99999999999999999999"},
        {"--seed", "9223372036854775808"},
        {"--seed", " 1"},
        {"--size", "4"},
        {"--size", "2G"},
        {"--size", "K"},
        {"--size", "4KK"},
        {"--text", ""},
        {"--flag=yes", NULL},
        {"--sizes", "8,"},
        {"--sizes", ",8"},
        {"--sizes", "8,8"},
        {"--sizes", "8,4"},
        {"--sizes", "8,16,24,32,40,48,56,64,72,80,88,96,104,112,120,128,136"},
        {"operand", NULL},
        {"--", "operand"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        struct parsed p;
        int exit_code;
        print_message("%s %s\n", mistakes[i][0], mistakes[i][1] != NULL ? mistakes[i][1] : "");
        assert_false(parse(&p, &exit_code, mistakes[i][0], mistakes[i][1], NULL));
        assert_int_equal(exit_code, 2);
        /* A mistake leaves what was there. */
        assert_int_equal(p.count, 7);
        assert_int_equal(p.sizes.n, 2);
    }
}

static void test_help_ends_with_0(void **state)
{
    (void)state;
    struct parsed p;
    int exit_code;
    assert_false(parse(&p, &exit_code, "--count", "3", "--help", NULL));
    assert_int_equal(exit_code, 0);
}

static void test_operands_begin_where_options_end(void **state)
{
    (void)state;
    struct parsed p = {0};
    int exit_code = -1, rest = 0;
    char words[6][12] = {"test", "--flag", "--", "--count", "x", ""};
    char *argv[] = {words[0], words[1], words[2], words[3], words[4]};
    assert_true(parse_with(&p, "-- PROGRAM", 5, argv, &rest, &exit_code));
    assert_int_equal(rest, 3);
    char *plain[] = {words[0], words[1], words[4], words[3]};
    assert_true(parse_with(&p, "PROGRAM", 4, plain, &rest, &exit_code));
    assert_int_equal(rest, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_takes_every_form),
        cmocka_unit_test(test_later_options_win),
        cmocka_unit_test(test_list_replaces_default),
        cmocka_unit_test(test_mistakes_end_with_2),
        cmocka_unit_test(test_help_ends_with_0),
        cmocka_unit_test(test_operands_begin_where_options_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
