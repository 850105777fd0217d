/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/registry.h"

#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "fabric/cudadma/cudadma.h"
#include "fabric/loopback/loopback.h"
#ifdef PERSEUS_HAVE_LIBFABRIC
#include "fabric/libfabric/libfabric.h"
#endif
#ifdef PERSEUS_HAVE_VERBS
#include "fabric/verbs/verbs.h"
#endif

static const struct prs_fabric_ops *const prs_registry[] = {
#ifdef PERSEUS_HAVE_LIBFABRIC
    &prs_libfabric_ops,
#endif
#ifdef PERSEUS_HAVE_VERBS
    &prs_verbs_ops,
#endif
    /* Within a process. */
    &prs_cudadma_ops,
    &prs_loopback_ops,
    /* The end. */
    NULL,
};

const struct prs_fabric_ops *const *prs_fabric_registry(void)
{
    return prs_registry;
}

const char *prs_fabric_default(enum prs_memory_kind memory)
{
    return memory == PRS_MEMORY_CUDA ? prs_cudadma_ops.name : prs_env_text(PRS_ENV_FABRIC);
}

enum perseus_status prs_fabric_find(const char *name, const struct prs_log *log,
                                    const struct prs_fabric_ops **out)
{
    char known[128] = "";
    size_t used = 0;
    for (const struct prs_fabric_ops *const *ops = prs_registry; *ops != NULL; ops++) {
        if (strcmp((*ops)->name, name) == 0) {
            *out = *ops;
            return PERSEUS_OK;
        }
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used == 0 ? "" : ", ",
                                 (*ops)->name);
    }
    return prs_fail(log, PERSEUS_NOT_FOUND,
                    "there is no fabric \"%s\" in this build; choose one of: %s", name, known);
}
