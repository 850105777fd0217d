/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/libfabric/discover.h"

#include "fabric/libfabric/provider/choose.h"

void prs_libfabric_names(void (*fn)(void *user, const char *name), void *user)
{
    struct prs_lf_providers providers;
    prs_lf_providers_find(&providers);
    for (uint32_t i = 0; i < providers.count; i++) {
        fn(user, providers.names[i]);
    }
}
