/* SPDX-License-Identifier: Apache-2.0 */
/*
 * context.h: the pool of operation contexts of one endpoint.
 *
 * A context lives from its post until both are done: the provider has returned it, and poll has
 * reported its outcome. With a dead peer the outcome can be known long before (or without) the
 * provider returning the context: such a context is *stranded*, does not count against the limit,
 * and is freed with the pool after the endpoint is closed.
 */
#ifndef PRS_LIBFABRIC_CONTEXT_H
#define PRS_LIBFABRIC_CONTEXT_H

#include <rdma/fabric.h>

#include "fabric/fabric.h"
#include "fabric/libfabric/provider/caps.h"

struct prs_lf_endpoint;
struct prs_lf_chunk;

struct prs_lf_context {
    struct fi_context2 provider; /* first: libfabric hands this address back */
    struct prs_lf_context *next;
    struct prs_op op;
    unsigned char *slot;
    void *slot_descriptor;
    enum perseus_status status;
    struct prs_lf_context *joined; /* behind it in the same message, with its own outcome */
    bool with_provider;
    bool settled; /* outcome known */
    bool queued;  /* on the endpoint's settled list */
};

struct prs_lf_pool {
    struct prs_lf_chunk *chunks;
    struct prs_lf_context *free;
    uint32_t limit, lent, stranded;
};

void prs_lf_pool_init(struct prs_lf_pool *pool, uint32_t limit);
/* After the endpoint's fid_ep is closed: nothing of the provider's points here any more. */
void prs_lf_pool_finish(struct prs_lf_pool *pool);
/* AGAIN when `limit` operations are in flight. */
enum perseus_status prs_lf_context_acquire(struct prs_lf_endpoint *endpoint,
                                           struct prs_lf_context **out);
/* Returns the context if nobody needs it any more. */
void prs_lf_context_release(struct prs_lf_pool *pool, struct prs_lf_context *context);
/* The first in-flight context of `peer` whose outcome is unknown, NULL if there is none. */
struct prs_lf_context *prs_lf_pool_find_unsettled(struct prs_lf_pool *pool, uint32_t peer);

#endif
