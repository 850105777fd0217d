/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h: SETs of neighbouring words toward one PE, held back for a moment so that they leave as one
 * message. The signals of a group come like that: one fence, then a SET for every slot.
 *
 * Nothing passes a run: every other submission of its route, fences, quiets and each round of the
 * host's proxy send it off first.
 */
#ifndef PRS_NVSHMEM_RUN_H
#define PRS_NVSHMEM_RUN_H

#include "order/order.h"

#define PRS_RUN_MAX 32

struct prs_run {
    uint32_t peer, count; /* count 0: none */
    struct prs_window_remote *remote;
    uint64_t offset;
    uint64_t values[PRS_RUN_MAX];
    enum perseus_status status; /* first error of one that was sent off, for the next quiet */
};

/* Whether a SET of `request` continues it, if up to `max` words may go in one message. */
static inline bool prs_run_continues(const struct prs_run *run, const struct prs_request *request,
                                     uint32_t max)
{
    return run->count > 0 && run->count < PRS_RUN_MAX && run->count < max &&
           run->peer == request->peer && run->remote == request->remote &&
           request->remote_offset == run->offset + run->count * sizeof(uint64_t);
}

static inline void prs_run_add(struct prs_run *run, const struct prs_request *request)
{
    if (run->count == 0) {
        run->peer = request->peer;
        run->remote = request->remote;
        run->offset = request->remote_offset;
    }
    run->values[run->count++] = request->value;
}

/* The run as one request; of an empty run none. */
static inline struct prs_request prs_run_request(const struct prs_run *run)
{
    return (struct prs_request){
        .kind = run->count == 1 ? PRS_REQUEST_SIGNAL : PRS_REQUEST_SIGNAL_VECTOR,
        .op = PERSEUS_SIGNAL_SET,
        .peer = run->peer,
        .token = PRS_ORDER_NO_TOKEN,
        .remote = run->remote,
        .remote_offset = run->offset,
        .bytes = run->count * sizeof(uint64_t),
        .value = run->values[0],
        .values = run->values,
    };
}

#endif
