/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cudadma.h: the copy engines of GPUs as the NIC between PEs of one process: virtual PEs of one
 * GPU, or of several GPUs of one host.
 *
 *   fabric.c    open, close, regions, the ops table
 *   caps.c      what is granted, by provider
 *   endpoint.c  endpoints, and which GPU their peers' memory lies in
 *   post.c      post and flush: takes an operation and gives it its place
 *   place.c     the place of an operation: which copies may share a batch
 *   lane.c      a stream: batches are submitted in order, an event ends each volley of them
 *   poll.c      completions and target events
 *
 * How order is real here. A lane is a stream. Operations wait in *levels* until the doorbell
 * (flush, or a post without MORE) submits each level as one batch of copies, which the copy engines
 * carry out in any order; the stream puts a level behind the one before it. An operation goes into
 * the first level that what was granted allows: behind a fence flag, one level further than all
 * that its peer's lane has; in provider "stream", also behind each earlier put and signal. So a
 * fence costs a level and nobody waits, and the levels of all peers are shared. A signal is a copy
 * of eight bytes out of pinned memory, and neighbouring signals of one level become one copy.
 *
 * The doorbell does not ring for every few operations: with PRS_CUDADMA_VOLLEYS volleys under way,
 * what comes waits for one of them to end and goes as one. A volley costs the driver and the engine
 * some ten microseconds, whatever is in it, and a proxy would ring for each descriptor it finds.
 *
 * A copy engine's write is whole in every aligned word, and stream order is the order in which
 * copies become visible in the memory they go to, also to kernels that poll it: an acquire load at
 * system scope that sees the word of a later copy sees the bytes of an earlier one.
 *
 * Threads share a port only (../inprocess/port.h). The engine works on while a peer closes a
 * region, so the owner of a region waits for the streams of its visitors before it lets the memory
 * go.
 */
#ifndef PRS_FABRIC_CUDADMA_CUDADMA_H
#define PRS_FABRIC_CUDADMA_CUDADMA_H

#include <pthread.h>

#include "cuda/device.h"
#include "fabric/inprocess/inprocess.h"

#define PRS_CUDADMA_LANES        4
#define PRS_CUDADMA_LEVELS       64   /* of a lane, not submitted yet */
#define PRS_CUDADMA_VOLLEYS      2    /* of a lane, submitted and not ended */
#define PRS_CUDADMA_INFLIGHT     512  /* operations of an endpoint */
#define PRS_CUDADMA_WORDS        1024 /* of a lane: more than it has signals in flight */
#define PRS_CUDADMA_INLINE_BYTES 128

extern const struct prs_fabric_ops prs_cudadma_ops;

/* What a lane remembers of a peer, as numbers of levels: "from here on". */
struct prs_cudadma_order {
    uint64_t floor;     /* everything is behind the last fence flag */
    uint64_t after_put; /* behind all puts */
    uint64_t after_set; /* behind all signals */
    uint64_t after_all;
};

/* The level of an operation, not below `next`, the first one that is not submitted yet. */
typedef uint64_t (*prs_cudadma_place_fn)(uint32_t order, struct prs_cudadma_order *state,
                                         const struct prs_op *op, uint64_t next);
uint64_t prs_cudadma_place(uint32_t order, struct prs_cudadma_order *state, const struct prs_op *op,
                           uint64_t next);

struct prs_cudadma_fabric {
    struct prs_inprocess_fabric common;
    struct prs_gpu *cuda;
    struct prs_gpu_device device;
    prs_cudadma_place_fn place;
};

struct prs_cudadma_region {
    struct prs_inprocess_region common;
    bool is_pinned; /* by us */
};

/* Points into no object that may go before it: not to its remote, and to local memory only, which
 * the caller keeps. */
struct prs_cudadma_op {
    struct prs_op op;
    struct prs_cudadma_op *next;
    struct prs_port_slot slot;
    unsigned char *local;  /* PUT: source; GET: destination */
    unsigned char *copied; /* pinned, for INLINE */
    enum perseus_status status;
};

