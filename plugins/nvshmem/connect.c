/* connect.c: what the PEs tell each other before the first transfer. Every PE makes the same
 * bootstrap calls whatever went wrong, and all of them judge the same data: so all fail, or none.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"
#include "stage.h"

#define HELLO_MAGIC   0x31656c6c65686e76u
#define HELLO_VERSION 1

struct prs_hello_route {
    uint32_t address_bytes; /* directly before the address, as prs_orderer_set_directory wants it */
    unsigned char address[PRS_ORDERER_ADDRESS_MAX];
    uint32_t ordering;
    char provider[64];
};

struct prs_hello {
    uint64_t magic;
    uint32_t version;
    uint32_t status; /* enum perseus_status of this PE's own start */
    struct prs_hello_route routes[PRS_SIDE_COUNT];
    uint64_t stage_bytes; /* 0: no GPU */
    uint32_t arena_bytes;
    unsigned char arena[PRS_WINDOW_BLOB_MAX];
};

static enum perseus_status introduce_stage(struct prs_plugin *plugin, struct prs_hello *hello)
{
    if (plugin->cuda == NULL) {
        return PERSEUS_OK;
    }
    enum perseus_status status = prs_staging_create(plugin, plugin->stage_bytes, &plugin->stage);
    if (status != PERSEUS_OK) {
        return status;
    }
    size_t bytes = sizeof hello->arena;
    status = prs_window_export(plugin->stage->window, hello->arena, &bytes);
    hello->arena_bytes = (uint32_t)bytes;
    hello->stage_bytes = plugin->stage_bytes;
    return status;
}

static enum perseus_status introduce(struct prs_plugin *plugin, struct prs_hello *hello)
{
    for (int side = 0; side < PRS_SIDE_COUNT; side++) {
        struct prs_route *route = &plugin->routes[side];
        struct prs_hello_route *out = &hello->routes[side];
        enum perseus_status status = prs_route_start(
            route, &plugin->settings, (uint32_t)plugin->my_pe, (uint32_t)plugin->n_pes);
        if (status != PERSEUS_OK) {
            return status;
        }
        size_t bytes = sizeof out->address;
        status = prs_orderer_address(route->orderer, out->address, &bytes);
        if (status != PERSEUS_OK) {
            return status;
        }
        out->address_bytes = (uint32_t)bytes;
        out->ordering = route->ordering;
        snprintf(out->provider, sizeof out->provider, "%s", route->fabric->caps.provider);
    }
    return introduce_stage(plugin, hello);
}

/* Against PE 0, so that every PE finds the same fault. */
static enum perseus_status judge(const struct prs_plugin *plugin, int pe)
{
    const struct prs_hello *first = &plugin->hellos[0], *hello = &plugin->hellos[pe];
    if (hello->magic != HELLO_MAGIC || hello->version != HELLO_VERSION) {
        return prs_fail(
            &plugin->log, PERSEUS_VERSION,
            "PE %d runs another transport or another version of Perseus: give every PE the "
            "same files and environment",
            pe);
    }
    if (hello->status != PERSEUS_OK) {
        return pe == plugin->my_pe
                   ? (enum perseus_status)hello->status
                   : prs_fail(&plugin->log, (enum perseus_status)hello->status,
                              "PE %d could not start (%s): see its message", pe,
                              perseus_status_string((enum perseus_status)hello->status));
    }
    if (first->status == PERSEUS_OK && hello->stage_bytes != first->stage_bytes) {
        return prs_fail(
            &plugin->log, PERSEUS_NOT_SUPPORTED,
            "PE %d stages device memory through %llu bytes, PE 0 through %llu (0: it has no "
            "GPU): set PERSEUS_STAGE_BYTES alike everywhere",
            pe, (unsigned long long)hello->stage_bytes, (unsigned long long)first->stage_bytes);
    }
    for (int side = 0; side < PRS_SIDE_COUNT && first->status == PERSEUS_OK; side++) {
        const struct prs_hello_route *ours = &first->routes[side], *theirs = &hello->routes[side];
        if (ours->ordering != theirs->ordering ||
            strncmp(ours->provider, theirs->provider, sizeof ours->provider) != 0) {
            return prs_fail(&plugin->log, PERSEUS_NOT_SUPPORTED,
                            "PE %d uses %.64s with ordering %s, PE 0 uses %.64s with %s: set "
                            "PERSEUS_PROVIDER and PERSEUS_ORDERING alike everywhere",
                            pe, theirs->provider,
                            perseus_ordering_name((enum perseus_ordering)theirs->ordering),
                            ours->provider,
                            perseus_ordering_name((enum perseus_ordering)ours->ordering));
        }
    }
    return PERSEUS_OK;
}

static enum perseus_status exchange(struct prs_plugin *plugin, const struct prs_hello *hello,
                                    struct prs_abi_bootstrap *bootstrap)
{
    int failed = bootstrap->allgather(hello, plugin->hellos, (int)sizeof *hello, bootstrap);
    if (failed != 0) {
        return prs_fail(
            &plugin->log, PERSEUS_IO,
            "NVSHMEM's bootstrap could not gather addresses (error %d): see whether every "
            "PE is alive",
            failed);
    }
    for (int pe = 0; pe < plugin->n_pes; pe++) {
        enum perseus_status status = judge(plugin, pe);
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    for (int side = 0; side < PRS_SIDE_COUNT; side++) {
        const struct prs_hello_route *first = &plugin->hellos[0].routes[side];
        prs_orderer_set_directory(plugin->routes[side].orderer,
                                  (const unsigned char *)&first->address_bytes, sizeof *hello);
    }
    return PERSEUS_OK;
}

enum perseus_status prs_plugin_import_arena(struct prs_plugin *plugin, int pe,
                                            struct prs_window_remote **out)
{
    const struct prs_hello *hello = &plugin->hellos[pe];
    return prs_window_import(plugin->routes[PRS_SIDE_PROXY].orderer, (uint32_t)pe, hello->arena,
                             hello->arena_bytes, out);
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
    plugin->hellos = calloc((size_t)n_pes, sizeof *plugin->hellos);
    if (plugin->hellos == NULL) {
        return prs_fail(&plugin->log, PERSEUS_OUT_OF_MEMORY, "no memory for %d PEs", n_pes);
    }
    plugin->n_pes = n_pes;
    struct prs_hello *hello = calloc(1, sizeof *hello);
    if (hello == NULL) {
        return prs_fail(&plugin->log, PERSEUS_OUT_OF_MEMORY, "no memory for an introduction");
    }
    hello->magic = HELLO_MAGIC;
    hello->version = HELLO_VERSION;
    hello->status = introduce(plugin, hello);
    enum perseus_status status = exchange(plugin, hello, bootstrap);
    free(hello);
    return status;
}
