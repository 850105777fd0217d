/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>

#include "base/env.h"
#include "fabric/faulty/faulty.h"

#define PRS_WORD_MAX 64

enum prs_value_kind {
    PRS_VALUE_TIME,
    PRS_VALUE_RATE,
    PRS_VALUE_SHARE,
    PRS_VALUE_COUNT,
    PRS_VALUE_FLAG
};

struct prs_faulty_key {
    const char *name;
    enum prs_value_kind kind;
    size_t offset; /* of its field in struct prs_faulty_config */
};
static const struct prs_faulty_key prs_faulty_keys[] = {
    {"seed", PRS_VALUE_COUNT, offsetof(struct prs_faulty_config, seed)},
    {"latency", PRS_VALUE_TIME, offsetof(struct prs_faulty_config, latency_ns)},
    {"jitter", PRS_VALUE_TIME, offsetof(struct prs_faulty_config, jitter_ns)},
    {"bandwidth", PRS_VALUE_RATE, offsetof(struct prs_faulty_config, bytes_per_second)},
    {"reorder", PRS_VALUE_FLAG, offsetof(struct prs_faulty_config, reorder)},
    {"unordered", PRS_VALUE_COUNT, offsetof(struct prs_faulty_config, unordered_mask)},
    {"again", PRS_VALUE_SHARE, offsetof(struct prs_faulty_config, again_probability)},
    {"error", PRS_VALUE_SHARE, offsetof(struct prs_faulty_config, error_probability)},
    {"fail_nth", PRS_VALUE_COUNT, offsetof(struct prs_faulty_config, fail_nth)},
    {"fail_permanent", PRS_VALUE_FLAG, offsetof(struct prs_faulty_config, fail_permanent)},
    {"refuse_nth", PRS_VALUE_COUNT, offsetof(struct prs_faulty_config, refuse_nth)},
    {"busy_peer", PRS_VALUE_COUNT, offsetof(struct prs_faulty_config, busy_peer)},
    {"busy", PRS_VALUE_TIME, offsetof(struct prs_faulty_config, busy_ns)},
};
#define PRS_FAULTY_KEYS (sizeof prs_faulty_keys / sizeof prs_faulty_keys[0])

struct prs_unit {
    const char *name;
    double factor;
};
static const struct prs_unit prs_times[] = {
    {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {NULL, 0}};
/* Link rates are decimal, as on the box they come in. */
static const struct prs_unit prs_rates[] = {{"", 1}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {NULL, 0}};

/* Digits with an optional fraction, whatever the locale says; returns what follows, or NULL. */
static const char *parse_decimal(const char *text, double *out)
{
    double value = 0, place = 1;
    const char *at = text;
    while (*at >= '0' && *at <= '9') {
        value = 10 * value + (*at++ - '0');
    }
    if (at == text) {
        return NULL;
    }
    if (*at == '.') {
        const char *fraction = ++at;
        while (*at >= '0' && *at <= '9') {
            place /= 10;
            value += place * (*at++ - '0');
        }
        if (at == fraction) {
            return NULL;
        }
    }
    *out = value;
    return at;
}

/* A decimal and one of `units`; a bare 0 needs none. Returns whether `text` is that. */
static bool parse_scaled(const char *text, const struct prs_unit *units, uint64_t *out)
{
    double value;
    const char *unit = parse_decimal(text, &value);
    if (unit == NULL) {
        return false;
    }
    if (value == 0 && *unit == '\0') {
        *out = 0;
        return true;
    }
    while (units->name != NULL && strcmp(units->name, unit) != 0) {
        units++;
    }
    double scaled = value * units->factor;
    if (units->name == NULL || scaled >= 0x1p63) {
        return false;
    }
    *out = (uint64_t)(scaled + 0.5);
    return true;
}

static bool parse_share(const char *text, double *out)
{
    double value;
    const char *end = parse_decimal(text, &value);
    if (end == NULL || *end != '\0' || value > 1) {
        return false;
    }
    *out = value;
    return true;
}

static bool parse_flag(const char *text, bool *out)
{
    if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0) {
        return false;
    }
    *out = *text == '1';
    return true;
}

/* NULL if `text` was a value of this kind and is now in *field, else what it should have been. */
static const char *parse_value(enum prs_value_kind kind, const char *text, void *field)
{
    switch (kind) {
    case PRS_VALUE_TIME:
        return parse_scaled(text, prs_times, field) ? NULL : "a time with ns, us, ms or s";
    case PRS_VALUE_RATE:
        return parse_scaled(text, prs_rates, field)
                   ? NULL
                   : "bytes per second, with K, M or G for powers of 1000";
    case PRS_VALUE_SHARE:
        return parse_share(text, field) ? NULL : "a probability from 0 to 1";
    case PRS_VALUE_COUNT:
        return prs_parse_bytes(text, field) == PERSEUS_OK ? NULL : "a whole number";
    case PRS_VALUE_FLAG:
        return parse_flag(text, field) ? NULL : "0 or 1";
    }
    return "nothing";
}

/* One "key=value"; `word` is cut at its '='. */
static enum perseus_status parse_word(char *word, const struct prs_log *log,
                                      struct prs_faulty_config *config)
{
    char *value = strchr(word, '=');
    if (value == NULL) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "\"%s\" is not of the form key=value, for example latency=5us", word);
    }
    *value++ = '\0';
    for (size_t i = 0; i < PRS_FAULTY_KEYS; i++) {
        const struct prs_faulty_key *key = &prs_faulty_keys[i];
        if (strcmp(key->name, word) != 0) {
            continue;
        }
        const char *expected = parse_value(key->kind, value, (char *)config + key->offset);
        if (expected == NULL) {
            return PERSEUS_OK;
        }
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT, "%s=\"%s\" is wrong: it takes %s", word,
                        value, expected);
    }
    return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                    "\"%s\" is not a key of a link or adversary; use latency, jitter, bandwidth, "
                    "seed, reorder, unordered, again, error, fail_nth, fail_permanent, "
                    "refuse_nth, busy_peer or busy",
                    word);
}

enum perseus_status prs_faulty_parse(const char *text, const struct prs_log *log,
                                     struct prs_faulty_config *config)
{
    struct prs_faulty_config parsed = *config;
    bool is_more = *text != '\0';
    while (is_more) {
        char word[PRS_WORD_MAX];
        size_t length = strcspn(text, ",");
        if (length >= sizeof word) {
            return prs_fail(log, PERSEUS_INVALID_ARGUMENT, "\"%.*s...\" is too long",
                            (int)sizeof word / 2, text);
        }
        memcpy(word, text, length);
        word[length] = '\0';
        enum perseus_status status = parse_word(word, log, &parsed);
        if (status != PERSEUS_OK) {
            return status;
        }
        is_more = text[length] == ',';
        text += length + 1;
    }
    *config = parsed;
    return PERSEUS_OK;
}
