/* SPDX-License-Identifier: Apache-2.0 */
/* wake.c: the wait object of the completion queue, for callers that sleep. */
#include <stdio.h>

#include <rdma/fi_errno.h>

#include "fabric/libfabric/internal.h"
#include "fabric/libfabric/provider/shm.h"
#include "fabric/libfabric/provider/traits.h"
#include "fabric/libfabric/status.h"

/* How long a caller may trust a wait object that has not been seen to tell of everything. */
#define PRS_LF_TRUST_NS UINT64_C(1000000)

#define PRS_LF_RETRY_NS UINT64_C(50000)

/* How long a sleeper may trust its bell: a peer that it has not met yet may be unable to ring. */
#define PRS_LF_BELL_NS UINT64_C(10000000)

/* fi_trywait(3): only after it has said so is sleeping safe. */
static int try_wait(struct prs_lf_fabric *fabric, struct fid_cq *cq)
{
    struct fid *fids[] = {&cq->fid};
    return fi_trywait(fabric->fabric, fids, 1);
}

/* Whether completion queues of this domain have a descriptor. */
static bool has_descriptor(const struct prs_lf_fabric *fabric)
{
    struct fi_cq_attr attr = {.size = 1, .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD};
    struct fid_cq *cq = NULL;
    if (fi_cq_open(fabric->domain, &attr, &cq, NULL) != 0) {
        return false;
    }
    int fd = -1;
    int error = fi_control(&cq->fid, FI_GETWAIT, &fd);
    fi_close(&cq->fid);
    return error == 0 && fd >= 0;
}

/* Whether endpoints of this process could have one. */
static bool has_bell(void)
{
    struct prs_lf_bell bell;
    bool opens = prs_lf_bell_open(&bell);
    prs_lf_bell_close(&bell);
    return opens;
}

void prs_lf_wake_find(struct prs_lf_fabric *fabric)
{
    struct prs_caps *caps = &fabric->base.caps;
    const char *word = "nothing (no FI_WAIT_FD)";
    if (fabric->traits & PRS_LF_WAKES_FOR_EVER) {
        word = "nothing (FI_WAIT_FD stays ready)";
    } else if (has_descriptor(fabric)) {
        caps->wakes = true;
        word = fabric->traits & PRS_LF_WAKES_FOR_ALL ? "FI_WAIT_FD" : "FI_WAIT_FD, and every 1 ms";
    } else if (prs_lf_shm_is(fabric->info) && has_bell()) {
        caps->wakes = fabric->rings = true;
        word = "a bell that peers ring, and every 10 ms";
    }
    snprintf(caps->wake_word, sizeof caps->wake_word, "%s", word);
}

int prs_lf_wait_fd(struct prs_endpoint *base)
{
    const struct prs_lf_endpoint *endpoint = prs_lf_endpoint_of(base);
    if (endpoint->bell.page != NULL) {
        return endpoint->bell.ear;
    }
    int fd = -1;
    return fi_control(&endpoint->cq->fid, FI_GETWAIT, &fd) == 0 ? fd : -1;
}

void prs_lf_ring_peers(struct prs_lf_endpoint *endpoint)
{
    bool has_more = endpoint->pool.lent > endpoint->pool.stranded;
    if (endpoint->bell.page == NULL || (!has_more && !endpoint->owes_rings)) {
        return;
    }
    /* With prs_lf_bell_listen. */
    atomic_thread_fence(memory_order_seq_cst);
    for (uint32_t i = 0; i < endpoint->peer_count; i++) {
        struct prs_lf_peer *peer = &endpoint->peers[i];
        if (peer->in_flight > 0 || peer->owed_ring) {
            peer->owed_ring = false;
            prs_lf_rope_pull(&peer->rope);
        }
    }
    endpoint->owes_rings = false;
}

/* fi_cq_read of nothing makes progress: the look that follows prs_lf_bell_listen. What peers return
 * of our own operations they do without a bell, as they cannot tell whose it is. */
static enum perseus_status listen_for_bell(struct prs_lf_endpoint *endpoint, uint64_t *out_limit_ns)
{
    prs_lf_bell_listen(&endpoint->bell);
    ssize_t got = fi_cq_read(endpoint->cq, NULL, 0);
    prs_lf_ring_peers(endpoint); /* bytes of what is under way may have moved */
    bool must_look = endpoint->must_look || endpoint->was_refused ||
                     endpoint->pool.lent > endpoint->pool.stranded;
    endpoint->was_refused = false;
    *out_limit_ns = must_look ? PRS_LF_RETRY_NS : PRS_LF_BELL_NS;
    return got == -FI_EAGAIN ? PERSEUS_OK : PERSEUS_AGAIN; /* poll reports errors */
}

enum perseus_status prs_lf_arm(struct prs_endpoint *base, uint64_t *out_limit_ns)
{
    struct prs_lf_endpoint *endpoint = prs_lf_endpoint_of(base);
    struct prs_lf_fabric *fabric = prs_lf_fabric_of(base->fabric);
    *out_limit_ns = fabric->traits & PRS_LF_WAKES_FOR_ALL ? UINT64_MAX : PRS_LF_TRUST_NS;
    if (endpoint->settled_first != NULL) {
        return PERSEUS_AGAIN;
    }
    /* The poll before has tried to send these, and was refused: a connection is being made, perhaps
     * with somebody who is not there. */
    if (endpoint->held != NULL || endpoint->gather_first != PRS_LF_NO_PEER) {
        *out_limit_ns = PRS_LF_RETRY_NS;
    }
    if (endpoint->bell.page != NULL) {
        return listen_for_bell(endpoint, out_limit_ns);
    }
    int error = try_wait(fabric, endpoint->cq);
    if (error == 0) {
        return PERSEUS_OK;
    }
    if (error == -FI_EAGAIN) {
        return PERSEUS_AGAIN;
    }
    return prs_fail(prs_lf_log(endpoint), PERSEUS_IO, "%s does not let its caller sleep: %s; %s",
                    base->fabric->caps.provider, prs_lf_error_text(error),
                    prs_lf_advice(PERSEUS_IO));
}
