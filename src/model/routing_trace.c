/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded routing: from an array file, or from text with one token a line. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "model/npy.h"
#include "model/routing.h"

/* What a choice may be, for messages; %u is the last expert. */
#define EXPECTED_ID "-1 (not used) or an expert from 0 to %u that the token does not have yet"

/* ids[at] = id, if that is an expert that the token does not have yet, or no expert. */
static bool take_id(const struct prs_routing *routing, int32_t *ids, uint32_t at, int64_t id)
{
    if (id < PRS_ROUTING_NONE || id >= routing->experts) {
        return false;
    }
    for (uint32_t j = 0; j < at && id != PRS_ROUTING_NONE; j++) {
        if (ids[j] == id) {
            return false;
        }
    }
    ids[at] = (int32_t)id;
    return true;
}

static enum perseus_status check_npy(const struct prs_routing *routing, const char *name,
                                     const struct prs_npy *npy, uint32_t layer,
                                     const struct prs_log *log)
{
    if (npy->dims < 2) {
        return prs_fail(
            log, PERSEUS_PROTOCOL,
            "%s: expected routing of shape [tokens, k] or [tokens, layers, k], found one "
            "dimension",
            name);
    }
    uint64_t layers = npy->dims == 3 ? npy->shape[1] : 1;
    uint64_t top_k = npy->shape[npy->dims - 1];
    if (layer >= layers) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "%s has layers 0 to %lld, layer %u was asked for", name,
                        (long long)layers - 1, layer);
    }
    if (top_k != routing->top_k) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "%s has %llu experts a token, the model needs %u", name,
                        (unsigned long long)top_k, routing->top_k);
    }
    bool is_layers_first = npy->dims == 3 && npy->shape[0] < npy->shape[1] &&
                           npy->shape[0] < routing->tokens && npy->shape[1] >= routing->tokens;
    if (is_layers_first) {
        return prs_fail(
            log, PERSEUS_INVALID_ARGUMENT,
            "%s has the shape (%llu, %llu, %llu), which looks like [layers, tokens, k]: "
            "save it as [tokens, layers, k] (numpy's transpose(1, 0, 2))",
            name, (unsigned long long)npy->shape[0], (unsigned long long)npy->shape[1],
            (unsigned long long)npy->shape[2]);
    }
    if (npy->shape[0] < routing->tokens) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "%s has %llu tokens, this run needs %u: use fewer tokens or a longer trace",
                        name, (unsigned long long)npy->shape[0], routing->tokens);
    }
    return PERSEUS_OK;
}

enum perseus_status prs_routing_read_npy(const struct prs_routing *routing, const char *name,
                                         const unsigned char *bytes, size_t size, uint32_t layer,
                                         const struct prs_log *log)
{
    struct prs_npy npy;
    enum perseus_status status = prs_npy_parse(name, bytes, size, log, &npy);
    if (status == PERSEUS_OK) {
        status = check_npy(routing, name, &npy, layer, log);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    uint64_t layers = npy.dims == 3 ? npy.shape[1] : 1;
    for (uint32_t token = 0; token < routing->tokens; token++) {
        int32_t *ids = routing->ids + (size_t)token * routing->top_k;
        for (uint32_t j = 0; j < routing->top_k; j++) {
            uint64_t index = (token * layers + layer) * routing->top_k + j;
            int64_t id = prs_npy_item(&npy, index);
            if (!take_id(routing, ids, j, id)) {
                return prs_fail(
                    log, PERSEUS_PROTOCOL,
                    "%s: at byte %llu (token %u, layer %u, choice %u) expected " EXPECTED_ID
                    ", found %lld",
                    name, (unsigned long long)(npy.items_offset + index * npy.item_bytes), token,
                    layer, j, routing->experts - 1, (long long)id);
            }
        }
    }
    return PERSEUS_OK;
}

/* Reads a number below 2^31, or -1, at *at; false if there is none. */
static bool read_number(const unsigned char *bytes, size_t end, size_t *at, int64_t *out)
{
    bool is_negative = *at < end && bytes[*at] == '-';
    size_t start = *at + is_negative;
    int64_t value = 0;
    for (*at = start; *at < end && bytes[*at] >= '0' && bytes[*at] <= '9' && value <= INT32_MAX;
         (*at)++) {
        value = value * 10 + (bytes[*at] - '0');
    }
    *out = is_negative ? -value : value;
    return *at > start && value <= INT32_MAX && *out >= PRS_ROUTING_NONE;
}

static void skip_spaces(const unsigned char *bytes, size_t end, size_t *at)
{
    while (*at < end && (bytes[*at] == ' ' || bytes[*at] == '\t' || bytes[*at] == '\r')) {
        (*at)++;
    }
}

/* One line, [at, end), to the ids of one token. */
static enum perseus_status read_line(const struct prs_routing *routing, const char *name,
                                     const unsigned char *bytes, size_t at, size_t end,
                                     uint32_t token, const struct prs_log *log)
{
    int32_t *ids = routing->ids + (size_t)token * routing->top_k;
    for (uint32_t j = 0; j < routing->top_k; j++) {
        skip_spaces(bytes, end, &at);
        size_t start = at;
        int64_t id;
        if (!read_number(bytes, end, &at, &id) || !take_id(routing, ids, j, id)) {
            return prs_fail(log, PERSEUS_PROTOCOL,
                            "%s: at byte %zu (token %u, choice %u) expected " EXPECTED_ID, name,
                            start, token, j, routing->experts - 1);
        }
        skip_spaces(bytes, end, &at);
        bool last = j + 1 == routing->top_k;
        if (last ? at != end : at == end || bytes[at] != ',') {
            return prs_fail(log, PERSEUS_PROTOCOL,
                            "%s: at byte %zu (token %u) expected %s: a line has %u expert ids",
                            name, at, token, last ? "the end of the line" : "a comma",
                            routing->top_k);
        }
        at++;
    }
    return PERSEUS_OK;
}

/* Lines that are empty or start with '#', and a first line that starts with a letter (column
 * names), say nothing. */
static bool is_silent(const unsigned char *bytes, size_t at, size_t end, bool first)
{
    skip_spaces(bytes, end, &at);
    if (at == end || bytes[at] == '#') {
        return true;
    }
    unsigned char letter = bytes[at] | 0x20;
    return first && letter >= 'a' && letter <= 'z';
}

enum perseus_status prs_routing_read_csv(const struct prs_routing *routing, const char *name,
                                         const unsigned char *bytes, size_t size,
                                         const struct prs_log *log)
{
    uint32_t token = 0;
    for (size_t at = 0; at < size && token < routing->tokens;) {
        const unsigned char *newline = memchr(bytes + at, '\n', size - at);
        size_t end = newline != NULL ? (size_t)(newline - bytes) : size;
        if (!is_silent(bytes, at, end, at == 0)) {
            enum perseus_status status = read_line(routing, name, bytes, at, end, token, log);
            if (status != PERSEUS_OK) {
                return status;
            }
            token++;
        }
        at = end + 1;
    }
    if (token < routing->tokens) {
        return prs_fail(
            log, PERSEUS_INVALID_ARGUMENT,
            "%s ends at byte %zu after %u tokens, this run needs %u: use fewer tokens or a "
            "longer trace",
            name, size, token, routing->tokens);
    }
    return PERSEUS_OK;
}
