/* SPDX-License-Identifier: Apache-2.0 */
/* connect.c: what the PEs tell each other before the first transfer. Every PE makes the same
 * bootstrap calls whatever went wrong, and all of them judge the same data: so all fail, or
 * none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "fabric/scope.h"
#include "host/notice.h"
#include "perseus/perseus.h"
#include "plugin.h"
#include "staging/stage.h"

#define IDENTITY_MAGIC 0x3173757265737270u
/* The second number grows with the layout of what follows. */
#define PERSEUS_AND_PROTOCOL PERSEUS_VERSION_STRING ", protocol 4"

/* Exchanged first, and of one layout for ever: only between equals is the rest understood. */
struct identity {
    uint64_t magic;
    uint32_t interface;
    char perseus[52];
};
_Static_assert(sizeof(struct identity) == 64, "the same in all versions of Perseus");

struct hello_route {
    uint32_t address_bytes; /* directly before the address, as prs_orderer_set_directory wants it */
    unsigned char address[PRS_ORDERER_ADDRESS_MAX];
    uint32_t ordering;
    char provider[64];
    uint64_t scope; /* of the address: prs_caps.scope */
};

struct hello {
    uint32_t status; /* enum perseus_status of this PE's own start */
    struct hello_route routes[PRS_SIDE_COUNT];
    uint64_t stage_bytes; /* 0: nothing is staged */
    uint64_t stage_host;
    uint32_t arena_bytes; /* directly before the blob, as prs_staging_set_directory wants it */
    unsigned char arena[PRS_WINDOW_BLOB_MAX];
};

static enum perseus_status introduce_stage(struct prs_plugin *plugin, struct hello *hello)
{
    if (!prs_plugin_stages(plugin)) {
        return PERSEUS_OK;
    }
    const struct prs_staging_config config = {
        .route = &plugin->routes[PRS_SIDE_PROXY],
        .memory = &plugin->memory,
        .cuda = plugin->cuda,
        .log = &plugin->log,
        .ring_bytes = plugin->stage_bytes,
        .op_bytes_max = plugin->op_bytes_max,
        .fences = plugin->host_fences,
    };
    enum perseus_status status = prs_staging_create(&config, &plugin->stage);
    if (status != PERSEUS_OK) {
        return status;
    }
    size_t bytes = sizeof hello->arena;
    status = prs_window_export(plugin->stage->window, hello->arena, &bytes);
    hello->arena_bytes = (uint32_t)bytes;
    hello->stage_bytes = plugin->stage_bytes;
    hello->stage_host = plugin->memory.stage_host;
    return status;
}

static enum perseus_status introduce(struct prs_plugin *plugin, struct hello *hello)
{
    for (int side = 0; side < PRS_SIDE_COUNT; side++) {
        struct prs_route *route = &plugin->routes[side];
        struct hello_route *out = &hello->routes[side];
        enum perseus_status status =
            prs_route_start(route, &plugin->settings, (uint32_t)plugin->my_pe,
                            (uint32_t)plugin->n_pes, plugin->secret, plugin->host_fences);
        if (status != PERSEUS_OK) {
            return status;
        }
        size_t bytes = sizeof out->address;
        status = prs_orderer_address(route->link.orderer, out->address, &bytes);
        if (status != PERSEUS_OK) {
            return status;
        }
        out->address_bytes = (uint32_t)bytes;
        out->ordering = route->link.ordering;
        out->scope = route->link.fabric->caps.scope;
        snprintf(out->provider, sizeof out->provider, "%s", route->link.fabric->caps.provider);
    }
    return introduce_stage(plugin, hello);
}

/* ---- judgement: against PE 0, so that every PE finds the same fault ---- */

