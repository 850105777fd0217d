/* SPDX-License-Identifier: Apache-2.0 */
#include "model/npy.h"

#include <stdbool.h>
#include <string.h>

#define MAGIC       "\x93NUMPY"
#define MAGIC_BYTES 6

/* Where the parser stands in the header, a Python dictionary literal. */
struct cursor {
    const char *name;
    const unsigned char *bytes;
    size_t at, end;
    const struct prs_log *log;
};

static enum perseus_status expected(const struct cursor *cursor, const char *what)
{
    return prs_fail(cursor->log, PERSEUS_PROTOCOL, "%s: at byte %zu of the .npy header expected %s",
                    cursor->name, cursor->at, what);
}

static void skip_spaces(struct cursor *cursor)
{
    while (cursor->at < cursor->end &&
           (cursor->bytes[cursor->at] == ' ' || cursor->bytes[cursor->at] == '\n')) {
        cursor->at++;
    }
}

/* Consumes `c` after spaces, if it is next. */
static bool take(struct cursor *cursor, char c)
{
    skip_spaces(cursor);
    if (cursor->at < cursor->end && cursor->bytes[cursor->at] == (unsigned char)c) {
        cursor->at++;
        return true;
    }
    return false;
}

static bool take_word(struct cursor *cursor, const char *word)
{
    skip_spaces(cursor);
    size_t length = strlen(word);
    if (cursor->end - cursor->at >= length &&
        memcmp(cursor->bytes + cursor->at, word, length) == 0) {
        cursor->at += length;
        return true;
    }
    return false;
}

/* A quoted string without escapes, copied to `out` with its terminator. */
static enum perseus_status read_string(struct cursor *cursor, char *out, size_t capacity)
{
    skip_spaces(cursor);
    size_t start = cursor->at + 1, stop = start;
    if (cursor->at >= cursor->end ||
        (cursor->bytes[cursor->at] != '\'' && cursor->bytes[cursor->at] != '"')) {
        return expected(cursor, "a quoted string");
    }
    unsigned char quote = cursor->bytes[cursor->at];
    while (stop < cursor->end && cursor->bytes[stop] != quote) {
        stop++;
    }
    if (stop >= cursor->end || stop - start >= capacity) {
        return expected(cursor, "a short quoted string");
    }
    memcpy(out, cursor->bytes + start, stop - start);
    out[stop - start] = '\0';
    cursor->at = stop + 1;
    return PERSEUS_OK;
}

static enum perseus_status read_number(struct cursor *cursor, uint64_t *out)
{
    skip_spaces(cursor);
    uint64_t value = 0;
    size_t start = cursor->at;
    while (cursor->at < cursor->end && cursor->bytes[cursor->at] >= '0' &&
           cursor->bytes[cursor->at] <= '9') {
        unsigned digit = cursor->bytes[cursor->at] - '0';
        if (value > (UINT64_MAX - digit) / 10) {
            return expected(cursor, "a dimension below 2^64");
        }
        value = value * 10 + digit;
        cursor->at++;
    }
    if (cursor->at == start) {
        return expected(cursor, "a dimension");
    }
    *out = value;
    return PERSEUS_OK;
}

/* Why a type is not read, by the letter of its kind. */
static const char *reason_against(const char *text)
{
    if (text[0] == '>') {
        return "is big-endian: convert with numpy's astype('<i4')";
    }
    switch (text[0] != '\0' ? text[1] : '\0') {
    case 'f':
    case 'c':
    case 'V': /* how numpy stores what it does not know, bfloat16 for one */
        return "holds scores or weights, not experts' numbers: save what topk returned";
    case 'b':
        return "is a mask: save what topk returned";
    case 'O':
        return "holds Python objects: save an array of integers";
    default:
        return "is not read: convert with numpy's astype('<i4')";
    }
}

/* Integers: '<i8' as torch.topk gives them, '<i4' as serving engines keep them, smaller ones to
 * save room. */
static enum perseus_status read_type(struct cursor *cursor, struct prs_npy *npy)
{
    char text[16];
    size_t start = cursor->at;
    enum perseus_status status = read_string(cursor, text, sizeof text);
    if (status != PERSEUS_OK) {
        return status;
    }
    bool is_little = text[0] == '<' || text[0] == '|' || text[0] == '=';
    bool is_integer = strlen(text) == 3 && (text[1] == 'i' || text[1] == 'u');
    unsigned bytes = is_integer ? (unsigned char)text[2] - (unsigned)'0' : 0;
    if (!is_little || (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) ||
        (text[0] == '|' && bytes > 1)) {
        return prs_fail(
            cursor->log, PERSEUS_PROTOCOL,
            "%s: at byte %zu of the .npy header expected a type of integers such as '<i8' "
            "or '|u1', found '%s', which %s",
            cursor->name, start, text, reason_against(text));
    }
    npy->item_bytes = bytes;
    npy->is_signed = text[1] == 'i';
    return PERSEUS_OK;
}

static enum perseus_status read_shape(struct cursor *cursor, struct prs_npy *npy)
{
    if (!take(cursor, '(')) {
        return expected(cursor, "'(' before the shape");
    }
    npy->dims = 0;
    while (!take(cursor, ')')) {
        if (npy->dims == PRS_NPY_DIMS_MAX) {
            return expected(cursor, "at most three dimensions");
        }
        enum perseus_status status = read_number(cursor, &npy->shape[npy->dims]);
        if (status != PERSEUS_OK) {
            return status;
        }
        npy->dims++;
        if (!take(cursor, ',') && (cursor->at >= cursor->end || cursor->bytes[cursor->at] != ')')) {
            return expected(cursor, "',' or ')' after a dimension");
        }
    }
    if (npy->dims == 0) {
        return expected(cursor, "an array with at least one dimension before here");
    }
    for (uint32_t i = npy->dims; i < PRS_NPY_DIMS_MAX; i++) {
        npy->shape[i] = 1;
    }
    return PERSEUS_OK;
}

