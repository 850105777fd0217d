/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wake.c: sleeping on the completion channel. A completion queue makes one event after it was
 * armed, for what comes from then on; what came before is found by the caller's next poll, as it
 * may be events of ours. So falling asleep takes two calls of arm:
 *
 *     arm: AWAKE -> ARMED, AGAIN      poll, nothing: ARMED -> DROWSY      arm: OK
 *
 * A poll that finds something, and an event in the channel, start it anew. Bytes of plain puts make
 * no events, and no work (caps.bytes_are_silent).
 */
#include <string.h>

#include "fabric/verbs/internal.h"

#define RETRY_NS UINT64_C(10000000) /* of a handshake, or of receives that could not be posted */

int prs_verbs_wait_fd(struct prs_endpoint *base)
{
    return ((struct prs_verbs_endpoint *)base)->channel->fd;
}

/* Takes back what the descriptor tells. */
static bool read_events(struct prs_verbs_endpoint *endpoint)
{
    const struct prs_verbs_library *library = prs_verbs_of(endpoint)->library;
    struct ibv_cq *cq;
    void *user;
    bool any = false;
    while (library->get_cq_event(endpoint->channel, &cq, &user) == 0) {
        library->ack_cq_events(cq, 1);
        any = true;
    }
    return any;
}

enum perseus_status prs_verbs_arm(struct prs_endpoint *base, uint64_t *out_limit_ns)
{
    struct prs_verbs_endpoint *endpoint = (struct prs_verbs_endpoint *)base;
    if (endpoint->done_first != NULL) {
        return PERSEUS_AGAIN;
    }
    bool is_stale = read_events(endpoint) || endpoint->arming == PRS_VERBS_AWAKE;
    if (is_stale) {
        int error = ibv_req_notify_cq(endpoint->sends, 0);
        error = error == 0 ? ibv_req_notify_cq(endpoint->arrivals, 0) : error;
        if (error != 0) {
            return prs_fail(prs_verbs_of(endpoint)->log, PERSEUS_IO,
                            "%s's completion queues make no events: %s; see dmesg",
                            base->fabric->caps.provider, strerror(error));
        }
        endpoint->arming = PRS_VERBS_ARMED;
    }
    bool waits_for_time = endpoint->timed_count > 0 || endpoint->srq_owed >= PRS_VERBS_REFILL_FROM;
    *out_limit_ns = waits_for_time ? RETRY_NS : UINT64_MAX;
    return endpoint->arming == PRS_VERBS_DROWSY ? PERSEUS_OK : PERSEUS_AGAIN;
}
