/* SPDX-License-Identifier: Apache-2.0 */
#include "base/last_error.h"

#include <stdio.h>

static _Thread_local char last_text[1024];

const char *prs_last_error(void)
{
    return last_text;
}

void prs_last_error_set(const char *text)
{
    snprintf(last_text, sizeof last_text, "%s", text);
}

static void keep_error(void *user, enum perseus_log_level level, const char *text)
{
    (void)user;
    if (level == PERSEUS_LOG_ERROR) {
        prs_last_error_set(text);
    }
}

struct prs_log prs_last_error_log(void)
{
    return (struct prs_log){.fn = keep_error, .level = PERSEUS_LOG_ERROR, .pe = -1};
}
