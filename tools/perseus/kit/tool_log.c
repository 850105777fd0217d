/* SPDX-License-Identifier: Apache-2.0 */
#include "kit/tool_log.h"

#include "base/env.h"

enum perseus_log_level prs_tool_log_level(void)
{
    enum perseus_log_level level = PERSEUS_LOG_WARN;
    prs_log_level_parse(prs_env_text(PRS_ENV_LOG), &level);
    return level;
}

void prs_tool_log_line(void *user, enum perseus_log_level level, const char *text)
{
    prs_log_to_stderr(user, level, text);
}

struct prs_log prs_tool_log(void)
{
    return (struct prs_log){.fn = prs_tool_log_line, .level = prs_tool_log_level(), .pe = -1};
}
