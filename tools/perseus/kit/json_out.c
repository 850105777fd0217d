/* SPDX-License-Identifier: Apache-2.0 */
#include "kit/json_out.h"

#include <math.h>
#include <stdio.h>

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

static bool dump(json_t *document, FILE *file)
{
    return json_dumpf(document, file, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0 &&
           fputc('\n', file) != EOF;
}

static bool write_document(json_t *document, const struct prs_output *output)
{
    if (document == NULL) {
        fprintf(stderr, "perseus: out of memory for %s %s\n", output->option, output->path);
        return false;
    }
    FILE *file = prs_output_open(output);
    if (file == NULL) {
        return false;
    }
    bool is_dumped = dump(document, file);
    return prs_output_close(output, file) && is_dumped;
}

bool prs_json_write(json_t *document, const struct prs_output *output)
{
    bool is_written = output->path == NULL || write_document(document, output);
    json_decref(document);
    return is_written;
}
