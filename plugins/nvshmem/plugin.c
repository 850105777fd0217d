#include "plugin.h"

#include <stdlib.h>
#include <string.h>

#include "fabric/word.h"
#include "notice.h"

/* ---- what the user asked for ---- */

/* PERSEUS_PROVIDER, else what NVSHMEM's own libfabric transport would take, else what the file's
 * name stands for. */
static const char *provider_wanted(const struct prs_plugin *plugin)
{
    if (plugin->settings.provider[0] != '\0') {
        return plugin->settings.provider;
    }
    if (strcmp(plugin->transport_name, "ibrc") == 0) {
        return "verbs";
    }
    const char *provider = getenv("NVSHMEM_LIBFABRIC_PROVIDER");
    return provider != NULL ? provider : "";
}

static enum perseus_status read_settings(struct prs_plugin *plugin)
{
    enum perseus_status status = prs_settings_read(NULL, &plugin->log, &plugin->settings);
    if (status != PERSEUS_OK) {
        return status;
    }
    if (strcmp(plugin->settings.fabric, "libfabric") == 0) {
        plugin->settings.provider = provider_wanted(plugin);
    }
    plugin->timeout_ns = plugin->settings.timeout_ms * UINT64_C(1000000);
    return PERSEUS_OK;
}

/* ---- life ---- */

static enum perseus_status open_routes(struct prs_plugin *plugin, bool host_drops_fences)
{
    enum perseus_status status = PERSEUS_OK;
    for (int side = 0; side < PRS_SIDE_COUNT && status == PERSEUS_OK; side++) {
        status =
            prs_route_init(&plugin->routes[side], plugin, (enum prs_side)side, &plugin->settings);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    const struct prs_route *route = &plugin->routes[PRS_SIDE_PROXY];
    plugin->offers_fence = !prs_sequence_is_natural(route->ordering, &route->fabric->caps);
    plugin->host_fences = plugin->offers_fence && !host_drops_fences;
    plugin->op_bytes_max = route->fabric->caps.message_bytes_max;
    if (plugin->op_bytes_max == 0 || plugin->op_bytes_max > UINT64_C(1) << 30) {
        plugin->op_bytes_max = UINT64_C(1) << 30;
    }
    return PERSEUS_OK;
}

enum perseus_status prs_plugin_create(const char *transport_name, bool host_drops_fences,
                                      const struct prs_abi_cuda_table *cuda,
                                      const struct prs_log *log, struct prs_plugin **out)
{
    (void)cuda;
    struct prs_plugin *plugin = calloc(1, sizeof *plugin);
    if (plugin == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for the transport");
    }
    plugin->log = *log;
    plugin->clock = prs_clock_monotonic();
    plugin->transport_name = transport_name;
    enum perseus_status status = read_settings(plugin);
    if (status == PERSEUS_OK) {
        status = open_routes(plugin, host_drops_fences);
    }
    if (status != PERSEUS_OK) {
        prs_plugin_destroy(plugin);
        return status;
    }
    *out = plugin;
    return PERSEUS_OK;
}

void prs_plugin_destroy(struct prs_plugin *plugin)
{
    if (plugin == NULL) {
        return;
    }
    prs_memory_finish(plugin);
    for (int side = 0; side < PRS_SIDE_COUNT; side++) {
        prs_route_finish(&plugin->routes[side]);
    }
    free(plugin->hellos);
    free(plugin);
}

/* ---- this PE's own memory ---- */

bool prs_plugin_is_device(const struct prs_plugin *plugin, const void *pointer)
{
    (void)plugin;
    (void)pointer;
    return false;
}

void prs_plugin_store(struct prs_plugin *plugin, void *pointer, uint64_t value, uint32_t bytes)
{
    (void)plugin;
    prs_word_apply_sized(pointer, bytes, PERSEUS_ATOMIC_SET, value, 0);
}

uint64_t prs_plugin_apply(struct prs_plugin *plugin, const struct prs_amo *amo, void *word)
{
    (void)plugin;
    return prs_word_apply_sized(word, amo->bytes, amo->op, amo->operand, amo->compare);
}

enum perseus_status prs_plugin_progress(struct prs_plugin *plugin)
{
    enum perseus_status status = PERSEUS_OK;
    for (int side = PRS_SIDE_COUNT - 1; side >= 0 && status == PERSEUS_OK; side--) {
        struct prs_route *route = &plugin->routes[side];
        bool did;
        /* The host's side is busy with its own user thread when its lock is taken. */
        if (side == PRS_SIDE_PROXY) {
            prs_route_lock(route);
        } else if (pthread_mutex_trylock(&route->lock) != 0) {
            continue;
        }
        status = prs_route_progress(route, &did);
        prs_route_unlock(route);
    }
    return status;
}
