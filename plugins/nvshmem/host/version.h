/* SPDX-License-Identifier: Apache-2.0 */
/* version.h: which interface versions of NVSHMEM this transport speaks. */
#ifndef PRS_NVSHMEM_VERSION_H
#define PRS_NVSHMEM_VERSION_H

#include "base/log.h"

/* A version is major * 10000 + minor * 100 + patch; layouts change with the major. */
#define PRS_INTERFACE_MAJOR(version) ((version) / 10000)
#define PRS_INTERFACE_3              30000
#define PRS_INTERFACE_4              40000

/* The version to tell a host that speaks `host_version`: the lesser of both within one major.
 * VERSION for any other major, with a message that names both. */
enum perseus_status prs_version_negotiate(int host_version, const struct prs_log *log,
                                          int *out_version);

#endif
