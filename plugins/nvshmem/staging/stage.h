/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stage.h: memory that the fabric does not reach itself, by way of host memory: the GPU's, through
 * page-locked rings; and system memory where the fabric's CPUs copy every message anyway, so that
 * many puts and signals share one.
 *
 * Toward every PE there are two rings, mirrored: what is written at a position of the own outgoing
 * ring is put to the same position of the peer's incoming ring, and the peer's agent (its progress,
 * no thread) takes slots from there in order: copies payload into the GPU, applies atomics, answers
 * gets.
 *
 *   memory -copy-> outgoing ring -put, then tail word-> incoming ring -copy-> memory
 *
 * All three steps of different slots overlap: copies are asynchronous on one stream per direction,
 * and a put takes whatever slots are ready. Each ring is FIFO and incoming copies run on one
 * stream, so a signal is never seen before the data put before it, and no fence is needed. Requests
 * and replies (of gets and fetches) have rings of their own: replies never wait for requests, so
 * two PEs that ask each other for much do not block each other.
 *
 * A large put between system memories would be copied twice more than needed. It passes the rings
 * by (stage_bulk.c): the fabric carries it to its destination, before its slot. It may not overtake
 * what stands before the last fence, or, where the host keeps fences to itself, anything in front
 * of it: so it leaves when the receiver is done with the slots of that which hold anything.
 *
 * Words: the receiver publishes how far it has taken ("done": room, and completion for quiet), one
 * message at a time. Memory: 5/2 of PERSEUS_STAGE_BYTES for each PE.
 *
 * Everything here is called with the proxy route's lock held.
 */
#ifndef PRS_NVSHMEM_STAGE_H
#define PRS_NVSHMEM_STAGE_H

#include "host/amo.h"
#include "staging/cuda.h"
#include "route/piece.h"
#include "staging/stage_ring.h"

enum prs_staging_way { PRS_STAGE_REQUEST, PRS_STAGE_REPLY, PRS_STAGE_WAYS };

/* What peers write here, one set per peer; each word alone in its cache line. */
struct prs_staging_words {
    struct {
        _Atomic uint64_t tail; /* of the peer's outgoing ring: slots below have arrived */
        uint64_t apart[7];
        _Atomic uint64_t done; /* of the own outgoing ring: the peer has finished slots below */
        uint64_t apart_too[7];
    } way[PRS_STAGE_WAYS];
    uint64_t knock[8]; /* written to see whether a silent peer is still there; nobody reads it */
};

struct prs_staging_out {
    unsigned char *ring;
    uint64_t tail, ready, posted; /* reserved, copied, given to the fabric */
    struct prs_marks marks;       /* of the outgoing lane */
};

#define PRS_STAGING_BULKS 32

/* A put that takes the place of its slot. */
struct prs_staging_bulk {
    uint64_t position; /* of the slot */
    uint64_t after;    /* the receiver must be done with slots below */
    struct prs_request put;
};

struct prs_staging_bulks {
    struct prs_staging_bulk waiting[PRS_STAGING_BULKS];
    uint32_t first, count;
    uint64_t newest; /* end of the newest slot that holds something */
    uint64_t after;  /* the same at the last fence, or all the time where fences are not told */
    uint32_t direct; /* puts that went without a slot since the last quiet */
    bool open;       /* a bulk or direct put was posted since the last fence */
};

struct prs_staging_in {
    unsigned char *ring;
    uint64_t head, done, told; /* taken, finished, published */
    struct prs_marks marks;    /* of the incoming lane */
    bool telling;              /* a `done` message is on its way */
};

struct prs_staging_peer {
    struct prs_window_remote *arena;
    bool lost;
    struct prs_staging_out out[PRS_STAGE_WAYS];
    struct prs_staging_in in[PRS_STAGE_WAYS];
    struct prs_staging_bulks bulks;
    uint64_t asked, answered; /* gets and fetches, and the replies to them that were taken */
};

/* A read-modify-write of device memory: the word comes to the host, changes, goes back. One at a
 * time, and no other AMO meanwhile, so that all of them are one after another. */
struct prs_staging_rmw {
    bool busy;
    struct prs_staging_in *in; /* whose head it is */
    uint64_t ticket;           /* of the read */
    uint64_t *scratch;         /* pinned: what was read, what is written */
};

struct prs_staging_config {
    struct prs_route *route; /* the proxy's, started; staging hooks itself in */
    const struct prs_memory *memory;
    struct prs_cuda *cuda; /* NULL: no device memory */
    const struct prs_log *log;
    uint64_t ring_bytes;   /* toward each PE */
    uint64_t op_bytes_max; /* of one request to the route */
    bool fences;           /* prs_staging_fence tells where the program put its fences */
};

struct prs_staging {
    struct prs_route *route;
    const struct prs_memory *memory;
    struct prs_cuda *cuda;
    const struct prs_log *log;
    int self, n_pes;
    uint64_t op_bytes_max;
    bool fences;
    const unsigned char *directory; /* see prs_staging_set_directory */
    size_t directory_stride;
    uint64_t ring_bytes[PRS_STAGE_WAYS];
    unsigned char *arena;
    size_t arena_bytes;
    bool pinned;
    struct prs_window *window;
    struct prs_cuda_lane out, in;
    struct prs_staging_peer *peers; /* by PE */
    struct prs_staging_rmw rmw;
    uint64_t moves; /* slots taken and messages sent so far, for deadlines */
    bool knocking;  /* a knock is on its way */
    uint64_t knocks;
};

