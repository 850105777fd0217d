/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/warnings.h"

enum { SAID_MAX = 8 };

static const uint64_t window_ns = 10000000000u;

void prs_warnings_finish(struct prs_warnings *warnings)
{
    if (warnings->n_silent > 0) {
        prs_log(warnings->log, PERSEUS_LOG_WARN, "dropped %llu more connections of strangers",
                (unsigned long long)warnings->n_silent);
        warnings->n_silent = 0;
    }
}

void prs_warnings_dropped(struct prs_warnings *warnings, uint64_t now_ns, const char *name,
                          const char *why)
{
    if (now_ns >= warnings->window_end_ns) {
        prs_warnings_finish(warnings);
        warnings->window_end_ns = now_ns + window_ns;
        warnings->n_said = 0;
    }
    if (warnings->n_said == SAID_MAX) {
        warnings->n_silent++;
        return;
    }
    warnings->n_said++;
    prs_log(warnings->log, PERSEUS_LOG_WARN, "dropped a connection from %s: %s", name, why);
}
