/* SPDX-License-Identifier: Apache-2.0 */
#include "host/version.h"

enum perseus_status prs_version_negotiate(int host_version, const struct prs_log *log,
                                          int *out_version)
{
    int own = 0;
    switch (PRS_INTERFACE_MAJOR(host_version)) {
    case 3:
        own = PRS_INTERFACE_3;
        break;
    case 4:
        own = PRS_INTERFACE_4;
        break;
    default:
        return prs_fail(
            log, PERSEUS_VERSION,
            "this NVSHMEM speaks transport interface %d.%d, Perseus speaks 3.0 (NVSHMEM "
            "3.4) and 4.0 (NVSHMEM 3.5): use one of those, or NVSHMEM's own transport",
            host_version / 10000, host_version / 100 % 100);
    }
    *out_version = host_version < own ? host_version : own;
    return PERSEUS_OK;
}
