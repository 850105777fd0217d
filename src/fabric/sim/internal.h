/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h: the objects of the virtual fabric, shared by the files of this folder. */
#ifndef PRS_FABRIC_SIM_INTERNAL_H
#define PRS_FABRIC_SIM_INTERNAL_H

#include "base/rng.h"
#include "fabric/sim/sim.h"

#define PRS_SIM_INLINE_BYTES      64
#define PRS_SIM_ENDPOINT_MAX      65536 /* bytes */
#define PRS_SIM_MESSAGE_BYTES_MAX (1ull << 40)
#define PRS_SIM_NONE              UINT32_MAX

extern const struct prs_fabric_ops prs_sim_ops;

struct prs_sim_endpoint;

enum prs_sim_side { PRS_SIM_SEND, PRS_SIM_RECEIVE, PRS_SIM_SIDES };

/* A message on a line (line.c). */
struct prs_sim_turn {
    struct prs_sim_op *op;
    struct prs_sim_line *line;
    struct prs_sim_turn *next, *child; /* in the heap */
    struct prs_sim_turn *behind;       /* of its connection */
    uint64_t end;                      /* leaves when a connection has been given that */
    bool is_timed;                     /* has an event when it may leave */
};

/* One direction of a NIC. It outlives its fabric, as messages may be on it. */
struct prs_sim_line {
    struct prs_sim_line *next; /* of the network */
    struct prs_timeline *timeline;
    struct prs_sim_turn *first; /* to leave */
    uint64_t served;            /* what a connection has been given, by served_ns */
    uint64_t served_ns, rest;   /* and what was left over then, for all together */
    uint32_t n_connections;     /* with messages on it */
    enum prs_sim_side side;
};

/* A connection's part in a line. */
struct prs_sim_share {
    struct prs_sim_turn *last; /* NULL: it has no message there */
    uint64_t end;              /* of the last */
};

/* One operation from its post to its completion. It has at most two things on the
 * timeline: for the line it leaves, and for what follows. */
struct prs_sim_op {
    struct prs_sim_endpoint *endpoint;
    struct prs_sim_op *next; /* in its queue, in its endpoint's completions, or free */
    struct prs_sim_turn turns[PRS_SIM_SIDES];
    unsigned char *local; /* PUT: source; GET, ATOMIC_FETCH: destination; NULL: not backed */
    uint64_t local_bytes; /* backed, from there */
    uint64_t posted_ns;
    uint64_t length_ns, service_ns; /* of its bytes, and of the sender's line that it takes */
    uint64_t late_ns;               /* from the sender's line to the receiver's */
    uint64_t tail_ns;               /* when its last byte reaches the receiver's */
    uint64_t remote_offset, bytes, value, compare, immediate, cookie;
    struct prs_sim_arrival *arrival; /* taken with the post of an IMMEDIATE */
    uint32_t peer, region;
    uint8_t kind, flags, atomic, status, lane;
    bool is_sent, is_received; /* has left that line */
    unsigned char copied[PRS_SIM_INLINE_BYTES];
};

/* An immediate that waits for the target's poll. */
struct prs_sim_arrival {
    struct prs_sim_arrival *next;
    uint32_t source; /* endpoint number */
    uint64_t immediate;
};

struct prs_sim_region {
    struct prs_region base;
    uint32_t number;
    size_t backed;
    prs_sim_written_fn written;
    void *context;
};

struct prs_sim_slab;

/* Numbers are never used twice: an operation that comes too late finds NULL. */
struct prs_sim_net {
    struct prs_sim_model model;
    struct prs_timeline *timeline;
    struct prs_rng rng;
    struct prs_sim_endpoint **endpoints;
    struct prs_sim_region **regions;
    uint32_t n_endpoints, endpoints_room, n_regions, regions_room;
    struct prs_sim_op *free_ops;
    struct prs_sim_arrival *free_arrivals;
    struct prs_sim_slab *slabs; /* all that was allocated for the two */
    struct prs_sim_line *lines;
    uint64_t posted;
    uint64_t latency_ns; /* of all hops */
};

/* One PE with one NIC. */
struct prs_sim_fabric {
    struct prs_fabric base;
    struct prs_sim_net *net;
    const struct prs_log *log;
    struct prs_clock clock;
    uint32_t first; /* number of the endpoint that peers reach, or NONE */
    struct prs_sim_line *lines[PRS_SIM_SIDES];
};

/* What a fence flag waits for. */
struct prs_sim_ahead {
    uint32_t undelivered; /* out of the queue */
    uint64_t acked_ns;    /* when the NIC will know that all delivered are */
};

/* A command queue: a fence flag that waits, and all behind it. */
struct prs_sim_queue {
    struct prs_sim_op *held_first, *held_last;
    struct prs_sim_ahead ahead;
    uint64_t open_ns; /* when the last fence flag was through */
};

struct prs_sim_peer {
    uint32_t target; /* endpoint number */
    bool is_lost;
};

/* A connection to a peer. */
struct prs_sim_lane {
    struct prs_sim_ahead ahead;
    struct prs_sim_share shares[PRS_SIM_SIDES]; /* of this NIC's line and of the target's */
    uint64_t head_ns, tail_ns;  /* of the last message on its way there: granted order */
    struct prs_sim_queue queue; /* when every connection has its own */
};

