/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy/proxy.h: moves descriptors from channel rings into an ordering engine.
 *
 * prs_proxy_step is pure and bounded: it submits at most `batch` descriptors of each source, polls
 * once, and returns. It never waits and reads no clock of its own, so a thread, a test or a
 * virtual-time event can drive it. One ring is one FIFO: a head descriptor that gets AGAIN
 * (back-pressure of its peer, or a drain) holds those behind it, and no other ring's.
 */
#ifndef PRS_PROXY_PROXY_H
#define PRS_PROXY_PROXY_H

#include "order/order.h"
#include "proxy/sources.h"

struct prs_proxy;

struct prs_proxy_config {
    struct prs_sources *sources; /* not owned, like all below */
    struct prs_orderer *orderer; /* its complete callback must be prs_sources_complete */
    uint32_t batch;              /* descriptors of a source per step; 0: 64 */
    void *context;
    /* The region of local window `window`, or NULL if unknown. Called from step. */
    struct prs_region *(*local)(void *context, uint16_t window);
    /* The heap of `peer` (imported on first use), or an error, logged by the callee. */
    enum perseus_status (*remote)(void *context, uint32_t peer, struct prs_window_remote **out);
    const struct prs_log *log;
};

enum perseus_status prs_proxy_create(const struct prs_proxy_config *config, struct prs_proxy **out);
void prs_proxy_destroy(struct prs_proxy *proxy); /* NULL allowed */

/* *out_did: whether anything moved. An error other than of a single request (which its ticket, and
 * every quiet that covers it, reports) means the endpoint is broken. */
enum perseus_status prs_proxy_step(struct prs_proxy *proxy, bool *out_did);

/* The stepping thread, after a step that did nothing: whether no descriptor waits that another step
 * could submit right now. A thread that claims a place in the ring afterwards sees what the caller
 * stored before with sequential consistency. False while there is a source that cannot wake the
 * proxy: a GPU's descriptors are found by looking. */
bool prs_proxy_may_sleep(const struct prs_proxy *proxy);
/* The stepping thread: whether nothing is in flight, so that only a new descriptor or an arrival
 * would move it. */
bool prs_proxy_is_idle(const struct prs_proxy *proxy);
/* The stepping thread: what to sleep on besides new descriptors, and whether it may do so now
 * (fabric.h, wait_fd and arm). wait_fd: -1 where nothing wakes; then arm must not be called. */
int prs_proxy_wait_fd(const struct prs_proxy *proxy);
/* Any thread: whether who waits for bytes must look, as they wake nobody. */
bool prs_proxy_bytes_are_silent(const struct prs_proxy *proxy);
enum perseus_status prs_proxy_arm(struct prs_proxy *proxy, uint64_t *out_limit_ns);

#endif
