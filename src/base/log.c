/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

#define TEXT_BYTES_MAX 1024

static void vlog(const struct prs_log *log, enum perseus_log_level level, const char *format,
                 va_list args)
{
    if (log == NULL || log->fn == NULL || level > log->level) {
        return;
    }
    char text[TEXT_BYTES_MAX];
    int used = log->pe >= 0 ? snprintf(text, sizeof text, "PE %d: ", log->pe) : 0;
    vsnprintf(text + used, sizeof text - (size_t)used, format, args);
    log->fn(log->user, level, text);
}

void prs_log(const struct prs_log *log, enum perseus_log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vlog(log, level, format, args);
    va_end(args);
}

enum perseus_status prs_fail(const struct prs_log *log, enum perseus_status status,
                             const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vlog(log, PERSEUS_LOG_ERROR, format, args);
    va_end(args);
    return status;
}