struct prs_sim_endpoint {
    struct prs_endpoint base;
    struct prs_sim_fabric *fabric;
    struct prs_sim_net *net;
    uint32_t number;
    bool is_closed;     /* its operations in flight keep it until they are gone */
    uint32_t in_flight; /* posted and not yet taken */
    uint32_t untold;    /* posted, to be completed by an event, which is not there yet */
    uint32_t n_peers, peers_room, places_room;
    struct prs_sim_peer *peers;
    uint32_t n_lanes;           /* to each of them */
    struct prs_sim_lane *lanes; /* [peers_room][n_lanes] */
    uint32_t *places;           /* hash of target numbers: peer + 1 */
    struct prs_sim_queue *queues;
    uint32_t n_queues;
    uint64_t free_ns; /* of the CPU */
    uint64_t tail_ns; /* by the number of peers */
    struct prs_sim_op *done_first, *done_last;
    struct prs_sim_arrival *arrived_first, *arrived_last;
    bool arrivals_first; /* alternates, so that neither kind of event starves the other */
    prs_happen_fn ready;
    void *ready_context;
};

struct prs_sim_remote {
    struct prs_remote base;
    uint32_t region;
    bool is_word_aligned;
};

static inline uint64_t prs_sim_now(const struct prs_sim_net *net)
{
    return prs_timeline_now_ns(net->timeline);
}

static inline uint32_t prs_sim_lanes(const struct prs_sim_model *model)
{
    return model->lanes > 1 ? (uint32_t)model->lanes : 1;
}

/* Of all its endpoint's connections. */
static inline uint32_t prs_sim_connection_of(const struct prs_sim_op *op)
{
    return op->peer * op->endpoint->n_lanes + op->lane;
}

static inline struct prs_sim_lane *prs_sim_lane_of(const struct prs_sim_op *op)
{
    return &op->endpoint->lanes[prs_sim_connection_of(op)];
}

/* Whether the NIC reads a payload from memory. */
static inline bool prs_sim_reads(uint8_t kind, uint8_t flags, uint64_t bytes)
{
    return kind == PRS_OP_PUT && bytes > 0 && (flags & PRS_OP_INLINE) == 0;
}

/* net.c */
/* With room on the timeline, and for the immediate it carries. NULL: out of memory. */
struct prs_sim_op *prs_sim_op_take(struct prs_sim_net *net, bool with_arrival);
/* The operation is over: its endpoint has one less in flight, and goes if it was the last. */
void prs_sim_op_give_back(struct prs_sim_op *op);
enum perseus_status prs_sim_net_add_endpoint(struct prs_sim_net *net,
                                             struct prs_sim_endpoint *endpoint);
/* Both lines of a NIC; false: out of memory. */
bool prs_sim_net_add_lines(struct prs_sim_net *net, struct prs_sim_line *lines[PRS_SIM_SIDES]);
enum perseus_status prs_sim_net_add_region(struct prs_sim_net *net, struct prs_sim_region *region);
struct prs_sim_endpoint *prs_sim_net_endpoint(const struct prs_sim_net *net, uint32_t number);
struct prs_sim_region *prs_sim_net_region(const struct prs_sim_net *net, uint32_t number);
void prs_sim_arrival_give_back(struct prs_sim_net *net, struct prs_sim_arrival *arrival);

/* nic.c */
/* The NIC has the operation from posted_ns on. */
void prs_sim_nic_take(struct prs_sim_op *op);
/* It has left the sender's line, and what is behind it on its connection may begin, or NULL. */
void prs_sim_nic_sent(struct prs_sim_op *op, struct prs_sim_op *behind);
/* It has left the receiver's line. */
void prs_sim_nic_received(struct prs_sim_op *op);
uint64_t prs_sim_bytes_ns(uint64_t bytes, double gbit_s);

/* line.c */
/* The message comes to the line, of which it takes service_ns, at least 1, when alone. Whether it
 * is the first of its connection there. */
bool prs_sim_line_add(struct prs_sim_line *line, struct prs_sim_op *op, uint64_t service_ns);

/* copy.c: carries it out on the target's memory. */
void prs_sim_move(struct prs_sim_op *op, struct prs_sim_region *target);

/* endpoint.c */
enum perseus_status prs_sim_endpoint_open(struct prs_fabric *fabric, struct prs_endpoint **out);
void prs_sim_endpoint_close(struct prs_endpoint *endpoint);
void prs_sim_endpoint_free(struct prs_sim_endpoint *endpoint);
enum perseus_status prs_sim_endpoint_address(struct prs_endpoint *endpoint, void *out,
                                             size_t *bytes);
enum perseus_status prs_sim_connect(struct prs_endpoint *endpoint, const void *address,
                                    size_t bytes, uint32_t *out_peer);
enum perseus_status prs_sim_import(struct prs_endpoint *endpoint, uint32_t peer, const void *blob,
                                   size_t bytes, struct prs_remote **out);
void prs_sim_remote_close(struct prs_remote *remote);
/* Which peer has this number, or PRS_PEER_UNKNOWN. */
uint32_t prs_sim_peer_of(const struct prs_sim_endpoint *endpoint, uint32_t number);

/* post.c */
enum perseus_status prs_sim_post(struct prs_endpoint *endpoint, const struct prs_op *op);
enum perseus_status prs_sim_flush(struct prs_endpoint *endpoint);
enum perseus_status prs_sim_poll(struct prs_endpoint *endpoint, struct prs_event *events,
                                 uint32_t n, uint32_t *out_n);

#define PRS_SIM_BLOB_MAGIC 0x70727376u /* "prsv" */
struct prs_sim_blob {
    uint32_t magic, region, endpoint, zero;
    uint64_t bytes;
    uint64_t is_word_aligned;
};
struct prs_sim_address {
    uint32_t magic, endpoint;
};

#endif
