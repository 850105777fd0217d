/* SPDX-License-Identifier: Apache-2.0 */
#include "base/env.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct prs_env_row table[PRS_ENV_COUNT] = {
#define PRS_ENV_ROW(id, name, fallback, help) [PRS_ENV_##id] = {name, fallback, help},
    PRS_ENV_MAP(PRS_ENV_ROW)
#undef PRS_ENV_ROW
};

const struct prs_env_row *prs_env_row(enum prs_env_id id)
{
    return &table[id];
}

bool prs_env_is_set(enum prs_env_id id)
{
    const char *text = getenv(table[id].name);
    return text != NULL && text[0] != '\0';
}

const char *prs_env_text(enum prs_env_id id)
{
    const char *text = getenv(table[id].name);
    return text != NULL ? text : table[id].fallback;
}

enum perseus_status prs_parse_bytes(const char *text, uint64_t *out)
{
    if (text[0] < '0' || text[0] > '9') {
        return PERSEUS_INVALID_ARGUMENT; /* strtoull would take signs and spaces */
    }
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    if (errno != 0 || end[shift != 0] != '\0' || value > UINT64_MAX >> shift) {
        return PERSEUS_INVALID_ARGUMENT;
    }
    *out = (uint64_t)value << shift;
    return PERSEUS_OK;
}

enum perseus_status prs_env_u64(enum prs_env_id id, uint64_t min, uint64_t max,
                                const struct prs_log *log, uint64_t *out)
{
    const char *text = prs_env_text(id);
    uint64_t value = 0;
    if (prs_parse_bytes(text, &value) != PERSEUS_OK || value < min || value > max) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "%s=\"%s\" is not a number from %llu to %llu (K, M, G suffixes allowed)",
                        table[id].name, text, (unsigned long long)min, (unsigned long long)max);
    }
    *out = value;
    return PERSEUS_OK;
}

enum perseus_status prs_env_or_u64(uint64_t asked, const char *field, enum prs_env_id id,
                                   uint64_t min, uint64_t max, const struct prs_log *log,
                                   uint64_t *out)
{
    if (asked == 0) {
        return prs_env_u64(id, min, max, log, out);
    }
    if (asked < min || asked > max) {
        return prs_fail(
            log, PERSEUS_INVALID_ARGUMENT, "perseus_attr.%s is %llu; it must be from %llu to %llu",
            field, (unsigned long long)asked, (unsigned long long)min, (unsigned long long)max);
    }
    *out = asked;
    return PERSEUS_OK;
}

enum perseus_status prs_env_power_of_two(uint64_t value, enum prs_env_id id, const char *what,
                                         const struct prs_log *log)
{
    if ((value & (value - 1)) != 0) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "%s is %llu, which is not a power of two (see %s)", what,
                        (unsigned long long)value, prs_env_row(id)->name);
    }
    return PERSEUS_OK;
}

enum perseus_status prs_env_bool(enum prs_env_id id, const struct prs_log *log, bool *out)
{
    const char *text = prs_env_text(id);
    if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT, "%s=\"%s\" is neither 0 nor 1",
                        table[id].name, text);
    }
    *out = text[0] == '1';
    return PERSEUS_OK;
}
