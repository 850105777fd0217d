/* SPDX-License-Identifier: Apache-2.0 */
/* discover.h: what every libfabric provider of this host grants, for `perseus info`. */
#ifndef PRS_LIBFABRIC_DISCOVER_H
#define PRS_LIBFABRIC_DISCOVER_H

#include "fabric/fabric.h"

struct prs_libfabric_provider {
    const char *name; /* as perseus takes it */
    enum perseus_status status;
    const struct prs_caps *caps; /* NULL unless status is OK */
    const char *reason;          /* why it cannot be used, "" if it can */
};
/* Everything pointed to lives during the call only. */
typedef void (*prs_libfabric_provider_fn)(void *user,
                                          const struct prs_libfabric_provider *provider);

/* Opens each provider with `config` (its provider and log are not used), calls `fn`, closes it.
 * NOT_FOUND when libfabric has none. */
enum perseus_status prs_libfabric_discover(const struct prs_fabric_config *config,
                                           const struct prs_log *log, prs_libfabric_provider_fn fn,
                                           void *user);

#endif