/* Before PEs introduce themselves. What config points to outlives the staging. */
enum perseus_status prs_staging_create(const struct prs_staging_config *config,
                                       struct prs_staging **out);
/* The window blob of every PE's rings at blobs + PE * stride, its length before it as u32. Not
 * copied; PEs are imported at first use. */
void prs_staging_set_directory(struct prs_staging *stage, const unsigned char *blobs,
                               size_t stride);
void prs_staging_destroy(struct prs_staging *stage); /* NULL allowed */
/* Page-locks the rings; when the first device memory is registered, since it may wait for
 * kernels. */
enum perseus_status prs_staging_pin(struct prs_staging *stage);

/* Work toward `pe`. Blocking for room only. Addresses in the peer are checked by the peer. */
enum perseus_status prs_staging_put(struct prs_staging *stage, int pe, uint64_t address,
                                    const void *local, size_t bytes);
enum perseus_status prs_staging_put_value(struct prs_staging *stage, int pe, uint64_t address,
                                          uint64_t value, uint32_t bytes);
enum perseus_status prs_staging_get(struct prs_staging *stage, int pe, uint64_t address,
                                    void *local, size_t bytes);
enum perseus_status prs_staging_amo(struct prs_staging *stage, int pe, uint64_t address,
                                    const struct prs_amo *amo, void *result);
/* What is put to `pe` from now on is not seen before what was asked of it so far. */
void prs_staging_fence(struct prs_staging *stage, int pe);
/* All that was asked of `pe` is finished there, and its answers are here. */
enum perseus_status prs_staging_quiet(struct prs_staging *stage, int pe);

/* Work on this PE's own memory, finished on return. */
enum perseus_status prs_staging_copy_here(struct prs_staging *stage, void *target,
                                          const void *source, size_t bytes);
/* One of the above for host memory: words are written whole. */
void prs_staging_store(void *target, const void *source, size_t bytes);
bool prs_staging_is_device(const struct prs_staging *stage, const void *pointer);
/* stage->rmw.scratch holds the old value, too. */
enum perseus_status prs_staging_amo_here(struct prs_staging *stage, const struct prs_amo *amo,
                                         void *word, uint64_t *out_old);

/* A dead peer never tells `done`, and where nothing is sent to it nobody notices: so who waits for
 * it long knocks. `idle`: rounds without any work. */
void prs_staging_knock(struct prs_staging *stage, int pe, uint32_t idle);

/* stage_in.c: takes what has arrived from one peer. */
enum perseus_status prs_staging_take(struct prs_staging *stage, int pe, enum prs_staging_way way,
                                     bool *did);
/* stage_out.c */
/* How far `pe` is with what it was sent. */
uint64_t prs_staging_peer_done(const struct prs_staging *stage, int pe, enum prs_staging_way way);
/* Reserves a request, waiting for room, also for a bulk put. */
enum perseus_status prs_staging_request(struct prs_staging *stage, int pe, uint64_t payload_bytes,
                                        struct prs_slot **out);
/* Into a slot: at once, or (`device`) as a copy of the outgoing lane. */
enum perseus_status prs_staging_load(struct prs_staging *stage, void *slot, const void *source,
                                     size_t bytes, bool device);
/* A slot of `way` toward `pe` with room for `payload_bytes`; NULL when there is no room now. */
struct prs_slot *prs_staging_reserve(struct prs_staging *stage, int pe, enum prs_staging_way way,
                                     uint64_t payload_bytes);
/* The slot just reserved is complete once the newest copy of the outgoing lane is (`copied`), or
 * now. */
void prs_staging_commit(struct prs_staging *stage, int pe, enum prs_staging_way way, bool copied);
enum perseus_status prs_staging_send(struct prs_staging *stage, int pe, enum prs_staging_way way,
                                     bool *did);
/* stage_bulk.c */
enum prs_staging_path {
    PRS_STAGING_RING,
    PRS_STAGING_BULK, /* prs_staging_put_bulk */
    /* As a request of the route; then prs_staging_went_direct, and quiet asks the route, too. */
    PRS_STAGING_DIRECT
};
/* How to send a put of the proxy's thread; takes account of it. */
enum prs_staging_path prs_staging_path(struct prs_staging *stage, int pe,
                                       const struct prs_piece *piece);
void prs_staging_went_direct(struct prs_staging *stage, int pe);
enum perseus_status prs_staging_put_bulk(struct prs_staging *stage, int pe,
                                         const struct prs_piece *piece);
/* The one whose slot comes first; NULL: none. */
const struct prs_staging_bulk *prs_staging_next_bulk(const struct prs_staging *stage, int pe);
/* All slots before its own have been posted. AGAIN: it has to wait. */
enum perseus_status prs_staging_send_bulk(struct prs_staging *stage, int pe);
/* What is posted next is seen after the bulk puts posted so far. */
enum perseus_status prs_staging_fence_bulk(struct prs_staging *stage, int pe);
/* stage.c: where things lie. */
const struct prs_staging_words *prs_staging_words_from(const struct prs_staging *stage, int pe);
uint64_t prs_staging_in_offset(const struct prs_staging *stage, int pe, enum prs_staging_way way);
uint64_t prs_staging_tail_offset(int pe, enum prs_staging_way way);

#endif
