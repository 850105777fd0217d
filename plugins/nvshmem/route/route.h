/* SPDX-License-Identifier: Apache-2.0 */
/*
 * route.h: one way to every PE (fabric, endpoint, ordering engine) for one class of NVSHMEM
 * threads.
 *
 * NVSHMEM calls from its proxy thread and from at most one user thread at a time; each has a route
 * of its own, so neither orders nor drains the other's work. A route is also driven by the other
 * side's thread while that waits: peers' puts, atomics and acknowledgements need this PE's progress
 * however long its own threads stay away. Hence the lock; prs_route_turn yields it to whoever
 * waits.
 */
#ifndef PRS_NVSHMEM_ROUTE_H
#define PRS_NVSHMEM_ROUTE_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/job/settings.h"
#include "host/handle.h"
#include "order/order.h"
#include "route/run.h"
#include "route/sequence.h"

#define PRS_ROUTE_TOKENS 256

struct prs_plugin;

struct prs_token {
    bool done;
    enum perseus_status status;
    void *result; /* a fetched value goes here and the token frees itself; NULL: somebody waits */
    uint32_t result_bytes;
    uint32_t next;
};

/* What a route knows about one PE. `sequence`, `unsettled` and `staged` belong to the class of
 * threads that calls; the rest is under the lock. */
struct prs_link {
    struct prs_sequence sequence;
    bool unsettled; /* something was submitted since the last quiet */
    bool staged;    /* the same for staging */
    uint32_t remotes_count;
    struct prs_window_remote **remotes; /* by chunk number, imported at first use */
};

struct prs_route {
    struct prs_plugin *plugin;
    enum prs_side side;
    pthread_mutex_t lock;
    _Atomic uint32_t waiting; /* threads that want the lock: whoever loops under it lets them in */
    struct prs_log fabric_log;
    struct prs_fabric *fabric;
    struct prs_endpoint *endpoint;
    enum perseus_ordering ordering;
    struct prs_orderer *orderer;
    struct prs_link *links; /* by PE */
    uint32_t n_pes;
    _Atomic uint32_t submitted; /* requests so far, staged ones too; a hint: relaxed */
    struct prs_sequence_rules rules;
    bool runs; /* whether neighbouring SETs may go as one message */
    struct prs_run run;
    struct prs_token tokens[PRS_ROUTE_TOKENS];
    uint32_t token_free;
};

/* Opens fabric and endpoint, decides the ordering. On failure prs_route_finish cleans up. */
enum perseus_status prs_route_init(struct prs_route *route, struct prs_plugin *plugin,
                                   enum prs_side side, const struct prs_settings *settings);
/* Whether SETs are applied by the target's CPU. */
bool prs_route_has_records(const struct prs_route *route);
/* Once PE numbers are known. */
enum perseus_status prs_route_start(struct prs_route *route, const struct prs_settings *settings,
                                    uint32_t self, uint32_t n_pes);
void prs_route_finish(struct prs_route *route); /* a zeroed route is allowed */

void prs_route_lock(struct prs_route *route);
void prs_route_unlock(struct prs_route *route);

/* All below: with the lock held. Blocking ones end with TIMEOUT when nothing moves for the job's
 * timeout. */

/* The peer's window behind `handle`. */
enum perseus_status prs_route_remote(struct prs_route *route, uint32_t pe,
                                     const struct prs_handle *handle,
                                     struct prs_window_remote **out);
/* Waits for room; `word` is the target word of SETs and atomics. Fences first where `what` must not
 * pass what is under way. */
enum perseus_status prs_route_submit(struct prs_route *route, const struct prs_request *request,
                                     enum prs_class what, uint64_t word);
/* The same for the SET of one 8-byte word, which may wait for its neighbours. */
enum perseus_status prs_route_set(struct prs_route *route, const struct prs_request *request,
                                  uint64_t word);
/* Sends off what waits: OK, or AGAIN when the fabric takes nothing now. Errors reach the next quiet. */
enum perseus_status prs_route_flush_run(struct prs_route *route);
/* The same, and waits until it is complete. */
enum perseus_status prs_route_perform(struct prs_route *route, struct prs_request *request,
                                      enum prs_class what);
/* Everything submitted to `pe` (or PRS_ORDER_ALL_PEERS) has completed. */
enum perseus_status prs_route_quiet(struct prs_route *route, uint32_t pe);
enum perseus_status prs_route_fence(struct prs_route *route, uint32_t pe);
/* A token whose result is stored at `result` by whoever drives the route. */
enum perseus_status prs_route_fetch_token(struct prs_route *route, void *result, uint32_t bytes,
                                          uint32_t *out_token);
/* A token whose request was not submitted. */
void prs_route_token_give_back(struct prs_route *route, uint32_t token);
enum perseus_status prs_route_progress(struct prs_route *route, bool *out_did);

/* Waiting under the lock; starts zeroed. */
struct prs_patience {
    uint64_t since_ns, moved; /* set at the first look at the clock */
    uint32_t idle;
};
/* One round of everybody's progress; lets waiting threads in. TIMEOUT, with a message about `what`
 * and `pe`, when this route has not moved for too long. */
enum perseus_status prs_route_turn(struct prs_route *route, struct prs_patience *patience,
                                   const char *what, uint32_t pe);

#endif
