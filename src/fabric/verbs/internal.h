/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h: the objects behind the verbs back end's handles.
 *
 *   fabric    device, protection domain
 *   endpoint  completion queues, queue pair of datagrams, peers, guests
 *   peer      whom we have connected to: a queue per lane, on which we post
 *   guest     who has connected to us: its queue pairs, on which we only receive
 *   queue     queue.h
 */
#ifndef PRS_VERBS_INTERNAL_H
#define PRS_VERBS_INTERNAL_H

#include "fabric/fabric.h"
#include "fabric/verbs/device.h"
#include "fabric/verbs/message.h"
#include "fabric/verbs/queue.h"
#include "fabric/verbs/registration.h"

#define PRS_VERBS_INFLIGHT \
    4096u /* operations of an endpoint: each has room in its completion queue */
#define PRS_VERBS_ARRIVALS    1024u /* immediates that wait to be polled */
#define PRS_VERBS_REFILL_FROM 64u   /* receives are posted again in lists */
#define PRS_VERBS_DATAGRAMS   64u   /* of each direction */
#define PRS_VERBS_GRH_BYTES   40u   /* before every datagram received */

/* What a completion on `arrivals` is of, above the number of a datagram. */
#define PRS_VERBS_ID_EVENT    UINT64_C(0)
#define PRS_VERBS_ID_RECEIVED (UINT64_C(1) << 32)
#define PRS_VERBS_ID_SENT     (UINT64_C(2) << 32)

struct prs_verbs_fabric {
    struct prs_fabric base;
    const struct prs_log *log;
    enum perseus_log_level loss_level;
    struct prs_clock clock;
    const struct prs_verbs_library *library;
    struct prs_verbs_settings settings;
    struct prs_verbs_device device;
    struct ibv_pd *pd;
    struct prs_verbs_registrations registrations;
};

struct prs_verbs_region {
    struct prs_region base;
    struct prs_verbs_registration *registration;
    struct ibv_mr *mr; /* the registration's */
    uint32_t key;      /* its own, for sources */
};

struct prs_verbs_remote {
    struct prs_remote base;
    struct prs_verbs_peer *peer;
    uint64_t address;
    uint32_t key;
};

/* On the way to sleep. */
enum prs_verbs_arming {
    PRS_VERBS_AWAKE,  /* completions make no events */
    PRS_VERBS_ARMED,  /* they do from here on; what came before is not looked at yet */
    PRS_VERBS_DROWSY, /* ... it is: there was nothing */
};

enum prs_verbs_peer_state { PRS_VERBS_CONNECTING, PRS_VERBS_READY, PRS_VERBS_LOST };

struct prs_verbs_peer {
    enum prs_verbs_peer_state state;
    bool ended;    /* it has said so, at `since_ns` */
    bool is_timed; /* time is to be looked at for it */
    struct prs_verbs_address address;
    struct prs_verbs_queue *queues[PRS_VERBS_LANES_MAX];
    uint32_t number, psn;
    uint64_t since_ns;          /* connecting, or ended */
    uint64_t next_ns, pause_ns; /* of the next request */
};

struct prs_verbs_guest {
    uint64_t from;
    uint32_t peer;                           /* its number there */
    struct ibv_qp *qps[PRS_VERBS_LANES_MAX]; /* NULL: closed */
    struct prs_verbs_route route;
    struct prs_verbs_message accept; /* as it was sent */
    struct prs_verbs_guest *next;
};

/* Where a datagram lies from its post to its completion. */
struct prs_verbs_datagram {
    struct prs_verbs_message message;
    struct ibv_ah *ah; /* NULL: free */
};

struct prs_verbs_arrival { /* room for one datagram */
    unsigned char grh[PRS_VERBS_GRH_BYTES];
    struct prs_verbs_message message;
};

struct prs_verbs_talk {
    struct ibv_qp *qp;
    uint32_t qkey;
    struct ibv_mr *mr; /* of both */
    struct prs_verbs_datagram sent[PRS_VERBS_DATAGRAMS];
    struct prs_verbs_arrival received[PRS_VERBS_DATAGRAMS];
};

