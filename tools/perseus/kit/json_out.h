/* SPDX-License-Identifier: Apache-2.0 */
/* json_out.h: writes what a command measured to a file, as JSON. Built on jansson. */
#ifndef PRS_TOOLS_JSON_OUT_H
#define PRS_TOOLS_JSON_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "kit/output.h"

/* {"command": ..., "version": ..., "seed": ...}: what every file begins with. NULL when out of
 * memory; jansson's setters accept NULL and fail, so only prs_json_write needs a check. */
json_t *prs_json_begin(const char *command, uint64_t seed);

/* Null for NaN (a value that was not measured), an integer where it is one, else a real. */
json_t *prs_json_number(double value);

/* Writes and frees `document`; without a path it only frees. False after a message on stderr. */
bool prs_json_write(json_t *document, const struct prs_output *output);

#endif