static enum perseus_status judge_identity(const struct prs_plugin *plugin,
                                          const struct identity *first,
                                          const struct identity *identity, int pe)
{
    if (identity->magic != IDENTITY_MAGIC || first->magic != IDENTITY_MAGIC) {
        return prs_fail(&plugin->log, PERSEUS_VERSION,
                        "PE %d does not run the Perseus transport, others do: give every PE the "
                        "same files and environment",
                        identity->magic != IDENTITY_MAGIC ? pe : 0);
    }
    if (memcmp(identity, first, sizeof *first) != 0) {
        return prs_fail(&plugin->log, PERSEUS_VERSION,
                        "PE %d runs Perseus %.52s, under NVSHMEM interface %u.0, PE 0 runs Perseus "
                        "%.52s, under interface %u.0: give every PE the same files",
                        pe, identity->perseus, identity->interface, first->perseus,
                        first->interface);
    }
    return PERSEUS_OK;
}

static enum perseus_status judge_routes(const struct prs_plugin *plugin, int pe)
{
    for (int side = 0; side < PRS_SIDE_COUNT; side++) {
        const struct hello_route *first = &plugin->hellos[0].routes[side];
        const struct hello_route *route = &plugin->hellos[pe].routes[side];
        if (first->ordering != route->ordering ||
            strncmp(first->provider, route->provider, sizeof first->provider) != 0) {
            return prs_fail(
                &plugin->log, PERSEUS_NOT_SUPPORTED,
                "PE %d uses %.64s with ordering %s, PE 0 uses %.64s with %s: set "
                "PERSEUS_PROVIDER and PERSEUS_ORDERING alike everywhere",
                pe, route->provider, perseus_ordering_name((enum perseus_ordering)route->ordering),
                first->provider, perseus_ordering_name((enum perseus_ordering)first->ordering));
        }
        enum perseus_status status =
            prs_scope_check(first->scope, route->scope, pe, first->provider, &plugin->log);
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    return PERSEUS_OK;
}

static enum perseus_status judge(const struct prs_plugin *plugin, int pe)
{
    const struct hello *first = &plugin->hellos[0], *hello = &plugin->hellos[pe];
    if (hello->status != PERSEUS_OK) {
        return pe == plugin->my_pe
                   ? (enum perseus_status)hello->status
                   : prs_fail(&plugin->log, (enum perseus_status)hello->status,
                              "PE %d could not start (%s): see its message", pe,
                              perseus_status_string((enum perseus_status)hello->status));
    }
    if (first->status != PERSEUS_OK) {
        return PERSEUS_OK; /* it was told already */
    }
    enum perseus_status status = judge_routes(plugin, pe);
    if (status == PERSEUS_OK &&
        (hello->stage_bytes != first->stage_bytes || hello->stage_host != first->stage_host)) {
        status = prs_fail(
            &plugin->log, PERSEUS_NOT_SUPPORTED,
            "PE %d stages through %llu bytes (system memory: %llu), PE 0 through %llu (%llu); "
            "0 bytes: it has no GPU. Set PERSEUS_STAGE_BYTES and PERSEUS_STAGE_HOST alike "
            "everywhere",
            pe, (unsigned long long)hello->stage_bytes, (unsigned long long)hello->stage_host,
            (unsigned long long)first->stage_bytes, (unsigned long long)first->stage_host);
    }
    return status;
}

/* ---- exchange ---- */

static enum perseus_status gather(struct prs_plugin *plugin, struct prs_abi_bootstrap *bootstrap,
                                  const void *own, void *all, size_t bytes)
{
    int failed = bootstrap->allgather(own, all, (int)bytes, bootstrap);
    if (failed == 0) {
        return PERSEUS_OK;
    }
    return prs_fail(&plugin->log, PERSEUS_IO,
                    "PE %d: NVSHMEM's bootstrap could not gather addresses (error %d): see whether "
                    "every PE is alive",
                    plugin->my_pe, failed);
}

static enum perseus_status identify(struct prs_plugin *plugin, struct prs_abi_bootstrap *bootstrap)
{
    struct identity own = {.magic = IDENTITY_MAGIC,
                           .interface = (uint32_t)plugin->interface->major,
                           .perseus = PERSEUS_AND_PROTOCOL};
    struct identity *all = calloc((size_t)plugin->n_pes, sizeof *all);
    if (all == NULL) {
        return prs_fail(&plugin->log, PERSEUS_OUT_OF_MEMORY, "no memory for %d PEs", plugin->n_pes);
    }
    enum perseus_status status = gather(plugin, bootstrap, &own, all, sizeof own);
    for (int pe = 0; pe < plugin->n_pes && status == PERSEUS_OK; pe++) {
        status = judge_identity(plugin, &all[0], &all[pe], pe);
    }
    free(all);
    return status;
}

/* Immediates of strangers are told by it (docs/ordering.md). *own_status: what only this PE found
 * wrong; the others hear of it with its hello. */
static enum perseus_status share_secret(struct prs_plugin *plugin,
                                        struct prs_abi_bootstrap *bootstrap, uint32_t *own_status)
{
    unsigned char own[PRS_SECRET_BYTES];
    unsigned char *all = calloc((size_t)plugin->n_pes, sizeof own);
    if (all == NULL) {
        return prs_fail(&plugin->log, PERSEUS_OUT_OF_MEMORY, "no memory for %d PEs", plugin->n_pes);
    }
    if (!prs_random_fill(own, sizeof own)) {
        *own_status = prs_fail(&plugin->log, PERSEUS_INTERNAL,
                               "the kernel has no random bytes for the job's secret");
    }
    enum perseus_status status = gather(plugin, bootstrap, own, all, sizeof own);
    if (status == PERSEUS_OK) {
        memcpy(plugin->secret, all, sizeof plugin->secret);
    }
    free(all);
    return status;
}

static enum perseus_status exchange(struct prs_plugin *plugin, const struct hello *hello,
                                    struct prs_abi_bootstrap *bootstrap)
{
    enum perseus_status status = gather(plugin, bootstrap, hello, plugin->hellos, sizeof *hello);
    for (int pe = 0; pe < plugin->n_pes && status == PERSEUS_OK; pe++) {
        status = judge(plugin, pe);
    }
    for (int side = 0; side < PRS_SIDE_COUNT && status == PERSEUS_OK; side++) {
        const struct hello_route *first = &plugin->hellos[0].routes[side];
        prs_orderer_set_directory(plugin->routes[side].link.orderer,
                                  (const unsigned char *)&first->address_bytes, sizeof *hello);
    }
    if (status == PERSEUS_OK && plugin->stage != NULL) {
        prs_staging_set_directory(
            plugin->stage, (const unsigned char *)&plugin->hellos[0].arena_bytes, sizeof *hello);
    }
    return status;
}

enum perseus_status prs_plugin_connect(struct prs_plugin *plugin, int my_pe, int n_pes,
                                       struct prs_abi_bootstrap *bootstrap)
{
    if (plugin->n_pes > 0) {
        return PERSEUS_OK; /* more queue pairs were asked for: the routes serve all of them */
    }
    if (n_pes < 1 || n_pes >= PRS_ABI_PE_ALL || my_pe < 0 || my_pe >= n_pes) {
        return prs_fail(&plugin->log, PERSEUS_INVALID_ARGUMENT, "PE %d of %d cannot be", my_pe,
                        n_pes);
    }
    plugin->my_pe = my_pe;
    plugin->log.pe = my_pe;
    plugin->memory.owner = (uint32_t)my_pe;
    plugin->hellos = calloc((size_t)n_pes, sizeof *plugin->hellos);
    struct hello *hello = calloc(1, sizeof *hello);
    if (plugin->hellos == NULL || hello == NULL) {
        free(hello);
        return prs_fail(&plugin->log, PERSEUS_OUT_OF_MEMORY, "no memory for %d PEs", n_pes);
    }
    plugin->n_pes = n_pes;
    enum perseus_status status = identify(plugin, bootstrap);
    if (status == PERSEUS_OK) {
        status = share_secret(plugin, bootstrap, &hello->status);
    }
    if (status == PERSEUS_OK) {
        hello->status = hello->status == PERSEUS_OK ? introduce(plugin, hello) : hello->status;
        status = exchange(plugin, hello, bootstrap);
    }
    free(hello);
    if (status == PERSEUS_OK && my_pe == 0) {
        prs_notice_environment(&plugin->log);
    }
    return status;
}
