/* SPDX-License-Identifier: Apache-2.0 */
#include "model/safetensors.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_BYTES 8
#define HEADER_MAX   (100u << 20) /* the format's own limit */

struct prs_safetensors {
    char *name;
    const unsigned char *bytes;
    size_t size, data_offset; /* data_offset <= size */
    json_t *header;
};

static enum perseus_status parse_header(struct prs_safetensors *file, const struct prs_log *log)
{
    if (file->size < LENGTH_BYTES) {
        return prs_fail(
            log, PERSEUS_PROTOCOL,
            "%s: at byte 0 expected the header's length in 8 bytes, but the file has %zu",
            file->name, file->size);
    }
    uint64_t length = 0;
    for (int i = 0; i < LENGTH_BYTES; i++) {
        length |= (uint64_t)file->bytes[i] << (8 * i);
    }
    size_t left = file->size - LENGTH_BYTES;
    if (length > left || length > HEADER_MAX) {
        return prs_fail(
            log, PERSEUS_PROTOCOL,
            "%s: the header at byte 8 has %llu bytes, expected at most %zu: the file is "
            "truncated or not safetensors",
            file->name, (unsigned long long)length, left < HEADER_MAX ? left : HEADER_MAX);
    }
    json_error_t error;
    file->header = json_loadb((const char *)file->bytes + LENGTH_BYTES, (size_t)length,
                              JSON_REJECT_DUPLICATES, &error);
    if (file->header == NULL || !json_is_object(file->header)) {
        return prs_fail(log, PERSEUS_PROTOCOL,
                        "%s: at byte %zu of the header expected a JSON object: %s", file->name,
                        file->header == NULL ? (size_t)error.position + LENGTH_BYTES
                                             : (size_t)LENGTH_BYTES,
                        file->header == NULL ? error.text : "found another value");
    }
    file->data_offset = LENGTH_BYTES + (size_t)length;
    return PERSEUS_OK;
}

enum perseus_status prs_safetensors_create(const char *name, const unsigned char *bytes,
                                           size_t size, const struct prs_log *log,
                                           struct prs_safetensors **out)
{
    struct prs_safetensors *file = calloc(1, sizeof *file);
    if (file == NULL || (file->name = strdup(name)) == NULL) {
        free(file);
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory to read %s", name);
    }
    file->bytes = bytes;
    file->size = size;
    enum perseus_status status = parse_header(file, log);
    if (status != PERSEUS_OK) {
        prs_safetensors_destroy(file);
        return status;
    }
    *out = file;
    return PERSEUS_OK;
}

void prs_safetensors_destroy(struct prs_safetensors *file)
{
    if (file == NULL) {
        return;
    }
    json_decref(file->header);
    free(file->name);
    free(file);
}

bool prs_safetensors_has(const struct prs_safetensors *file, const char *tensor)
{
    return json_object_get(file->header, tensor) != NULL;
}

const char *prs_safetensors_example(const struct prs_safetensors *file)
{
    void *entry = json_object_iter(file->header);
    if (entry != NULL && strcmp(json_object_iter_key(entry), "__metadata__") == 0) {
        entry = json_object_iter_next(file->header, entry);
    }
    return entry != NULL ? json_object_iter_key(entry) : "";
}

static enum perseus_status read_type(const struct prs_safetensors *file, const char *tensor,
                                     const json_t *entry, const struct prs_log *log,
                                     struct prs_tensor *out, uint64_t *out_item_bytes)
{
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    if (type == NULL) {
        return prs_fail(log, PERSEUS_PROTOCOL, "%s: tensor %s: expected a string \"dtype\"",
                        file->name, tensor);
    }
    static const struct {
        const char *name;
        enum prs_tensor_type type;
        uint64_t item_bytes;
    } types[] = {
        {"F32", PRS_TENSOR_F32, 4}, {"BF16", PRS_TENSOR_BF16, 2}, {"F16", PRS_TENSOR_F16, 2}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(type, types[i].name) == 0) {
            out->type = types[i].type;
            *out_item_bytes = types[i].item_bytes;
            return PERSEUS_OK;
        }
    }
    bool is_packed = strncmp(type, "F8", 2) == 0 || strncmp(type, "F4", 2) == 0 || type[0] == 'I' ||
                     type[0] == 'U'; /* whole numbers stand for smaller ones */
    return prs_fail(
        log, PERSEUS_NOT_SUPPORTED, "%s: tensor %s has type %.16s; F32, BF16 and F16 are read%s",
        file->name, tensor, type,
        is_packed ? ": the checkpoint is quantized, convert it to one that is not" : "");
}

