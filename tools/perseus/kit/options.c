/* SPDX-License-Identifier: Apache-2.0 */
#include "kit/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "kit/exit.h"

enum { PRS_WORD_MAX = 64 };

/* A name of one letter has one dash: -n N. */
static const char *dashes(const struct prs_option *option)
{
    return option->name[1] == '\0' ? "-" : "--";
}

static bool is_option(const char *word)
{
    return word[0] == '-' && word[1] != '\0' &&
           (word[1] == '-' ? word[2] != '\0' : word[2] == '\0');
}

static void print_help(const struct prs_command *command)
{
    printf("usage: %s [options]%s%s\n\n%s\n\noptions:\n", command->name,
           command->operands != NULL ? " " : "", command->operands != NULL ? command->operands : "",
           command->summary);
    for (size_t i = 0; i < command->n_options; i++) {
        const struct prs_option *option = &command->options[i];
        char left[PRS_WORD_MAX];
        snprintf(left, sizeof left, "%s%s%s%s", dashes(option), option->name,
                 option->argument != NULL ? " " : "",
                 option->argument != NULL ? option->argument : "");
        const char *line = option->help;
        for (const char *indent = left; line != NULL; indent = "") {
            const char *end = strchr(line, '\n');
            int length = end != NULL ? (int)(end - line) : (int)strlen(line);
            printf("  %-24s %.*s\n", indent, length, line);
            line = end != NULL ? end + 1 : NULL;
        }
    }
    printf("  %-24s %s\n", "--help", "this text");
}

int prs_command_mistake(const struct prs_command *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", command->name);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "; see %s --help\n", command->name);
    va_end(arguments);
    return PRS_EXIT_USAGE;
}

static const struct prs_option *find_option(const struct prs_command *command, const char *name,
                                            size_t length)
{
    for (size_t i = 0; i < command->n_options; i++) {
        const char *candidate = command->options[i].name;
        if (strncmp(candidate, name, length) == 0 && candidate[length] == '\0') {
            return &command->options[i];
        }
    }
    return NULL;
}

/* Handles argv[*index], an option, and its value; advances past both. False: a mistake, told. */
static bool parse_one(const struct prs_command *command, int argc, char **argv, int *index)
{
    const char *word = argv[*index];
    const char *name = word + (word[1] == '-' ? 2 : 1);
    const char *equals = strchr(name, '=');
    size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
    const struct prs_option *option = find_option(command, name, length);
    *index += 1;
    if (option == NULL || name - word != (ptrdiff_t)strlen(dashes(option))) {
        prs_command_mistake(command, "unknown option %.*s", (int)(name - word + length), word);
        return false;
    }
    const char *value = equals != NULL ? equals + 1 : NULL;
    if (option->argument == NULL && value != NULL) {
        prs_command_mistake(command, "%s%s takes no value", dashes(option), option->name);
        return false;
    }
    if (option->argument != NULL && value == NULL) {
        if (*index == argc) {
            prs_command_mistake(command, "%s%s needs a value: %s", dashes(option), option->name,
                                option->argument);
            return false;
        }
        value = argv[*index];
        *index += 1;
    }
    const char *expected = option->parse(value, option->target);
    if (expected != NULL) {
        prs_command_mistake(command, "%s%s %s: expected %s", dashes(option), option->name, value,
                            expected);
        return false;
    }
    return true;
}

bool prs_command_parse(const struct prs_command *command, int argc, char **argv, int *out_rest,
                       int *out_exit)
{
    int index = 1;
    while (index < argc && is_option(argv[index])) {
        if (strcmp(argv[index], "--help") == 0) {
            print_help(command);
            *out_exit = PRS_EXIT_OK;
            return false;
        }
        if (!parse_one(command, argc, argv, &index)) {
            *out_exit = PRS_EXIT_USAGE;
            return false;
        }
    }
    if (index < argc && strcmp(argv[index], "--") == 0) {
        index++;
    }
    if (index < argc && command->operands == NULL) {
        *out_exit = prs_command_mistake(command, "unexpected word \"%s\"", argv[index]);
        return false;
    }
    if (out_rest != NULL) {
        *out_rest = index;
    }
    return true;
}

