/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/scope.h"

enum perseus_status prs_scope_check(uint64_t first, uint64_t other, int pe, const char *provider,
                                    const struct prs_log *log)
{
    if (first == other) {
        return PERSEUS_OK;
    }
    return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                    "PE 0 and PE %d are on different hosts (or in different containers), but %.64s "
                    "reaches no further than one: set PERSEUS_BIND to the interface (eth0) or "
                    "subnet (10.1.0.0/16) that joins the hosts, on every PE; shm joins none",
                    pe, provider);
}
