/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin.h"

#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/standard_fds.h"
#include "staging/cuda.h"
#include "staging/stage.h"

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
    const struct perseus_attr none = {.ordering = PERSEUS_ORDERING_AUTO}; /* all by environment */
    enum perseus_status status = prs_link_settings_read(&none, &plugin->log, &plugin->settings);
    if (status == PERSEUS_OK) {
        status = prs_env_u64(PRS_ENV_TIMEOUT_MS, 1, UINT32_MAX, &plugin->log, &plugin->timeout_ms);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    if (strcmp(plugin->settings.fabric, "libfabric") == 0) {
        plugin->settings.provider = provider_wanted(plugin);
    }
    status = prs_env_u64(PRS_ENV_STAGE_BYTES, 1 << 16, 1 << 28, &plugin->log, &plugin->stage_bytes);
    if (status == PERSEUS_OK && (plugin->stage_bytes & (plugin->stage_bytes - 1)) != 0) {
        status = prs_fail(&plugin->log, PERSEUS_INVALID_ARGUMENT,
                          "PERSEUS_STAGE_BYTES is %llu, which is not a power of two",
                          (unsigned long long)plugin->stage_bytes);
    }
    return status == PERSEUS_OK
               ? prs_env_bool(PRS_ENV_OFFER_FENCE, &plugin->log, &plugin->takes_fences)
               : status;
}

/* ---- life ---- */

/* A fabric that may tear signals is one whose CPUs copy every message: then one more copy is
 * cheaper than a message of its own for every put and signal, and words are written whole. */
static enum perseus_status decide_staging(struct prs_plugin *plugin, const struct prs_link *link)
{
    const char *text = prs_env_text(PRS_ENV_STAGE_HOST);
    if (strcmp(text, "auto") == 0) {
        plugin->memory.stage_host =
            link->fabric->caps.signals_tear && link->ordering != PERSEUS_ORDERING_DRAIN;
        return PERSEUS_OK;
    }
    if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0) {
        return prs_fail(&plugin->log, PERSEUS_INVALID_ARGUMENT,
                        "PERSEUS_STAGE_HOST=\"%s\" is none of auto, 0 and 1", text);
    }
    plugin->memory.stage_host = text[0] == '1';
    return PERSEUS_OK;
}

/* What follows for the links: staging's own words only grow and are waited for as such, so
 * half-written they are merely late; and it reads "the tail has passed" as "all before it is
 * here". Signals that may only be stored twice are written directly: kernels wait for words that
 * grow, and clear none while its next one may be on its way. */
static void adapt_settings(struct prs_plugin *plugin)
{
    struct prs_link_settings *settings = &plugin->settings;
    bool tears = plugin->routes[PRS_SIDE_PROXY].link.fabric->caps.signals_tear;
    settings->whole_signals = settings->whole_signals && tears && !plugin->memory.stage_host;
    settings->immediate_signal = settings->immediate_signal && !prs_plugin_stages(plugin);
    settings->peer_timeout_ns =
        0; /* a PE whose host calls nothing polls nothing; calls have deadlines */
}

