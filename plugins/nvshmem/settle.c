/* SPDX-License-Identifier: Apache-2.0 */
/* settle.c: fence and quiet, over both ways that data takes. */
#include "plugin.h"
#include "staging/stage.h"

static enum perseus_status quiet_staged(struct prs_plugin *plugin, enum prs_side side, int pe)
{
    struct prs_route_peer *peer = &plugin->routes[side].peers[pe];
    if (!peer->staged) {
        return PERSEUS_OK;
    }
    struct prs_route *proxy = &plugin->routes[PRS_SIDE_PROXY];
    prs_route_lock(proxy);
    enum perseus_status status = prs_staging_quiet(plugin->stage, pe);
    prs_route_unlock(proxy);
    peer->staged = status != PERSEUS_OK;
    return status;
}

static enum perseus_status quiet_direct(struct prs_plugin *plugin, enum prs_side side, uint32_t pe)
{
    struct prs_route *route = &plugin->routes[side];
    prs_route_lock(route);
    enum perseus_status status = prs_route_quiet(route, pe);
    prs_route_unlock(route);
    return status;
}

/* Data of one PE takes one way, as its heap is of one kind; a user buffer of the other kind is the
 * exception, and pays with a quiet at each change. */
enum perseus_status prs_plugin_settle(struct prs_plugin *plugin, enum prs_side side, int pe,
                                      bool staged)
{
    if (!staged) {
        return quiet_staged(plugin, side, pe);
    }
    return plugin->routes[side].peers[pe].unsettled ? quiet_direct(plugin, side, (uint32_t)pe)
                                                    : PERSEUS_OK;
}

enum perseus_status prs_plugin_quiet(struct prs_plugin *plugin, enum prs_side side, int pe)
{
    enum perseus_status status = PERSEUS_OK;
    if (pe >= 0 && pe < plugin->n_pes) {
        const struct prs_route_peer *peer = &plugin->routes[side].peers[pe];
        status = quiet_staged(plugin, side, pe);
        return status == PERSEUS_OK && (peer->unsettled || peer->passed)
                   ? quiet_direct(plugin, side, (uint32_t)pe)
                   : status;
    }
    for (int each = 0; each < plugin->n_pes && status == PERSEUS_OK; each++) {
        status = quiet_staged(plugin, side, each);
    }
    return status == PERSEUS_OK ? quiet_direct(plugin, side, PRS_ORDER_ALL_PEERS) : status;
}

static enum perseus_status fence_one(struct prs_plugin *plugin, enum prs_side side, int pe)
{
    struct prs_route *route = &plugin->routes[side];
    if (route->peers[pe].staged) {
        struct prs_route *proxy = &plugin->routes[PRS_SIDE_PROXY];
        prs_route_lock(proxy);
        prs_staging_fence(plugin->stage, pe);
        prs_route_unlock(proxy);
    }
    if (route->peers[pe].sequence.open == 0) {
        return PERSEUS_OK;
    }
    prs_route_lock(route);
    enum perseus_status status = prs_route_fence(route, (uint32_t)pe);
    prs_route_unlock(route);
    return status;
}

/* Interface 3.0 calls this for every PE in turn, so a PE without open operations costs a load. What
 * is staged is in order anyhow, but for large puts, which need to know. Vanilla drains everything,
 * whatever the PE. */
enum perseus_status prs_plugin_fence(struct prs_plugin *plugin, enum prs_side side, int pe)
{
    if (plugin->routes[side].link.ordering == PERSEUS_ORDERING_DRAIN) {
        return prs_plugin_quiet(plugin, side, PRS_ABI_PE_ALL);
    }
    if (pe >= 0 && pe < plugin->n_pes) {
        return fence_one(plugin, side, pe);
    }
    enum perseus_status status = PERSEUS_OK;
    for (int each = 0; each < plugin->n_pes && status == PERSEUS_OK; each++) {
        status = fence_one(plugin, side, each);
    }
    return status;
}
