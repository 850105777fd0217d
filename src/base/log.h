/* SPDX-License-Identifier: Apache-2.0 */
/* log.h: where messages go. The library never prints: a struct prs_log is handed down from whoever
 * opened the context. A zeroed prs_log drops everything. */
#ifndef PRS_BASE_LOG_H
#define PRS_BASE_LOG_H

#include <perseus/perseus.h>

struct prs_log {
    perseus_log_fn fn;
    void *user;
    enum perseus_log_level level;
    int pe; /* prefix of every message, -1 before it is known */
};

/* Formats "PE n: ..." and calls the callback. Truncates at 1 KiB. A NULL log drops the message. */
void prs_log(const struct prs_log *log, enum perseus_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "error", "warn", "info" or "debug". */
const char *prs_log_level_name(enum perseus_log_level level);
/* False for any other word. */
bool prs_log_level_parse(const char *name, enum perseus_log_level *out);
/* A perseus_log_fn for whoever asked for lines on stderr; no user. */
void prs_log_to_stderr(void *user, enum perseus_log_level level, const char *text);

/* Logs an error and returns `status`: `return prs_fail(log, PERSEUS_IO, "...", ...)`. The text says
 * what happened, with which PE and peer, and what to do. */
enum perseus_status prs_fail(const struct prs_log *log, enum perseus_status status,
                             const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