const char *prs_parse_on(const char *text, void *target)
{
    (void)text;
    *(bool *)target = true;
    return NULL;
}

const char *prs_parse_off(const char *text, void *target)
{
    (void)text;
    *(bool *)target = false;
    return NULL;
}

const char *prs_parse_text(const char *text, void *target)
{
    if (text[0] == '\0') {
        return "a word that is not empty";
    }
    *(const char **)target = text;
    return NULL;
}

static bool parse_digits(const char *text, uint64_t max, uint64_t *out)
{
    uint64_t value = 0;
    if (text[0] == '\0') {
        return false;
    }
    for (; *text != '\0'; text++) {
        uint64_t digit = (uint64_t)(unsigned char)*text - '0';
        if (digit > 9 || value > (max - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *out = value;
    return true;
}

static const char *parse_count(const char *text, uint64_t *out)
{
    uint64_t value = 0;
    if (!parse_digits(text, 1000000, &value) || value == 0) {
        return "a number from 1 to 1000000";
    }
    *out = value;
    return NULL;
}

const char *prs_parse_count(const char *text, void *target)
{
    uint64_t value = 0;
    const char *expected = parse_count(text, &value);
    if (expected == NULL) {
        *(uint32_t *)target = (uint32_t)value;
    }
    return expected;
}

const char *prs_parse_seed(const char *text, void *target)
{
    return parse_digits(text, INT64_MAX, target) ? NULL : "a number from 0 to 2^63-1";
}

const char *prs_parse_size(const char *text, void *target)
{
    uint64_t value = 0;
    if (prs_parse_bytes(text, &value) != PERSEUS_OK || value < 8 || value > UINT64_C(1) << 30) {
        return "a size from 8 to 1G (K, M, G suffixes)";
    }
    *(uint64_t *)target = value;
    return NULL;
}

const char *prs_parse_words(const char *text, const char *(*each)(const char *word, void *target),
                            void *target)
{
    for (;;) {
        char word[PRS_WORD_MAX];
        size_t length = strcspn(text, ",");
        if (length == 0 || length >= sizeof word) {
            return "words separated by commas, none empty";
        }
        memcpy(word, text, length);
        word[length] = '\0';
        const char *expected = each(word, target);
        if (expected != NULL || text[length] == '\0') {
            return expected;
        }
        text += length + 1;
    }
}

static const char *list_append(struct prs_list *list, uint64_t value)
{
    if (list->n == PRS_LIST_MAX) {
        return "at most 16 values";
    }
    for (uint32_t i = 0; i < list->n; i++) {
        if (list->values[i] == value) {
            return "every value once";
        }
    }
    list->values[list->n++] = value;
    return NULL;
}

static const char *append_count(const char *word, void *target)
{
    uint64_t value = 0;
    const char *expected = parse_count(word, &value);
    return expected != NULL ? expected : list_append(target, value);
}

static const char *append_size(const char *word, void *target)
{
    uint64_t value = 0;
    const char *expected = prs_parse_size(word, &value);
    return expected != NULL ? expected : list_append(target, value);
}

/* A list given replaces the default, so it is collected apart. */
static const char *parse_list(const char *text, const char *(*append)(const char *, void *),
                              struct prs_list *target)
{
    struct prs_list list = {.n = 0};
    const char *expected = prs_parse_words(text, append, &list);
    if (expected == NULL) {
        *target = list;
    }
    return expected;
}

const char *prs_parse_counts(const char *text, void *target)
{
    return parse_list(text, append_count, target);
}

const char *prs_parse_sizes(const char *text, void *target)
{
    return parse_list(text, append_size, target);
}
