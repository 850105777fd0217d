/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.h: what a command writes: files that an option names, and standard output.
 *
 * A byte that could not be written is a failure of the command, told in one line on stderr. Files
 * are tried before the work starts, so that a path that cannot be written costs no measurement.
 */
#ifndef PRS_TOOLS_OUTPUT_H
#define PRS_TOOLS_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

/* A file that the user asked for. */
struct prs_output {
    const char *option; /* as typed: "--json" */
    const char *path;   /* NULL: not asked for */
};

/* Whether every file can be written; creates those that are not there. False after a message that
 * names the option and the path. Two options must not name one file. */
bool prs_output_check(const struct prs_output *outputs, size_t n);

/* Opens the file, empty. NULL after a message. */
FILE *prs_output_open(const struct prs_output *output);
/* Closes it; false after a message, if now or before something could not be written. */
bool prs_output_close(const struct prs_output *output, FILE *file);

/* At the very start: a standard descriptor that was closed gets a stand-in, of which reading and
 * writing fail. Else the next file or socket to be opened would have its number, and take what is
 * meant for it. */
void prs_output_begin(void);
/* Ends standard output; nothing can be printed after it. False after a message, as above. */
bool prs_output_end_stdout(void);

#endif