struct prs_verbs_endpoint {
    struct prs_endpoint base;
    uint64_t id;
    unsigned char key[PRS_VERBS_KEY_BYTES];
    struct ibv_comp_channel *channel;
    enum prs_verbs_arming arming;
    struct ibv_cq *sends;    /* of the peers' queues */
    struct ibv_cq *arrivals; /* immediates, and datagrams both ways */
    struct ibv_srq *srq;
    uint32_t srq_owed; /* receives consumed and not posted again */
    struct prs_verbs_talk *talk;
    struct prs_verbs_peer **peers;
    uint32_t peer_count, peer_room;
    struct prs_verbs_queue **queues; /* by number */
    uint32_t queue_count, queue_room;
    struct prs_verbs_guest *guests;
    uint32_t timed_count, timed_next;               /* peers; whose turn it is */
    struct prs_verbs_queue *unrung_first;           /* with a doorbell to ring */
    struct prs_verbs_queue *done_first, *done_last; /* with completions to report */
    uint32_t in_flight, in_flight_max;
    bool arrivals_first; /* alternates: neither kind of event starves the other */
    uint64_t scratch;    /* old values of atomics that nobody asked for */
    struct ibv_mr *scratch_mr;
};

static inline struct prs_verbs_fabric *prs_verbs_fabric_of(const struct prs_fabric *fabric)
{
    return (struct prs_verbs_fabric *)(uintptr_t)fabric;
}
static inline struct prs_verbs_fabric *prs_verbs_of(const struct prs_verbs_endpoint *endpoint)
{
    return prs_verbs_fabric_of(endpoint->base.fabric);
}

/* fabric.c: with a library of the caller's (tests). */
enum perseus_status prs_verbs_open_with(const struct prs_fabric_config *config,
                                        const struct prs_verbs_library *library,
                                        struct prs_fabric **out);

/* region.c */
enum perseus_status prs_verbs_region_register(struct prs_fabric *fabric, void *base, size_t bytes,
                                              enum prs_memory_kind kind, struct prs_region **out);
void prs_verbs_region_close(struct prs_region *region);
enum perseus_status prs_verbs_region_export(struct prs_region *region, void *blob, size_t *bytes);
enum perseus_status prs_verbs_import(struct prs_endpoint *endpoint, uint32_t peer, const void *blob,
                                     size_t bytes, struct prs_remote **out);
void prs_verbs_remote_close(struct prs_remote *remote);

/* endpoint.c */
enum perseus_status prs_verbs_endpoint_open(struct prs_fabric *fabric, struct prs_endpoint **out);
void prs_verbs_endpoint_close(struct prs_endpoint *endpoint);
enum perseus_status prs_verbs_endpoint_address(struct prs_endpoint *endpoint, void *out,
                                               size_t *bytes);
struct prs_verbs_route prs_verbs_route(const struct prs_verbs_endpoint *endpoint);
/* Posts receives again that were consumed. */
void prs_verbs_arrivals_refill(struct prs_verbs_endpoint *endpoint);
/* The datagram that lies there has been read. */
void prs_verbs_datagram_receive(struct prs_verbs_endpoint *endpoint, uint32_t slot);
/* Sends a message, if there is room; it may be lost as well. */
void prs_verbs_datagram_send(struct prs_verbs_endpoint *endpoint,
                             const struct prs_verbs_route *route,
                             const struct prs_verbs_message *message);
void prs_verbs_datagram_sent(struct prs_verbs_endpoint *endpoint, uint32_t slot);

/* connect.c */
enum perseus_status prs_verbs_connect(struct prs_endpoint *endpoint, const void *address,
                                      size_t bytes, uint32_t *out_peer);
/* Sends requests again that are due, and gives up. */
void prs_verbs_connect_pump(struct prs_verbs_endpoint *endpoint);
/* A datagram has arrived. */
void prs_verbs_connect_hear(struct prs_verbs_endpoint *endpoint,
                            const struct prs_verbs_message *message);
/* Ends a peer and says so once. What is in flight to it comes back with errors. */
void prs_verbs_peer_lose(struct prs_verbs_endpoint *endpoint, struct prs_verbs_peer *peer,
                         const char *why);
/* Says goodbye to all, and frees what connections hold. */
void prs_verbs_connections_close(struct prs_verbs_endpoint *endpoint);

/* post.c */
enum perseus_status prs_verbs_post(struct prs_endpoint *endpoint, const struct prs_op *op);
enum perseus_status prs_verbs_flush(struct prs_endpoint *endpoint);

/* wake.c */
int prs_verbs_wait_fd(struct prs_endpoint *endpoint);
enum perseus_status prs_verbs_arm(struct prs_endpoint *endpoint, uint64_t *out_limit_ns);

/* poll.c */
/* Reads up to n completions off `arrivals`; *events is filled with immediates, NULL: they are
 * dropped. Returns how many were filled. */
uint32_t prs_verbs_arrivals_read(struct prs_verbs_endpoint *endpoint, struct prs_event *events,
                                 uint32_t n);
enum perseus_status prs_verbs_poll(struct prs_endpoint *endpoint, struct prs_event *events,
                                   uint32_t n, uint32_t *out_n);

#endif
