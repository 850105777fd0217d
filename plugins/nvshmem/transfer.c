/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.c: puts and gets: on this PE at once, as requests to a route's ordering engine, or
 * staged. */
#include "plugin.h"

#include <string.h>

#include "staging/stage.h"

static bool is_get(int desc)
{
    return desc == PRS_ABI_GET || desc == PRS_ABI_G;
}

enum perseus_status prs_plugin_piece(struct prs_plugin *plugin, int pe, const char *what,
                                     const struct prs_abi_rma_memory *remote,
                                     const struct prs_abi_rma_memory *local,
                                     const struct prs_abi_rma_bytes *bytes, struct prs_piece *out)
{
    if (bytes->element_bytes < 0 ||
        bytes->elements > SIZE_MAX / ((size_t)bytes->element_bytes + 1)) {
        return prs_fail(&plugin->log, PERSEUS_INVALID_ARGUMENT, "%s of %zu times %d bytes", what,
                        bytes->elements, bytes->element_bytes);
    }
    out->bytes = bytes->elements * (size_t)bytes->element_bytes;
    out->remote = remote->pointer;
    out->local = local->pointer;
    return prs_plugin_target(plugin, pe, what, remote, out->bytes, &out->handle, &out->offset);
}

bool prs_plugin_is_staged(struct prs_plugin *plugin, enum prs_side side,
                          const struct prs_piece *piece)
{
    if (piece->handle.kind == PRS_HANDLE_STAGED || plugin->stage == NULL) {
        return piece->handle.kind == PRS_HANDLE_STAGED;
    }
    prs_route_lock(&plugin->routes[side]);
    const struct prs_chunk *chunk = prs_memory_find(&plugin->memory, piece->local, piece->bytes);
    bool device = chunk != NULL && chunk->device;
    prs_route_unlock(&plugin->routes[side]);
    return device;
}

/* ---- direct ---- */

static enum perseus_status move_direct(struct prs_plugin *plugin, struct prs_route *route, int pe,
                                       int desc, const struct prs_piece *piece, bool is_blocking)
{
    struct prs_request request;
    enum perseus_status status;
    if (desc == PRS_ABI_P) { /* the value lies on the caller's stack */
        status = prs_piece_address(route, pe, piece, PRS_REQUEST_PUT, &request);
        request.inline_source = piece->local;
        return status == PERSEUS_OK ? prs_route_submit(route, &request, PRS_CLASS_FLAG, 0) : status;
    }
    status = prs_piece_request(route, &plugin->memory, pe, piece,
                               is_get(desc) ? PRS_REQUEST_GET : PRS_REQUEST_PUT, &request);
    if (status != PERSEUS_OK) {
        return status;
    }
    bool is_flag = !is_get(desc) && piece->bytes <= PRS_FLAG_BYTES_MAX;
    enum prs_class class = is_flag ? PRS_CLASS_FLAG : PRS_CLASS_PUT;
    return is_blocking ? prs_route_perform(route, &request, class)
                       : prs_route_submit(route, &request, class, 0);
}

/* ---- staged ---- */

/* One of the ways through, or past, the rings. A user thread waits for staging alone, so it does
 * not send past it. */
static enum perseus_status put_staged(struct prs_plugin *plugin, enum prs_side side, int pe,
                                      const struct prs_piece *piece)
{
    struct prs_staging *stage = plugin->stage;
    enum prs_staging_path path =
        side == PRS_SIDE_PROXY ? prs_staging_path(stage, pe, piece) : PRS_STAGING_RING;
    if (path == PRS_STAGING_BULK) {
        return prs_staging_put_bulk(stage, pe, piece);
    }
    if (path == PRS_STAGING_RING) {
        return prs_staging_put(stage, pe, (uint64_t)(uintptr_t)piece->remote, piece->local,
                               piece->bytes);
    }
    /* Staging itself keeps what follows behind it: no reason to settle first. */
    struct prs_route *proxy = &plugin->routes[PRS_SIDE_PROXY];
    bool unsettled = proxy->peers[pe].unsettled;
    enum perseus_status status = move_direct(plugin, proxy, pe, PRS_ABI_PUT, piece, false);
    proxy->peers[pe].unsettled = unsettled;
    proxy->peers[pe].passed = true;
    prs_staging_went_direct(stage, pe);
    return status;
}

