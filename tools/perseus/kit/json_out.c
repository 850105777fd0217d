/* SPDX-License-Identifier: Apache-2.0 */
#include "kit/json_out.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <perseus/perseus.h>

json_t *prs_json_begin(const char *command, uint64_t seed)
{
    return json_pack("{s:s, s:s, s:I}", "command", command, "version", PERSEUS_VERSION_STRING,
                     "seed", (json_int_t)seed);
}

json_t *prs_json_number(double value)
{
    if (isnan(value)) {
        return json_null();
    }
    /* Beyond 2^53 a double no longer tells neighbouring integers apart. */
    if (fabs(value) < 0x1p53 && value == floor(value)) {
        return json_integer((json_int_t)value);
    }
    return json_real(value);
}

static bool report(const char *path, const char *why)
{
    fprintf(stderr, "cannot write --json %s: %s; give a path in a folder that can be written\n",
            path, why);
    return false;
}

bool prs_json_check_path(const char *path)
{
    if (path == NULL) {
        return true;
    }
    FILE *file = fopen(path, "a");
    if (file == NULL) {
        return report(path, strerror(errno));
    }
    fclose(file);
    return true;
}

static bool dump(json_t *document, FILE *file)
{
    return json_dumpf(document, file, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0 &&
           fputc('\n', file) != EOF;
}

static bool write_document(json_t *document, const char *path)
{
    if (document == NULL) {
        return report(path, "out of memory");
    }
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        return report(path, strerror(errno));
    }
    bool is_dumped = dump(document, file);
    bool is_closed = fclose(file) == 0;
    return is_dumped && is_closed ? true : report(path, "writing failed");
}

bool prs_json_write(json_t *document, const char *path)
{
    bool is_written = path == NULL || write_document(document, path);
    json_decref(document);
    return is_written;
}
