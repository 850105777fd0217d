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

#define PATIENCE_MS_MAX 5000u

/* What the first device memory needs. */
static enum perseus_status prepare_device(struct prs_plugin *plugin)
{
    enum perseus_status status = prs_staging_pin(plugin->stage);
    uint64_t third = plugin->timeout_ms / 3;
    return status == PERSEUS_OK
               ? prs_cuda_watch(plugin->cuda, third < PATIENCE_MS_MAX ? third : PATIENCE_MS_MAX)
               : status;
}

static void warn_of_atomics(struct prs_plugin *plugin)
{
    if (plugin->warned_of_atomics || plugin->my_pe != 0 ||
        prs_cuda_has_host_atomics(plugin->cuda)) {
        return;
    }
    plugin->warned_of_atomics = true;
    prs_log(&plugin->log, PERSEUS_LOG_WARN,
            "the heap is in system memory, on which this GPU has no native atomics: a kernel that "
            "polls "
            "flags with atomics (atomicAdd, cuda::atomic) may never see them change. Poll with "
            "nvshmem_signal_wait_until or volatile loads, or use a device heap");
}

enum perseus_status prs_plugin_register(struct prs_plugin *plugin, void *buffer, size_t bytes,
                                        bool local_only, unsigned char *out_blob)
{
    bool device = prs_cuda_is_device(plugin->cuda, buffer);
    lock_both(plugin);
    enum perseus_status status = device ? prepare_device(plugin) : PERSEUS_OK;
    if (status == PERSEUS_OK) {
        status = prs_memory_register(&plugin->memory, buffer, bytes, device, local_only, out_blob);
    }
    if (!device && !local_only) {
        warn_of_atomics(plugin);
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
