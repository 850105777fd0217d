/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file_limit.h"

#define TEXT_BYTES_MAX 1024

static const char *const level_names[] = {
    [PERSEUS_LOG_ERROR] = "error",
    [PERSEUS_LOG_WARN] = "warn",
    [PERSEUS_LOG_INFO] = "info",
    [PERSEUS_LOG_DEBUG] = "debug",
};

const char *prs_log_level_name(enum perseus_log_level level)
{
    return (unsigned)level <= PERSEUS_LOG_DEBUG ? level_names[level] : "unknown";
}

bool prs_log_level_parse(const char *name, enum perseus_log_level *out)
{
    for (size_t i = 0; i < sizeof level_names / sizeof level_names[0]; i++) {
        if (strcmp(name, level_names[i]) == 0) {
            *out = (enum perseus_log_level)i;
            return true;
        }
    }
    return false;
}

void prs_log_to_stderr(void *user, enum perseus_log_level level, const char *text)
{
    char line[TEXT_BYTES_MAX + 32];
    (void)user;
    int n = snprintf(line, sizeof line, "perseus: %s: %s\n", prs_log_level_name(level), text);
    struct prs_file_limit limit;
    prs_file_limit_begin(&limit); /* stderr may be a file */
    /* One call, so that lines of several PEs do not mix. There is nobody to tell that it failed. */
    ssize_t written = n > 0 ? write(STDERR_FILENO, line, (size_t)n) : 0;
    (void)written;
    prs_file_limit_end(&limit);
}

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
