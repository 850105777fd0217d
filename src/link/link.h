/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link/link.h: what an ordering engine stands on, opened in one place: settings -> fabric (and its
 * decorators: staging where it does not reach the heap's memory, an adversary if one is asked for)
 * -> ordering -> endpoint and engine.
 *
 * In this order, each after an OK of the one before:
 *
 *     prs_link_open      the fabric; caps are known, memory can be registered
 *     prs_link_resolve   the ordering, checked against the caps
 *     prs_link_start     endpoint and engine, once this PE knows its number and the job's size
 *     prs_link_stop      the engine and its endpoint; windows are closed before, regions after
 *     prs_link_close     the fabric
 *
 * Who only looks (perseus info) opens and closes. stop and close may follow any of the calls, also
 * a failed one, and each other; a zeroed link is allowed. One thread at a time.
 */
#ifndef PRS_LINK_LINK_H
#define PRS_LINK_LINK_H

#include "link/settings.h"
#include "order/order.h"

#define PRS_LINK_WHY_BYTES 256

struct prs_link {
    const struct prs_log *log;
    struct prs_fabric *fabric;
    struct prs_fabric *staged; /* it, or what it decorates; NULL: it reaches the heap itself */
    enum perseus_ordering ordering;
    char why[PRS_LINK_WHY_BYTES]; /* what the ordering stands on */
    struct prs_orderer *orderer;
};

/* What this end of the link is, as prs_orderer_config has it. */
struct prs_link_end {
    uint32_t self, n_peers;
    uint64_t stream; /* tells this engine's adversary from those of all others in the job: engines
                        that misbehave in step would hide what they should show */
    const unsigned char *secret; /* of the job, PRS_SECRET_BYTES; NULL: none */
    prs_complete_fn complete;
    prs_apply_fn apply;
    void *context;
};

/* `log` outlives the link. `loss_level`: see prs_fabric_config. */
enum perseus_status prs_link_open(struct prs_link *link, const struct prs_link_settings *settings,
                                  enum perseus_log_level loss_level, const struct prs_log *log);
enum perseus_status prs_link_resolve(struct prs_link *link,
                                     const struct prs_link_settings *settings);
enum perseus_status prs_link_start(struct prs_link *link, const struct prs_link_settings *settings,
                                   const struct prs_link_end *end);
void prs_link_stop(struct prs_link *link);
void prs_link_close(struct prs_link *link);

#endif
