/* SPDX-License-Identifier: Apache-2.0 */
#include <perseus/perseus.h>

#include <string.h>

#include "base/export.h"

PRS_PUBLIC const char *perseus_status_string(enum perseus_status status)
{
    switch (status) {
#define PRS_STATUS_CASE(name, value, text) \
    case PERSEUS_##name:                   \
        return text;
        PERSEUS_STATUS_MAP(PRS_STATUS_CASE)
#undef PRS_STATUS_CASE
    }
    return "unknown status";
}

PRS_PUBLIC const char *perseus_status_name(enum perseus_status status)
{
    switch (status) {
#define PRS_STATUS_CASE(name, value, text) \
    case PERSEUS_##name:                   \
        return "PERSEUS_" #name;
        PERSEUS_STATUS_MAP(PRS_STATUS_CASE)
#undef PRS_STATUS_CASE
    }
    return "PERSEUS_UNKNOWN";
}

static const char *const ordering_names[] = {
#define PRS_ORDERING_NAME(name, value, text) [value] = text,
    PERSEUS_ORDERING_MAP(PRS_ORDERING_NAME)
#undef PRS_ORDERING_NAME
};

PRS_PUBLIC const char *perseus_ordering_name(enum perseus_ordering ordering)
{
    return (unsigned)ordering < PERSEUS_ORDERING_COUNT ? ordering_names[ordering] : "unknown";
}

PRS_PUBLIC enum perseus_status perseus_ordering_parse(const char *name, enum perseus_ordering *out)
{
    for (int i = 0; i < PERSEUS_ORDERING_COUNT; i++) {
        if (strcmp(name, ordering_names[i]) == 0) {
            *out = (enum perseus_ordering)i;
            return PERSEUS_OK;
        }
    }
    return PERSEUS_INVALID_ARGUMENT;
}
