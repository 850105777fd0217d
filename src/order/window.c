/* SPDX-License-Identifier: Apache-2.0 */
/* window.c: memory that peers may target. A window blob is {window id (u32), region blob}. */
#include "order/engine.h"

#include <stdlib.h>
#include <string.h>

static bool has_room(struct prs_orderer *orderer, uint32_t id)
{
    if (id < orderer->windows_room) {
        return true;
    }
    uint32_t room = orderer->windows_room == 0 ? 4 : 2 * orderer->windows_room;
    struct prs_window **windows = realloc(orderer->windows, room * sizeof(struct prs_window *));
    if (windows != NULL) {
        orderer->windows = windows;
        orderer->windows_room = room;
    }
    return windows != NULL;
}

enum perseus_status prs_window_create(struct prs_orderer *orderer, void *base, size_t bytes,
                                      enum prs_memory_kind kind, struct prs_window **out)
{
    uint32_t id = 0;
    while (id < orderer->windows_count && orderer->windows[id] != NULL) {
        id++;
    }
    if (id == PRS_WINDOWS_MAX) {
        return prs_fail(orderer->config.log, PERSEUS_LIMIT,
                        "more than %d memory windows: unregister some, or register larger pieces",
                        PRS_WINDOWS_MAX);
    }
    struct prs_window *window = calloc(1, sizeof *window);
    if (window == NULL || !has_room(orderer, id)) {
        free(window);
        return prs_fail(orderer->config.log, PERSEUS_OUT_OF_MEMORY, "no memory for a window");
    }
    enum perseus_status status = orderer->ops->region_register(orderer->config.endpoint->fabric,
                                                               base, bytes, kind, &window->region);
    if (status != PERSEUS_OK) {
        free(window);
        return status;
    }
    window->orderer = orderer;
    window->id = id;
    orderer->windows[id] = window;
    if (id == orderer->windows_count) {
        orderer->windows_count++;
    }
    *out = window;
    return PERSEUS_OK;
}

void prs_window_destroy(struct prs_window *window)
{
    if (window == NULL) {
        return;
    }
    window->orderer->windows[window->id] = NULL;
    window->region->fabric->ops->region_close(window->region);
    free(window);
}

struct prs_region *prs_window_region(const struct prs_window *window)
{
    return window->region;
}

void *prs_window_base(const struct prs_window *window)
{
    return window->region->base;
}

enum perseus_status prs_window_export(const struct prs_window *window, void *blob, size_t *bytes)
{
    if (*bytes < sizeof window->id) {
        return PERSEUS_INVALID_ARGUMENT;
    }
    size_t rest = *bytes - sizeof window->id;
    enum perseus_status status = window->region->fabric->ops->region_export(
        window->region, (unsigned char *)blob + sizeof window->id, &rest);
    if (status == PERSEUS_OK) {
        memcpy(blob, &window->id, sizeof window->id);
        *bytes = sizeof window->id + rest;
    }
    return status;
}

enum perseus_status prs_window_import(struct prs_orderer *orderer, uint32_t rank, const void *blob,
                                      size_t bytes, struct prs_window_remote **out)
{
    struct prs_order_peer *peer;
    enum perseus_status status = prs_order_peer_get(orderer, rank, &peer);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_window_remote *remote = calloc(1, sizeof *remote);
    if (remote == NULL || bytes < sizeof remote->window) {
        free(remote);
        return prs_fail(orderer->config.log,
                        remote == NULL ? PERSEUS_OUT_OF_MEMORY : PERSEUS_PROTOCOL,
                        "cannot import a window of PE %u (%zu bytes)", rank, bytes);
    }
    memcpy(&remote->window, blob, sizeof remote->window);
    status = orderer->ops->remote_import(orderer->config.endpoint, peer->fabric_peer,
                                         (const unsigned char *)blob + sizeof remote->window,
                                         bytes - sizeof remote->window, &remote->remote);
    if (status != PERSEUS_OK) {
        free(remote);
        return status;
    }
    *out = remote;
    return PERSEUS_OK;
}

void prs_window_remote_close(struct prs_window_remote *remote)
{
    if (remote != NULL) {
        remote->remote->endpoint->ops->remote_close(remote->remote);
        free(remote);
    }
}