static enum perseus_status quiet_now(struct prs_plugin *plugin, int pe)
{
    struct prs_route *proxy = &plugin->routes[PRS_SIDE_PROXY];
    enum perseus_status status = prs_staging_quiet(plugin->stage, pe);
    return status == PERSEUS_OK && proxy->peers[pe].passed ? prs_route_quiet(proxy, (uint32_t)pe)
                                                           : status;
}

static enum perseus_status move_staged(struct prs_plugin *plugin, enum prs_side side, int pe,
                                       int desc, const struct prs_piece *piece, bool is_blocking)
{
    struct prs_staging *stage = plugin->stage;
    uint64_t there = (uint64_t)(uintptr_t)piece->remote;
    enum perseus_status status;
    if (desc == PRS_ABI_P && piece->bytes <= sizeof(uint64_t)) {
        uint64_t value = 0;
        memcpy(&value, piece->local, piece->bytes);
        return prs_staging_put_value(stage, pe, there, value, (uint32_t)piece->bytes);
    }
    status = is_get(desc) ? prs_staging_get(stage, pe, there, piece->local, piece->bytes)
                          : put_staged(plugin, side, pe, piece);
    return status == PERSEUS_OK && is_blocking ? quiet_now(plugin, pe) : status;
}

/* ---- any ---- */

static enum perseus_status move_here(struct prs_plugin *plugin, int desc,
                                     const struct prs_piece *piece, bool staged)
{
    void *target = is_get(desc) ? piece->local : piece->remote;
    const void *source = is_get(desc) ? piece->remote : piece->local;
    if (staged) {
        return prs_staging_copy_here(plugin->stage, target, source, piece->bytes);
    }
    memmove(target, source, piece->bytes);
    return PERSEUS_OK;
}

enum perseus_status prs_plugin_move(struct prs_plugin *plugin, enum prs_side side, int pe, int desc,
                                    const struct prs_piece *piece, bool is_blocking)
{
    bool staged = prs_plugin_is_staged(plugin, side, piece);
    struct prs_route *route = &plugin->routes[staged ? PRS_SIDE_PROXY : side];
    enum perseus_status status = prs_plugin_settle(plugin, side, pe, staged);
    if (status != PERSEUS_OK) {
        return status;
    }
    prs_route_lock(route);
    if (pe == plugin->my_pe) {
        status = move_here(plugin, desc, piece, staged);
    } else if (staged) {
        plugin->routes[side].peers[pe].staged = true;
        status = move_staged(plugin, side, pe, desc, piece, is_blocking);
    } else {
        status = move_direct(plugin, route, pe, desc, piece, is_blocking);
    }
    prs_route_unlock(route);
    return status;
}

enum perseus_status prs_plugin_rma(struct prs_plugin *plugin, enum prs_side side, int pe,
                                   const struct prs_abi_rma_verb *verb,
                                   const struct prs_abi_rma_memory *remote,
                                   const struct prs_abi_rma_memory *local,
                                   const struct prs_abi_rma_bytes *bytes)
{
    if (!is_get(verb->desc) && verb->desc != PRS_ABI_PUT && verb->desc != PRS_ABI_P) {
        return prs_fail(&plugin->log, PERSEUS_NOT_SUPPORTED,
                        "transfer %d toward PE %d is not known to this transport", verb->desc, pe);
    }
    struct prs_piece piece;
    enum perseus_status status = prs_plugin_piece(
        plugin, pe, is_get(verb->desc) ? "a get" : "a put", remote, local, bytes, &piece);
    if (status != PERSEUS_OK || piece.bytes == 0) {
        return status;
    }
    return prs_plugin_move(plugin, side, pe, verb->desc, &piece, verb->is_nbi == 0);
}