/* Multiplies the shape into *bytes, which holds the item's size. */
static enum perseus_status read_shape(const struct prs_safetensors *file, const char *tensor,
                                      const json_t *entry, const struct prs_log *log,
                                      struct prs_tensor *out, uint64_t *bytes)
{
    const json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape) || json_array_size(shape) > PRS_TENSOR_DIMS_MAX) {
        return prs_fail(log, PERSEUS_PROTOCOL,
                        "%s: tensor %s: expected an array \"shape\" of at most %d dimensions",
                        file->name, tensor, PRS_TENSOR_DIMS_MAX);
    }
    out->dims = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < out->dims; i++) {
        const json_t *extent = json_array_get(shape, i);
        if (!json_is_integer(extent) || json_integer_value(extent) < 0) {
            return prs_fail(log, PERSEUS_PROTOCOL,
                            "%s: tensor %s: expected a whole number 0 or more in \"shape\" at %u",
                            file->name, tensor, i);
        }
        out->shape[i] = (uint64_t)json_integer_value(extent);
        if (__builtin_mul_overflow(*bytes, out->shape[i], bytes)) {
            return prs_fail(log, PERSEUS_PROTOCOL,
                            "%s: tensor %s: its \"shape\" is more bytes than a file can have",
                            file->name, tensor);
        }
    }
    return PERSEUS_OK;
}

static enum perseus_status read_data(const struct prs_safetensors *file, const char *tensor,
                                     const json_t *entry, uint64_t bytes, const struct prs_log *log,
                                     struct prs_tensor *out)
{
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
        json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin)) {
        return prs_fail(log, PERSEUS_PROTOCOL,
                        "%s: tensor %s: expected \"data_offsets\" [begin, end] with begin <= end",
                        file->name, tensor);
    }
    uint64_t first = (uint64_t)json_integer_value(begin), last = (uint64_t)json_integer_value(end);
    if (last - first != bytes || last > file->size - file->data_offset) {
        return prs_fail(
            log, PERSEUS_PROTOCOL,
            "%s: tensor %s: its shape needs %llu bytes, \"data_offsets\" give %llu to %llu "
            "behind byte %zu, and the file has %zu bytes: truncated or damaged",
            file->name, tensor, (unsigned long long)bytes, (unsigned long long)first,
            (unsigned long long)last, file->data_offset, file->size);
    }
    out->data = file->bytes + file->data_offset + first;
    return PERSEUS_OK;
}

enum perseus_status prs_safetensors_find(const struct prs_safetensors *file, const char *tensor,
                                         const struct prs_log *log, struct prs_tensor *out)
{
    const json_t *entry = json_object_get(file->header, tensor);
    if (entry == NULL) {
        return prs_fail(log, PERSEUS_NOT_FOUND, "%s has no tensor %s; it has for example %s",
                        file->name, tensor, prs_safetensors_example(file));
    }
    struct prs_tensor found = {0};
    uint64_t item_bytes = 0;
    enum perseus_status status = read_type(file, tensor, entry, log, &found, &item_bytes);
    uint64_t bytes = item_bytes;
    if (status == PERSEUS_OK) {
        status = read_shape(file, tensor, entry, log, &found, &bytes);
    }
    if (status == PERSEUS_OK) {
        status = read_data(file, tensor, entry, bytes, log, &found);
    }
    if (status == PERSEUS_OK) {
        *out = found;
    }
    return status;
}
