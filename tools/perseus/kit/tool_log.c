/* SPDX-License-Identifier: Apache-2.0 */
#include "kit/tool_log.h"

#include <stdio.h>
#include <string.h>

#include "base/env.h"

static const char *const level_names[] = {
    [PERSEUS_LOG_ERROR] = "error",
    [PERSEUS_LOG_WARN] = "warn",
    [PERSEUS_LOG_INFO] = "info",
    [PERSEUS_LOG_DEBUG] = "debug",
};

enum perseus_log_level prs_tool_log_level(void)
{
    const char *text = prs_env_text(PRS_ENV_LOG);
    for (size_t i = 0; i < sizeof level_names / sizeof level_names[0]; i++) {
        if (strcmp(text, level_names[i]) == 0) {
            return (enum perseus_log_level)i;
        }
    }
    return PERSEUS_LOG_WARN;
}

void prs_tool_log_line(void *user, enum perseus_log_level level, const char *text)
{
    (void)user;
    /* One call, so that lines of several PEs do not mix. */
    fprintf(stderr, "perseus: %s: %s\n", level_names[level], text);
}

struct prs_log prs_tool_log(void)
{
    return (struct prs_log){.fn = prs_tool_log_line, .level = prs_tool_log_level(), .pe = -1};
}
