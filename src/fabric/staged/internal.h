/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h: what the files of the decorator share.
 *
 *   ring.c      positions and slots
 *   fabric.c    wrap, close, what is granted, the ops table
 *   region.c    regions: peers name them by number
 *   endpoint.c  endpoints, and the memory of their rings
 *   contact.c   peers: meeting, parting
 *   post.c      post: an operation waits for the ring
 *   out.c       operations -> outgoing ring
 *   send.c      outgoing ring -> the inside; counts
 *   in.c        incoming ring -> copies, answers
 *   poll.c      drives all of it, and tells what is finished
 *
 * Locks: an endpoint is its thread's. `lock` of the fabric is held from the look at a region that a
 * peer has named until the GPU has the copies, so whoever closes a region waits for those only.
 */
#ifndef PRS_FABRIC_STAGED_INTERNAL_H
#define PRS_FABRIC_STAGED_INTERNAL_H

#include <pthread.h>

#include "cuda/lane.h"
#include "fabric/staged/ring.h"
#include "fabric/staged/staged.h"

#define PRS_STAGED_OPS          512 /* of an endpoint */
#define PRS_STAGED_INLINE_BYTES 128
#define PRS_STAGED_MARKS        512
#define PRS_STAGED_KNOCK_NS     10000000
#define PRS_STAGED_REFUSED      UINT64_MAX /* in the place of a count: this PE has ended the peer */

enum prs_staged_way { PRS_STAGED_REQUEST, PRS_STAGED_REPLY, PRS_STAGED_WAYS };
enum prs_staged_what { PRS_STAGED_TAIL, PRS_STAGED_DONE, PRS_STAGED_WHATS };

struct prs_staged_region {
    struct prs_region base;
    uint32_t number, generation;
    bool is_pinned; /* by us */
};

struct prs_staged_remote {
    struct prs_remote base;
    uint32_t number, generation;
    bool is_word_aligned;
};

struct prs_staged_endpoint;

struct prs_staged_fabric {
    struct prs_fabric base;
    struct prs_fabric *inside;
    struct prs_staged_config config;
    uint32_t self, n_pes;
    bool is_ordered; /* the inside keeps puts in order: a count may follow its slots at once */
    struct prs_gpu *cuda;
    struct prs_gpu_device device;
    pthread_mutex_t lock; /* of what follows, and see above */
    struct prs_staged_region **regions;
    uint32_t n_regions, generations;
    struct prs_staged_endpoint *endpoint;
};

enum prs_staged_state { PRS_STAGED_FREE, PRS_STAGED_QUEUED, PRS_STAGED_SENT, PRS_STAGED_ENDED };

struct prs_staged_contact;

/* Points into no object that may go before it: not to its remote, and to local memory only, which
 * the caller keeps. */
struct prs_staged_op {
    struct prs_staged_op *next;
    enum prs_staged_state state;
    enum perseus_status status;
    struct prs_op op;
    struct prs_staged_contact *contact;
    uint32_t number, generation;  /* of the target region */
    uint64_t serial;              /* never that of an earlier operation in the same place */
    unsigned char *local;         /* PUT: source; GET: destination */
    bool is_device;               /* the source is the GPU's */
    uint64_t moved;               /* PUT: bytes in the ring; GET: asked for */
    uint64_t answered;            /* GET: bytes */
    uint64_t end;                 /* PUT, SET: the peer is done with it when it counts so far */
    uint64_t out_batch, in_batch; /* ENDED: no copy touches local memory once these are done */
    unsigned char copied[PRS_STAGED_INLINE_BYTES];
};

struct prs_staged_list {
    struct prs_staged_op *first, *last;
};

struct prs_staged_out {
    uint64_t tail, ready, posted, told; /* written, copied, put, and counted to the peer */
    uint64_t done;                      /* the peer is with slots below */
    uint32_t puts_open;                 /* not ordered: before the count that covers them */
    bool count_open;
};

struct prs_staged_in {
    uint64_t head, done, told; /* taken, copied, and counted to the peer */
    bool count_open;
};

/* What is known of one PE of the job. */
struct prs_staged_contact {
    uint32_t rank;
    uint32_t peer;            /* the inside's number */
    uint32_t outer;           /* ours, PRS_PEER_UNKNOWN before connect */
    struct prs_remote *arena; /* NULL before it is met */
    bool is_lost;
    bool owes_refusal; /* the peer is to be told that this PE has ended it */
    struct prs_staged_list queued, sent;
    struct prs_staged_out out[PRS_STAGED_WAYS];
    struct prs_staged_in in[PRS_STAGED_WAYS];
    uint32_t open;     /* operations queued, sent, or asking */
    uint64_t moved_ns; /* when it last finished something, or had nothing to */
    bool knock_open;
};

