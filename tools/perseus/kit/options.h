/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h: one table per command is its parser and its --help.
 *
 * `--name value` and `--name=value` are the same; a name of one letter has one dash: `-n 4`.
 * `--` ends the options.
 *
 * Errors go to stderr in one line that names the option, what it got, what it takes, and where the
 * help is.
 */
#ifndef PRS_TOOLS_OPTIONS_H
#define PRS_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct prs_option {
    const char *name;     /* without the leading dashes */
    const char *argument; /* word for its value in the help, NULL for a flag */
    const char *help;     /* may hold newlines */
    /* Stores the value (text is NULL for a flag) in target and returns NULL, or returns the words
     * for what it takes ("a number from 1 to 64"). */
    const char *(*parse)(const char *text, void *target);
    void *target;
};

struct prs_command {
    const char *name;     /* as typed: "perseus bench put-signal" */
    const char *operands; /* what follows the options in the usage line, or NULL: nothing may */
    const char *summary;  /* one or more lines above the options */
    const struct prs_option *options;
    size_t n_options;
};

/* Whether to go on. If so, *out_rest (may be NULL) is the index of the first operand; if not,
 * *out_exit is what to return: 0 after --help, 2 after a mistake. */
bool prs_command_parse(const struct prs_command *command, int argc, char **argv, int *out_rest,
                       int *out_exit);
/* Prints a mistake that only shows when options are seen together; returns the exit code 2. */
int prs_command_mistake(const struct prs_command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Parsers for the tables; the comment is the type of target. */
const char *prs_parse_on(const char *text, void *target);    /* bool := true */
const char *prs_parse_off(const char *text, void *target);   /* bool := false */
const char *prs_parse_text(const char *text, void *target);  /* const char *; not empty */
const char *prs_parse_count(const char *text, void *target); /* uint32_t, 1 to 1,000,000 */
const char *prs_parse_seed(const char *text, void *target);  /* uint64_t that JSON can hold */
const char *prs_parse_size(const char *text, void *target);  /* uint64_t bytes, 8 to 1G, K M G */

#define PRS_LIST_MAX 16
/* A comma-separated list; a repeated value is a mistake. */
struct prs_list {
    uint64_t values[PRS_LIST_MAX];
    uint32_t n;
};
const char *prs_parse_counts(const char *text, void *target); /* struct prs_list of counts */
const char *prs_parse_sizes(const char *text, void *target);  /* struct prs_list of sizes */

/* Splits `text` at commas and hands every word to `each`; stops at the first that returns not NULL
 * and returns that. */
const char *prs_parse_words(const char *text, const char *(*each)(const char *word, void *target),
                            void *target);

#endif
