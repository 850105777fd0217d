/* SPDX-License-Identifier: Apache-2.0 */
/* wake.c: the wait object of the completion queue, for callers that sleep. */
#include <stdio.h>

#include <rdma/fi_errno.h>

#include "fabric/libfabric/internal.h"
#include "fabric/libfabric/provider/traits.h"
#include "fabric/libfabric/status.h"

/* How long a caller may trust a wait object that has not been seen to tell of everything. */
#define PRS_LF_TRUST_NS UINT64_C(1000000)

#define PRS_LF_RETRY_NS UINT64_C(50000)

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

void prs_lf_wake_find(struct prs_lf_fabric *fabric)
{
    struct prs_caps *caps = &fabric->base.caps;
    const char *word = "nothing (no FI_WAIT_FD)";
    if (fabric->traits & PRS_LF_WAKES_FOR_EVER) {
        word = "nothing (FI_WAIT_FD stays ready)";
    } else if (has_descriptor(fabric)) {
        caps->wakes = true;
        word = fabric->traits & PRS_LF_WAKES_FOR_ALL ? "FI_WAIT_FD" : "FI_WAIT_FD, and every 1 ms";
    }
    snprintf(caps->wake_word, sizeof caps->wake_word, "%s", word);
}

int prs_lf_wait_fd(struct prs_endpoint *base)
{
    int fd = -1;
    return fi_control(&prs_lf_endpoint_of(base)->cq->fid, FI_GETWAIT, &fd) == 0 ? fd : -1;
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