/* The slots of a ring up to `end` are ready once a batch of copies is done. */
struct prs_staged_mark {
    struct prs_staged_contact *contact;
    enum prs_staged_way way;
    bool has_immediate;
    uint64_t end, batch, immediate;
};

struct prs_staged_marks {
    struct prs_staged_mark marks[PRS_STAGED_MARKS];
    uint32_t first, count;
};

struct prs_staged_endpoint {
    struct prs_endpoint base;
    struct prs_staged_fabric *fabric;
    struct prs_endpoint *inside;
    /* Pinned. The arena is what peers write: counts, then the incoming rings. */
    unsigned char *arena, *outgoing;
    struct prs_region *arena_region, *outgoing_region;
    struct prs_gpu_lane out, in;
    struct prs_staged_marks copied_out, copied_in;
    struct prs_staged_contact **contacts; /* by rank; NULL: nothing of it yet */
    uint32_t *ranks;                      /* by peer */
    uint32_t n_peers, peers_room;
    uint32_t cursor; /* rank that is served first */
    bool needs_flush, events_first;
    uint64_t serials;
    struct prs_staged_list ended;
    struct prs_staged_op *free;
    struct prs_staged_op pool[PRS_STAGED_OPS];
};

static inline void prs_staged_append(struct prs_staged_list *list, struct prs_staged_op *op)
{
    op->next = NULL;
    if (list->first == NULL) {
        list->first = op;
    } else {
        list->last->next = op;
    }
    list->last = op;
}

static inline struct prs_staged_op *prs_staged_pop(struct prs_staged_list *list)
{
    struct prs_staged_op *op = list->first;
    list->first = op->next;
    return op;
}

static inline uint64_t prs_staged_ring_bytes(const struct prs_staged_fabric *fabric,
                                             enum prs_staged_way way)
{
    return way == PRS_STAGED_REQUEST ? fabric->config.ring_bytes : fabric->config.ring_bytes / 4;
}

/* Where the rings of `rank` begin, behind the first byte of all rings. */
static inline uint64_t prs_staged_ring_offset(const struct prs_staged_fabric *fabric, uint32_t rank,
                                              enum prs_staged_way way)
{
    uint64_t ring_bytes = fabric->config.ring_bytes;
    return rank * (ring_bytes + ring_bytes / 4) + (way == PRS_STAGED_REPLY ? ring_bytes : 0);
}

/* The count of `rank` in an arena; the last one is where peers knock. */
static inline uint64_t prs_staged_count_offset(const struct prs_staged_fabric *fabric,
                                               uint32_t rank, enum prs_staged_way way,
                                               enum prs_staged_what what)
{
    uint64_t index = ((uint64_t)what * fabric->n_pes + rank) * PRS_STAGED_WAYS + (uint64_t)way;
    return index * sizeof(struct prs_staged_count);
}

static inline uint64_t prs_staged_knock_offset(const struct prs_staged_fabric *fabric)
{
    return (uint64_t)PRS_STAGED_WHATS * fabric->n_pes * PRS_STAGED_WAYS *
           sizeof(struct prs_staged_count);
}

static inline uint64_t prs_staged_counts_bytes(const struct prs_staged_fabric *fabric)
{
    uint64_t bytes = prs_staged_knock_offset(fabric) + sizeof(struct prs_staged_count);
    return (bytes + 4095) / 4096 * 4096;
}

static inline const struct prs_staged_count *
prs_staged_count(const struct prs_staged_endpoint *self, uint32_t rank, enum prs_staged_way way,
                 enum prs_staged_what what)
{
    return (const struct prs_staged_count *)(const void *)(self->arena +
                                                           prs_staged_count_offset(
                                                               self->fabric, rank, way, what));
}

/* region.c, with the lock held: `bytes` of the region that a peer has named, or NULL. */
unsigned char *prs_staged_find(const struct prs_staged_fabric *fabric,
                               const struct prs_staged_slot *slot, uint64_t bytes);
enum perseus_status prs_staged_region_register(struct prs_fabric *fabric, void *base, size_t bytes,
                                               enum prs_memory_kind kind, struct prs_region **out);
void prs_staged_region_close(struct prs_region *region);
enum perseus_status prs_staged_region_export(struct prs_region *region, void *blob, size_t *bytes);
enum perseus_status prs_staged_remote_import(struct prs_endpoint *endpoint, uint32_t peer,
                                             const void *blob, size_t bytes,
                                             struct prs_remote **out);
