/* SPDX-License-Identifier: Apache-2.0 */
/* registered.c: memory, as the host registers and releases it. */
#include "plugin.h"
#include "staging/cuda.h"
#include "staging/stage.h"

static void lock_both(struct prs_plugin *plugin)
{
    prs_route_lock(&plugin->routes[PRS_SIDE_HOST]);
    prs_route_lock(&plugin->routes[PRS_SIDE_PROXY]);
}

static void unlock_both(struct prs_plugin *plugin)
{
    prs_route_unlock(&plugin->routes[PRS_SIDE_PROXY]);
    prs_route_unlock(&plugin->routes[PRS_SIDE_HOST]);
}

enum perseus_status prs_plugin_register(struct prs_plugin *plugin, void *buffer, size_t bytes,
                                        bool local_only, unsigned char *out_blob)
{
    bool device = prs_cuda_is_device(plugin->cuda, buffer);
    lock_both(plugin);
    enum perseus_status status = device ? prs_staging_pin(plugin->stage) : PERSEUS_OK;
    if (status == PERSEUS_OK) {
        status = prs_memory_register(&plugin->memory, buffer, bytes, device, local_only, out_blob);
    }
    unlock_both(plugin);
    return status;
}

enum perseus_status prs_plugin_release(struct prs_plugin *plugin, const unsigned char *blob)
{
    lock_both(plugin);
    enum perseus_status status = prs_memory_release(&plugin->memory, blob);
    unlock_both(plugin);
    return status;
}