/* {'descr': ..., 'fortran_order': False, 'shape': (...), } in any order. */
static enum perseus_status read_dictionary(struct cursor *cursor, struct prs_npy *npy)
{
    enum { TYPE = 1, ORDER = 2, SHAPE = 4, ALL = 7 };
    unsigned seen = 0;
    if (!take(cursor, '{')) {
        return expected(cursor, "'{'");
    }
    while (!take(cursor, '}')) {
        char key[16];
        enum perseus_status status = read_string(cursor, key, sizeof key);
        if (status == PERSEUS_OK && !take(cursor, ':')) {
            status = expected(cursor, "':' after a key");
        }
        if (status != PERSEUS_OK) {
            return status;
        }
        if (strcmp(key, "descr") == 0 && !(seen & TYPE)) {
            seen |= TYPE;
            status = read_type(cursor, npy);
        } else if (strcmp(key, "fortran_order") == 0 && !(seen & ORDER)) {
            seen |= ORDER;
            status = take_word(cursor, "False")
                         ? PERSEUS_OK
                         : expected(cursor, "False (C order; save with order='C')");
        } else if (strcmp(key, "shape") == 0 && !(seen & SHAPE)) {
            seen |= SHAPE;
            status = read_shape(cursor, npy);
        } else {
            status = expected(cursor, "each of descr, fortran_order and shape once");
        }
        if (status == PERSEUS_OK && !take(cursor, ',') &&
            (cursor->at >= cursor->end || cursor->bytes[cursor->at] != '}')) {
            status = expected(cursor, "',' or '}' after a value");
        }
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    skip_spaces(cursor);
    if (seen != ALL) {
        return expected(cursor, "descr, fortran_order and shape before here");
    }
    return cursor->at == cursor->end ? PERSEUS_OK : expected(cursor, "the header's end");
}

/* Magic, version, header length; leaves the cursor on the dictionary, bounded by its end. */
static enum perseus_status read_preamble(struct cursor *cursor)
{
    size_t size = cursor->end;
    if (size < MAGIC_BYTES + 2 || memcmp(cursor->bytes, MAGIC, MAGIC_BYTES) != 0) {
        return expected(cursor, "the magic \\x93NUMPY and a version (is this an .npy file?)");
    }
    cursor->at = MAGIC_BYTES;
    unsigned version = cursor->bytes[cursor->at];
    if (version < 1 || version > 3) {
        return expected(cursor, "format version 1, 2 or 3");
    }
    cursor->at += 2;
    size_t length_bytes = version == 1 ? 2 : 4;
    if (size - cursor->at < length_bytes) {
        return expected(cursor, "the header's length, but the file ends");
    }
    size_t length = 0;
    for (size_t i = 0; i < length_bytes; i++) {
        length |= (size_t)cursor->bytes[cursor->at + i] << (8 * i);
    }
    cursor->at += length_bytes;
    if (size - cursor->at < length) {
        return prs_fail(
            cursor->log, PERSEUS_PROTOCOL,
            "%s: the .npy header at byte %zu has %zu bytes, but only %zu follow: the file "
            "is truncated",
            cursor->name, cursor->at, length, size - cursor->at);
    }
    cursor->end = cursor->at + length;
    return PERSEUS_OK;
}

static enum perseus_status check_items(const struct cursor *cursor, size_t size,
                                       const struct prs_npy *npy)
{
    uint64_t bytes = npy->item_bytes;
    bool overflow = false;
    for (uint32_t i = 0; i < npy->dims; i++) {
        overflow |= __builtin_mul_overflow(bytes, npy->shape[i], &bytes);
    }
    if (overflow || bytes != size - cursor->end) {
        return prs_fail(
            cursor->log, PERSEUS_PROTOCOL,
            "%s: the shape (%llu, %llu, %llu) needs %s%llu bytes of items from byte %zu, "
            "but %zu are there: the file is truncated or damaged",
            cursor->name, (unsigned long long)npy->shape[0], (unsigned long long)npy->shape[1],
            (unsigned long long)npy->shape[2], overflow ? "more than " : "",
            (unsigned long long)(overflow ? UINT64_MAX : bytes), cursor->end, size - cursor->end);
    }
    return PERSEUS_OK;
}

enum perseus_status prs_npy_parse(const char *name, const unsigned char *bytes, size_t size,
                                  const struct prs_log *log, struct prs_npy *out)
{
    struct cursor cursor = {.name = name, .bytes = bytes, .end = size, .log = log};
    struct prs_npy npy;
    enum perseus_status status = read_preamble(&cursor);
    if (status == PERSEUS_OK) {
        status = read_dictionary(&cursor, &npy);
    }
    if (status == PERSEUS_OK) {
        status = check_items(&cursor, size, &npy);
    }
    if (status == PERSEUS_OK) {
        npy.items_offset = cursor.end;
        npy.items = bytes + cursor.end;
        *out = npy;
    }
    return status;
}

int64_t prs_npy_item(const struct prs_npy *npy, uint64_t index)
{
    uint32_t width = npy->item_bytes;
    const unsigned char *item = npy->items + index * width;
    uint64_t bits = 0;
    for (uint32_t i = 0; i < width; i++) {
        bits |= (uint64_t)item[i] << (8 * i);
    }
    if (npy->is_signed) { /* takes the sign bit out, and its weight off */
        uint64_t sign = (uint64_t)1 << ((8 * width - 1) & 63);
        return (int64_t)((bits ^ sign) - sign);
    }
    return bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
}