void prs_staged_remote_close(struct prs_remote *remote);

/* endpoint.c */
enum perseus_status prs_staged_endpoint_open(struct prs_fabric *fabric, struct prs_endpoint **out);
void prs_staged_endpoint_close(struct prs_endpoint *endpoint);

/* contact.c */
enum perseus_status prs_staged_address(struct prs_endpoint *endpoint, void *out, size_t *bytes);
enum perseus_status prs_staged_connect(struct prs_endpoint *endpoint, const void *address,
                                       size_t bytes, uint32_t *out_peer);
/* The contact of a PE, made if there is none; NULL: no memory. */
struct prs_staged_contact *prs_staged_contact(struct prs_staged_endpoint *self, uint32_t rank);
/* Connects the inside, unless it is. */
enum perseus_status prs_staged_meet(struct prs_staged_endpoint *self,
                                    struct prs_staged_contact *contact, const void *address,
                                    size_t bytes);
/* Everything toward it ends as PEER_LOST, which its caller has said why. */
void prs_staged_lose(struct prs_staged_endpoint *self, struct prs_staged_contact *contact);
/* What it has written here cannot be: it is lost, and told so. */
void prs_staged_refuse(struct prs_staged_endpoint *self, struct prs_staged_contact *contact,
                       const char *what);

/* post.c */
enum perseus_status prs_staged_post(struct prs_endpoint *endpoint, const struct prs_op *op);
/* It was queued or sent, and will be told by poll. */
void prs_staged_end(struct prs_staged_endpoint *self, struct prs_staged_op *op,
                    enum perseus_status status);

/* out.c */
/* A slot with room for `payload`, its head filled in but for what is the kind's own. NULL: there is
 * no room now. */
struct prs_staged_slot *prs_staged_reserve(struct prs_staged_endpoint *self,
                                           struct prs_staged_contact *contact,
                                           enum prs_staged_way way, enum prs_staged_kind kind,
                                           uint64_t payload);
/* The slot just reserved is whole once the copies that the outgoing lane has so far are done. */
void prs_staged_commit(struct prs_staged_endpoint *self, struct prs_staged_contact *contact,
                       enum prs_staged_way way);
/* Queued operations into the ring. */
void prs_staged_pump(struct prs_staged_endpoint *self, struct prs_staged_contact *contact);

/* send.c */
/* What is ready to the inside: slots, then the count of them; and how far the peer's are copied. */
void prs_staged_send(struct prs_staged_endpoint *self, struct prs_staged_contact *contact,
                     uint64_t now_ns);
/* How far the peer is; ends what it is done with. */
void prs_staged_hear(struct prs_staged_endpoint *self, struct prs_staged_contact *contact,
                     uint64_t now_ns);
/* An operation of the inside has ended. */
void prs_staged_sent(struct prs_staged_endpoint *self, const struct prs_event *event);

/* in.c, with the lock held: takes what has arrived. */
void prs_staged_take(struct prs_staged_endpoint *self, struct prs_staged_contact *contact,
                     enum prs_staged_way way);

/* poll.c */
enum perseus_status prs_staged_poll(struct prs_endpoint *endpoint, struct prs_event *events,
                                    uint32_t n, uint32_t *out_n);

/* ---- marks ---- */

static inline bool prs_staged_marks_full(const struct prs_staged_marks *marks)
{
    return marks->count == PRS_STAGED_MARKS;
}

/* There is room. Neighbours that one event covers become one. */
static inline void prs_staged_mark(struct prs_staged_marks *marks, struct prs_staged_mark mark)
{
    uint32_t end = marks->first + marks->count;
    struct prs_staged_mark *last = &marks->marks[(end - 1) % PRS_STAGED_MARKS];
    if (marks->count > 0 && last->contact == mark.contact && last->way == mark.way &&
        last->batch == mark.batch && !last->has_immediate) {
        *last = mark;
        return;
    }
    marks->marks[end % PRS_STAGED_MARKS] = mark;
    marks->count++;
}

/* The oldest, if `done` batches cover it; else NULL. */
static inline const struct prs_staged_mark *prs_staged_passed(const struct prs_staged_marks *marks,
                                                              uint64_t done)
{
    const struct prs_staged_mark *oldest = &marks->marks[marks->first];
    return marks->count > 0 && oldest->batch <= done ? oldest : NULL;
}

static inline void prs_staged_pass(struct prs_staged_marks *marks)
{
    marks->first = (marks->first + 1) % PRS_STAGED_MARKS;
    marks->count--;
}

#endif
