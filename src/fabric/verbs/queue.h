/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue.h: a reliable connection to a peer, and what is in flight on it.
 *
 * Work requests lie in a ring. Positions only grow:
 *
 *     reported <= done <= rung <= posted <= reported + depth
 *
 * Those from `rung` on wait for the doorbell. Work requests are linked around the ring for good;
 * the doorbell cuts that behind the last posted, and links it again. Of a list the last asks for a
 * completion, and in between every PRS_VERBS_SIGNALED_EVERY-th: a queue pair completes in order, so
 * one completion tells of all before it. An error completion tells of itself; those before it are
 * well, those behind it were flushed.
 */
#ifndef PRS_VERBS_QUEUE_H
#define PRS_VERBS_QUEUE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include <perseus/status.h>

#define PRS_VERBS_DEPTH          256u
#define PRS_VERBS_INLINE_BYTES   64u
#define PRS_VERBS_SIGNALED_EVERY 32u

struct prs_verbs_endpoint;
struct prs_verbs_peer;
struct prs_event;

/* What does not change from post to post is filled in once: the request's id (the queue's number,
 * and the slot's), its place in the ring, and whether it is one that asks for a completion. */
struct prs_verbs_slot {
    struct ibv_send_wr wr;
    struct ibv_sge sge;
    uint64_t cookie;
    uint32_t own_flags;
    uint8_t flags;                                            /* of the operation */
    _Alignas(8) unsigned char copied[PRS_VERBS_INLINE_BYTES]; /* what may be gone at the source */
};

struct prs_verbs_queue {
    struct ibv_qp *qp;
    struct prs_verbs_peer *peer;
    uint32_t number; /* in the endpoint */
    uint8_t lane;
    bool unrung_listed, done_listed;
    uint32_t inline_max;                 /* bytes that the device copies when posted */
    struct prs_verbs_slot *free;         /* to be posted next */
    const struct prs_verbs_slot *oldest; /* to be reported next */
    uint64_t posted, rung, done, reported;
    uint64_t limit;              /* posts are taken up to here: a ring's length, or none */
    uint64_t failed_at;          /* the first that failed; UINT64_MAX: none */
    uint64_t refused_from;       /* those from here on the device never took; UINT64_MAX: none */
    enum perseus_status failure; /* of the one at failed_at */
    struct prs_verbs_queue *next_unrung, *next_done;
    struct ibv_mr *mr; /* of the slots: their copies */
    struct prs_verbs_slot slots[PRS_VERBS_DEPTH];
};

/* A queue pair that is not connected yet. */
enum perseus_status prs_verbs_queue_open(struct prs_verbs_endpoint *endpoint,
                                         struct prs_verbs_peer *peer, uint8_t lane,
                                         struct prs_verbs_queue **out);
/* It gets its number in the endpoint. */
void prs_verbs_queue_enter(struct prs_verbs_queue *queue, uint32_t number);
void prs_verbs_queue_close(struct prs_verbs_endpoint *endpoint, struct prs_verbs_queue *queue);
/* What is in flight comes back as errors; nothing more arrives. */
void prs_verbs_queue_break(struct prs_verbs_endpoint *endpoint, struct prs_verbs_queue *queue);

/* Its peer takes posts, from the first on; or none any more. */
void prs_verbs_queue_start(struct prs_verbs_queue *queue);
void prs_verbs_queue_stop(struct prs_verbs_queue *queue);
/* Rings the doorbell. */
void prs_verbs_queue_ring(struct prs_verbs_endpoint *endpoint, struct prs_verbs_queue *queue);
/* A completion was polled. */
void prs_verbs_queue_completed(struct prs_verbs_endpoint *endpoint, const struct ibv_wc *wc);
/* Fills up to n events with completions; returns how many. */
uint32_t prs_verbs_queues_report(struct prs_verbs_endpoint *endpoint, struct prs_event *events,
                                 uint32_t n);

/* Both sides: INIT with these rights of the other, ready to receive, ready to send. 0 or
 * an errno. */
struct prs_verbs_route;
int prs_verbs_qp_init(const struct prs_verbs_endpoint *endpoint, struct ibv_qp *qp,
                      unsigned rights);
int prs_verbs_qp_receive(const struct prs_verbs_endpoint *endpoint, struct ibv_qp *qp,
                         const struct prs_verbs_route *route, uint32_t their_qp, uint32_t their_psn,
                         uint8_t mtu, uint8_t rd_atomic);
int prs_verbs_qp_send(const struct prs_verbs_endpoint *endpoint, struct ibv_qp *qp, uint32_t psn,
                      uint8_t rd_atomic);
struct ibv_ah_attr prs_verbs_path(const struct prs_verbs_endpoint *endpoint,
                                  const struct prs_verbs_route *route);

#endif
