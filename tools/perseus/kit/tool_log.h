/* SPDX-License-Identifier: Apache-2.0 */
/* tool_log.h: where the library's messages go in the tools: stderr, one line each. */
#ifndef PRS_TOOLS_TOOL_LOG_H
#define PRS_TOOLS_TOOL_LOG_H

#include "base/log.h"

/* The level of PERSEUS_LOG; a word it does not know counts as the default, warn. */
enum perseus_log_level prs_tool_log_level(void);
/* perseus_log_fn; `user` is not used. */
void prs_tool_log_line(void *user, enum perseus_log_level level, const char *text);
/* Both, as the internal layers want them. */
struct prs_log prs_tool_log(void);

#endif
