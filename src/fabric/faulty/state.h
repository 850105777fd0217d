/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state.h: what the files of the decorator share.
 *
 *   parse.c     the configuration as text
 *   fabric.c    wrap, close; regions pass straight through and stay the inside's own objects
 *   endpoint.c  endpoints and peers; post delays, poll delivers
 *   release.c   which delayed operations may go inside now: the order that must be kept
 *
 * An operation is HELD (accepted, on its way to the target), then INSIDE (posted to the wrapped
 * fabric), then done (its completion is on the way back).
 */
#ifndef PRS_FABRIC_FAULTY_STATE_H
#define PRS_FABRIC_FAULTY_STATE_H

#include "base/rng.h"
#include "fabric/fabric.h"
#include "fabric/faulty/faulty.h"

#define PRS_FAULTY_INLINE_BYTES 128
#define PRS_FAULTY_INFLIGHT     1024
#define PRS_FAULTY_RETRY_NS     50000

struct prs_faulty_fabric {
    struct prs_fabric base;
    struct prs_fabric *inside;
    struct prs_faulty_config config;
    const struct prs_log *log;
    struct prs_clock clock;
    uint64_t endpoints; /* opened so far: each gets its own random numbers */
};

struct prs_faulty_op {
    struct prs_faulty_op *next, *previous; /* in the list it is in */
    struct prs_op op;
    bool is_inside;
    bool is_doomed;             /* it will fail instead of going inside */
    bool is_told;               /* it has completed early: its end is nobody's event */
    enum perseus_status status; /* when done */
    uint64_t number;            /* of the post at its endpoint, from 1 */
    uint64_t due_ns;            /* HELD: arrives at the target; done: may be reported */
    unsigned char copied[PRS_FAULTY_INLINE_BYTES];
};

struct prs_faulty_list {
    struct prs_faulty_op *first, *last;
};

/* What one walk over the operations in posting order has met so far in a lane, a peer or the
 * endpoint. Stale from an older walk: as if zero. */
struct prs_faulty_scope {
    uint64_t walk;
    uint32_t open;       /* not completed */
    uint32_t held_kinds; /* bits by enum prs_op_kind: met and still HELD */
    bool is_barred;      /* behind a fence that waits */
};

struct prs_faulty_lane {
    struct prs_faulty_scope scope;
    bool is_broken; /* nothing more goes inside */
};

struct prs_faulty_peer {
    uint64_t address_hash;
    uint64_t link_free_ns;  /* its link has sent everything accepted so far */
    bool is_failed;         /* an operation has failed: its lane is broken, if not all of them */
    bool is_lost;           /* the caller has been told: all of them are */
    uint64_t refused_walk;  /* the inside said AGAIN in this walk */
    uint64_t busy_until_ns; /* answers AGAIN; 0: no post to it yet */
    struct prs_faulty_scope scope;
    struct prs_faulty_lane lanes[]; /* caps.lanes_max */
};

struct prs_faulty_endpoint {
    struct prs_endpoint base;
    struct prs_faulty_fabric *fabric;
    struct prs_endpoint *inside;
    struct prs_rng rng;
    struct prs_faulty_peer **peers;
    uint32_t n_peers, peers_room;
    struct prs_faulty_list open; /* HELD and INSIDE, in posting order */
    struct prs_faulty_list done;
    struct prs_faulty_list free;
    uint32_t n_ops;       /* in open and done */
    uint64_t posted;      /* operations accepted so far */
    uint64_t attempts;    /* posts so far that were not refused by chance */
    uint64_t rung;        /* those numbered up to here may go inside: the doorbell */
    bool needs_flush;     /* the inside holds operations posted with MORE */
    bool has_broken_lane; /* its HELD operations wait to be failed */
    bool reports_first;   /* alternates, so that neither kind of event starves the other */
    uint64_t walk;
    struct prs_faulty_scope scope;
};

/* endpoint.c: `queued` leaves the open list; its completion, if it has one, travels back. */
void prs_faulty_finish(struct prs_faulty_endpoint *self, struct prs_faulty_op *queued,
                       enum perseus_status status, uint64_t now_ns);

/* Nothing more goes inside on this operation's lane. */
static inline bool prs_faulty_is_broken(const struct prs_faulty_endpoint *self,
                                        const struct prs_op *op)
{
    const struct prs_faulty_peer *peer = self->peers[op->peer];
    return peer->is_lost || peer->lanes[op->lane].is_broken;
}

/* release.c: posts inside what has arrived and may go. */
void prs_faulty_release(struct prs_faulty_endpoint *self, uint64_t now_ns);

/* endpoint.c, for the ops table */
enum perseus_status prs_faulty_endpoint_open(struct prs_fabric *fabric, struct prs_endpoint **out);
void prs_faulty_endpoint_close(struct prs_endpoint *endpoint);
enum perseus_status prs_faulty_endpoint_address(struct prs_endpoint *endpoint, void *out,
                                                size_t *bytes);
enum perseus_status prs_faulty_connect(struct prs_endpoint *endpoint, const void *address,
                                       size_t bytes, uint32_t *out_peer);
enum perseus_status prs_faulty_import(struct prs_endpoint *endpoint, uint32_t peer,
                                      const void *blob, size_t bytes, struct prs_remote **out);
enum perseus_status prs_faulty_post(struct prs_endpoint *endpoint, const struct prs_op *op);
enum perseus_status prs_faulty_flush(struct prs_endpoint *endpoint);
enum perseus_status prs_faulty_poll(struct prs_endpoint *endpoint, struct prs_event *events,
                                    uint32_t n, uint32_t *out_n);
int prs_faulty_wait_fd(struct prs_endpoint *endpoint);
enum perseus_status prs_faulty_arm(struct prs_endpoint *endpoint, uint64_t *out_limit_ns);

#endif