struct prs_cudadma_list {
    struct prs_cudadma_op *first, *last;
};

/* Levels submitted at one ring of the doorbell. */
struct prs_cudadma_volley {
    void *event;
    struct prs_cudadma_list ops;
};

struct prs_cudadma_lane {
    void *stream;
    bool is_rung;
    uint64_t next, end; /* levels [next, end) hold operations that are not submitted yet */
    struct prs_cudadma_list levels[PRS_CUDADMA_LEVELS];
    uint64_t volleys_done, volleys_sent;
    struct prs_cudadma_volley volleys[PRS_CUDADMA_VOLLEYS];
    uint64_t *words; /* pinned; signals on their way, used in turn */
    uint64_t words_used;
};

struct prs_cudadma_peer {
    struct prs_inprocess_peer common;
    struct prs_port_visitor visitor;
    struct prs_cudadma_order order[PRS_CUDADMA_LANES];
};

struct prs_cudadma_endpoint {
    struct prs_inprocess_endpoint common;
    struct prs_cudadma_fabric *fabric;
    /* Held from the look at a region to the driver's having its copies: see prs_port_settle. */
    pthread_mutex_t submitting;
    struct prs_cudadma_lane lanes[PRS_CUDADMA_LANES];
    struct prs_cudadma_list done; /* to be reported */
    unsigned char *pinned;        /* inline sources, then words of the lanes */
    struct prs_cudadma_op *free;
    struct prs_cudadma_op pool[PRS_CUDADMA_INFLIGHT];
    /* Copies of the level at hand. */
    uintptr_t targets[PRS_CUDADMA_INFLIGHT], sources[PRS_CUDADMA_INFLIGHT];
    size_t sizes[PRS_CUDADMA_INFLIGHT];
};

static inline void prs_cudadma_append(struct prs_cudadma_list *list, struct prs_cudadma_op *op)
{
    op->next = NULL;
    if (list->first == NULL) {
        list->first = op;
    } else {
        list->last->next = op;
    }
    list->last = op;
}

/* caps.c: NOT_FOUND for a provider that does not exist. *out_device: the GPU it names. */
enum perseus_status prs_cudadma_caps(const struct prs_fabric_config *config, struct prs_caps *out,
                                     int *out_device);

/* endpoint.c */
enum perseus_status prs_cudadma_endpoint_open(struct prs_fabric *fabric, struct prs_endpoint **out);
void prs_cudadma_endpoint_close(struct prs_endpoint *endpoint);
enum perseus_status prs_cudadma_connect(struct prs_endpoint *endpoint, const void *address,
                                        size_t bytes, uint32_t *out_peer);
enum perseus_status prs_cudadma_import(struct prs_endpoint *endpoint, uint32_t peer,
                                       const void *blob, size_t bytes, struct prs_remote **out);

/* post.c */
enum perseus_status prs_cudadma_post(struct prs_endpoint *endpoint, const struct prs_op *op);
enum perseus_status prs_cudadma_flush(struct prs_endpoint *endpoint);

/* lane.c */
enum perseus_status prs_cudadma_lane_open(struct prs_cudadma_endpoint *self, uint32_t lane);
/* Waits for its copies. */
void prs_cudadma_lane_close(struct prs_cudadma_endpoint *self, uint32_t lane);
/* Submits what waits, if there is room for one more volley. */
enum perseus_status prs_cudadma_lane_submit(struct prs_cudadma_endpoint *self,
                                            struct prs_cudadma_lane *lane);
/* Moves the operations of finished volleys to `done`. */
enum perseus_status prs_cudadma_lane_reap(struct prs_cudadma_endpoint *self,
                                          struct prs_cudadma_lane *lane);

/* poll.c */
enum perseus_status prs_cudadma_poll(struct prs_endpoint *endpoint, struct prs_event *events,
                                     uint32_t n, uint32_t *out_n);

#endif
