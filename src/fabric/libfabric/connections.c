/* SPDX-License-Identifier: Apache-2.0 */
/* connections.c: what a provider leaves undone at the TCP connections that it makes. */
#include <rdma/fi_cm.h>

#include "fabric/libfabric/internal.h"
#include "fabric/libfabric/provider/pacing.h"
#include "fabric/libfabric/provider/traits.h"
#include "fabric/libfabric/provider/window.h"

static bool peeks(const struct prs_lf_endpoint *endpoint)
{
    return prs_lf_fabric_of(endpoint->base.fabric)->traits & PRS_LF_PEEKS;
}

void prs_lf_listens(struct prs_lf_endpoint *endpoint)
{
    struct sockaddr_storage address = {0};
    size_t bytes = sizeof address;
    if (peeks(endpoint) && fi_getname(&endpoint->ep->fid, &address, &bytes) == 0) {
        prs_lf_window_widen(&address);
    }
}

static void widen(struct prs_lf_endpoint *endpoint, const struct prs_lf_peer *peer)
{
    struct sockaddr_storage address = {0};
    size_t bytes = sizeof address;
    if (peeks(endpoint) && fi_av_lookup(endpoint->av, peer->address, &address, &bytes) == 0) {
        prs_lf_window_widen(&address);
    }
}

static void lift_pacing(struct prs_lf_endpoint *endpoint, const struct prs_lf_peer *peer)
{
    bool is_here = peer->process >= 0; /* on this host */
    if (!is_here || !endpoint->base.fabric->caps.wakes || endpoint->bell.page != NULL) {
        return;
    }
    int lifted = prs_lf_pacing_lift(prs_lf_wait_fd(&endpoint->base));
    if (lifted > 0) {
        prs_log(prs_lf_log(endpoint), PERSEUS_LOG_DEBUG,
                "%d connections within this host are no longer paced by the congestion control bbr",
                lifted);
    }
}

void prs_lf_contacted(struct prs_lf_endpoint *endpoint, struct prs_lf_peer *peer)
{
    peer->contacted = true;
    widen(endpoint, peer);
    lift_pacing(endpoint, peer);
}
