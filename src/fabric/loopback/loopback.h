/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loopback.h: the in-process reference back end. Start here when you want to write another one.
 *
 *   fabric.c    open, close, capabilities, regions, endpoints, the ops table
 *   queue.c     post queues an operation; the initiator's poll takes it off and moves the data
 *   copy.c      how bytes and words are written so that other threads may watch them
 *   ../inprocess/   peers, addresses and remotes: of every fabric that stays in its process
 *
 * Any number of fabrics of one process reach each other, each driven by its own thread. All that
 * two threads share is a port: it is reference-counted, and locked while data moves into it.
 */
#ifndef PRS_FABRIC_LOOPBACK_LOOPBACK_H
#define PRS_FABRIC_LOOPBACK_LOOPBACK_H

#include "fabric/inprocess/inprocess.h"

#define PRS_LOOPBACK_LANES        4
#define PRS_LOOPBACK_INLINE_BYTES 128
#define PRS_LOOPBACK_INFLIGHT     256
#define PRS_LOOPBACK_RETRY_NS     50000
#define PRS_LOOPBACK_ENDPOINT_MAX 65536 /* bytes; a simulator holds thousands of endpoints */

extern const struct prs_fabric_ops prs_loopback_ops;

/* An operation between its post and its execution. It points into no other object that may go
 * before it does: not to its remote, and to local memory only, which the caller keeps. */
struct prs_loopback_op {
    struct prs_op op;
    struct prs_loopback_op *next;
    struct prs_port_slot slot; /* the target region */
    uint64_t number;           /* of the post at its endpoint, from 1 */
    unsigned char *local;      /* PUT: source; GET, ATOMIC_FETCH: destination */
    unsigned char copied[PRS_LOOPBACK_INLINE_BYTES];
};

/* Operations of one (peer, lane), executed first to last. A lane with operations is in its
 * endpoint's list of busy lanes. */
struct prs_loopback_lane {
    struct prs_loopback_op *first, *last;
    struct prs_loopback_lane *next_busy;
};

struct prs_loopback_peer {
    struct prs_inprocess_peer common;
    struct prs_loopback_lane lanes[PRS_LOOPBACK_LANES];
};

struct prs_loopback_endpoint {
    struct prs_inprocess_endpoint common;
    int bell;        /* an eventfd: what a sleeping owner waits for */
    uint64_t posted; /* operations so far */
    uint64_t rung;   /* those numbered up to here may be executed: the doorbell */
    struct prs_loopback_lane *busy_first, *busy_last;
    struct prs_loopback_op *free;
    struct prs_loopback_op pool[PRS_LOOPBACK_INFLIGHT];
};

/* queue.c */
enum perseus_status prs_loopback_post(struct prs_endpoint *endpoint, const struct prs_op *op);
enum perseus_status prs_loopback_flush(struct prs_endpoint *endpoint);
enum perseus_status prs_loopback_poll(struct prs_endpoint *endpoint, struct prs_event *events,
                                      uint32_t n, uint32_t *out_n);
int prs_loopback_wait_fd(struct prs_endpoint *endpoint);
enum perseus_status prs_loopback_arm(struct prs_endpoint *endpoint, uint64_t *out_limit_ns);

/* copy.c: carries out an operation on `target`, the first byte that it names. */
void prs_loopback_move(const struct prs_loopback_op *queued, unsigned char *target,
                       bool is_coherent);

#endif
