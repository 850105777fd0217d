/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/libfabric/discover.h"

#include <stdio.h>

#include "fabric/libfabric/provider/choose.h"
#include "fabric/libfabric/libfabric.h"

#define PRS_LF_REASON_BYTES 512

static void keep_reason(void *user, enum perseus_log_level level, const char *text)
{
    (void)level;
    snprintf(user, PRS_LF_REASON_BYTES, "%s", text);
}

static void discover_one(const struct prs_fabric_config *config, const char *name,
                         prs_libfabric_provider_fn fn, void *user)
{
    char reason[PRS_LF_REASON_BYTES] = "";
    const struct prs_log log = {
        .fn = keep_reason, .user = reason, .level = PERSEUS_LOG_ERROR, .pe = -1};
    struct prs_fabric_config one = *config;
    one.provider = name;
    one.log = &log;
    struct prs_fabric *fabric = NULL;
    struct prs_endpoint *endpoint = NULL;
    enum perseus_status status = prs_libfabric_ops.open(&one, &fabric);
    /* Many a provider opens and then has no device, port or memory for an endpoint. */
    status = status == PERSEUS_OK ? prs_libfabric_ops.endpoint_open(fabric, &endpoint) : status;
    const struct prs_libfabric_provider provider = {
        .name = name,
        .status = status,
        .caps = status == PERSEUS_OK ? &fabric->caps : NULL,
        .reason = reason,
    };
    fn(user, &provider);
    prs_libfabric_ops.endpoint_close(endpoint);
    prs_libfabric_ops.close(fabric);
}

enum perseus_status prs_libfabric_discover(const struct prs_fabric_config *config,
                                           const struct prs_log *log, prs_libfabric_provider_fn fn,
                                           void *user)
{
    struct prs_lf_providers providers;
    prs_lf_providers_find(&providers);
    if (providers.count == 0) {
        return prs_fail(log, PERSEUS_NOT_FOUND,
                        "libfabric has no provider with reliable endpoints and remote memory "
                        "access here: fi_info lists what it has");
    }
    for (uint32_t i = 0; i < providers.count; i++) {
        discover_one(config, providers.names[i], fn, user);
    }
    return PERSEUS_OK;
}
