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
 *
 * What else is to be driven with a route (staging) hooks itself in; the route knows nothing of it.
 */
#ifndef PRS_NVSHMEM_ROUTE_H
#define PRS_NVSHMEM_ROUTE_H

#include <pthread.h>
#include <stdatomic.h>

#include "host/handle.h"
#include "link/link.h"
#include "route/run.h"
#include "route/sequence.h"

#define PRS_ROUTE_TOKENS 256

struct prs_token {
    bool done;
    enum perseus_status status;
    void *result; /* a fetched value goes here and the token frees itself; NULL: somebody waits */
    uint32_t result_bytes;
    uint32_t next;
};

/* What a route knows about one PE. `sequence` and the flags belong to the class of threads that
 * calls; the rest is under the lock. */
struct prs_route_peer {
    struct prs_sequence sequence;
    bool unsettled; /* something was submitted since the last quiet */
    bool staged;    /* the same for staging */
    bool passed;    /* staging sent a put past its rings since the last quiet */
    uint32_t remotes_count;
    struct prs_window_remote **remotes; /* by chunk number, imported at first use */
};

/* Called with the route's lock held; any may be NULL. */
struct prs_route_hooks {
    void *context;
    /* A round of progress. */
    enum perseus_status (*pump)(void *context, bool *out_did);
    /* Grows with everything that pump moved, for deadlines. */
    uint64_t (*moved)(const void *context);
    /* The request with token PRS_ROUTE_TOKENS + index has completed. */
    void (*told)(void *context, uint32_t index);
};

struct prs_route_config {
    enum prs_side side;
    const struct prs_link_settings *settings;
    const struct prs_log *log; /* outlives the route */
    uint64_t timeout_ns;
    struct prs_route *companion; /* the other side's, driven while this one waits */
};

struct prs_route {
    const struct prs_log *log; /* NULL: not opened */
    enum prs_side side;
    uint64_t timeout_ns;
    struct prs_clock clock;
    struct prs_route *companion;
    struct prs_route_hooks hooks;
    pthread_mutex_t lock;
    _Atomic uint32_t waiting; /* threads that want the lock: whoever loops under it lets them in */
    struct prs_link link;
    struct prs_route_peer *peers; /* by PE */
    uint32_t n_pes;
    _Atomic uint32_t submitted; /* requests so far, staged ones too; a hint: relaxed */
    struct prs_sequence_rules rules;
    bool runs; /* whether neighbouring SETs may go as one message */
    struct prs_run run;
    struct prs_token tokens[PRS_ROUTE_TOKENS];
    uint32_t token_free;
};

/* Opens the fabric and decides the ordering. On failure prs_route_finish cleans up. */
enum perseus_status prs_route_init(struct prs_route *route, const struct prs_route_config *config);
/* Whether SETs are applied by the target's CPU. */
bool prs_route_has_records(const struct prs_route *route, const struct prs_link_settings *settings);
/* Once PE numbers are known. `host_fences`: the host calls fence whenever its user does. */
/* `secret`: the job's, PRS_SECRET_BYTES. */
enum perseus_status prs_route_start(struct prs_route *route,
                                    const struct prs_link_settings *settings, uint32_t self,
                                    uint32_t n_pes, const unsigned char *secret, bool host_fences);
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
/* Sends off what waits: OK, or AGAIN when the fabric takes nothing now. Errors reach the next
 * quiet. */
enum perseus_status prs_route_flush_run(struct prs_route *route);
/* Submits, and waits until it is complete. */
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