static enum perseus_status open_routes(struct prs_plugin *plugin)
{
    enum perseus_status status = PERSEUS_OK;
    for (int side = 0; side < PRS_SIDE_COUNT && status == PERSEUS_OK; side++) {
        const struct prs_route_config config = {
            .side = (enum prs_side)side,
            .settings = &plugin->settings,
            .log = &plugin->log,
            .timeout_ns = plugin->timeout_ms * UINT64_C(1000000),
            .companion = &plugin->routes[PRS_SIDE_COUNT - 1 - side],
        };
        status = prs_route_init(&plugin->routes[side], &config);
    }
    const struct prs_route *route = &plugin->routes[PRS_SIDE_PROXY];
    const struct prs_link *link = &route->link;
    if (status == PERSEUS_OK) {
        prs_log(&plugin->log, PERSEUS_LOG_INFO, "%s over %s, ordering %s: %s",
                plugin->transport_name, link->fabric->caps.provider,
                perseus_ordering_name(link->ordering), link->why);
        status = decide_staging(plugin, link);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    adapt_settings(plugin);
    /* What is staged is in order whatever the fabric does; vanilla waits all the same. */
    bool is_natural = (plugin->memory.stage_host && link->ordering != PERSEUS_ORDERING_DRAIN) ||
                      prs_sequence_is_natural(link->ordering, &link->fabric->caps,
                                              prs_route_has_records(route, &plugin->settings));
    plugin->offers_fence = !is_natural || plugin->takes_fences;
    plugin->host_fences = plugin->offers_fence && plugin->interface->passes_fences;
    plugin->op_bytes_max = link->fabric->caps.message_bytes_max;
    if (plugin->op_bytes_max == 0 || plugin->op_bytes_max > UINT64_C(1) << 30) {
        plugin->op_bytes_max = UINT64_C(1) << 30;
    }
    return PERSEUS_OK;
}

enum perseus_status prs_plugin_create(const char *transport_name,
                                      const struct prs_interface *interface,
                                      const struct prs_abi_cuda_table *cuda,
                                      const struct prs_log *log, struct prs_plugin **out)
{
    struct prs_plugin *plugin = calloc(1, sizeof *plugin);
    if (plugin == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for the transport");
    }
    prs_standard_fds_hold();
    plugin->log = *log;
    plugin->transport_name = transport_name;
    plugin->interface = interface;
    plugin->memory.log = &plugin->log;
    plugin->memory.routes = plugin->routes;
    enum perseus_status status = read_settings(plugin);
    if (status == PERSEUS_OK) {
        status =
            prs_cuda_create(interface->has_cuda_table ? cuda : NULL, &plugin->log, &plugin->cuda);
    }
    if (status == PERSEUS_OK) {
        status = open_routes(plugin);
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
    prs_memory_finish(&plugin->memory);
    prs_staging_destroy(plugin->stage);
    plugin->stage = NULL; /* what it still has under way is canceled with the routes */
    for (int side = 0; side < PRS_SIDE_COUNT; side++) {
        prs_route_finish(&plugin->routes[side]);
    }
    prs_cuda_destroy(plugin->cuda);
    free(plugin->hellos);
    free(plugin);
    prs_standard_fds_release();
}

/* Looking at a fabric costs system calls, so while requests stream in, it is done once for several
 * of them; and at the host's side, which is seldom used, once for several looks at the proxy's. */
#define REQUESTS_PER_POLL   16
#define POLLS_PER_HOST_POLL 16

enum perseus_status prs_plugin_progress(struct prs_plugin *plugin)
{
    struct prs_route *proxy = &plugin->routes[PRS_SIDE_PROXY];
    struct prs_route *host = &plugin->routes[PRS_SIDE_HOST];
    uint32_t submitted = atomic_load_explicit(&proxy->submitted, memory_order_relaxed);
    bool did, busy = submitted != plugin->seen_submitted;
    plugin->seen_submitted = submitted;
    bool poll = !busy || submitted - plugin->polled_submitted >= REQUESTS_PER_POLL;
    prs_route_lock(proxy);
    enum perseus_status status =
        poll ? prs_route_progress(proxy, &did) : prs_route_flush_run(proxy);
    prs_route_unlock(proxy);
    if (!poll) {
        return status == PERSEUS_AGAIN ? PERSEUS_OK : status;
    }
    plugin->polled_submitted = submitted;
    /* When its lock is taken, its own user thread drives it. */
    if (status == PERSEUS_OK && ++plugin->polls % POLLS_PER_HOST_POLL == 0 &&
        pthread_mutex_trylock(&host->lock) == 0) {
        status = prs_route_progress(host, &did);
        prs_route_unlock(host);
    }
    return status;
}
