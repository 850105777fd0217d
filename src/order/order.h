/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order/order.h: the ordering engine on one endpoint. It turns requests (puts, signals, atomics,
 * fences) into fabric operations so that the order Perseus promises holds under the chosen mode. No
 * thread, no wall clock; the caller drives it from one thread at a time. Callers: the proxy, the
 * NVSHMEM plugin, a simulator.
 *
 * Vocabulary
 *   epoch    per peer; a fence ends it. An operation of epoch e, that must be `after` epoch a <= e,
 *            may take effect once every operation of epochs below a has completed. Plain puts are
 *            after the last fence; the signal of a put_signal ends the epoch of its put
 *   parked   an operation that may not be posted yet, or that the fabric refused for now, in its
 *            peer's bounded queue
 *   record   a message into the target's mailbox, which the target's own orderer applies in order:
 *            signals of `counted`, signals on fabrics that tear words, and atomics where the fabric
 *            has none that are coherent with the CPU's. It completes with the target's answer
 *   riding   a signal that needs no message of its own: the immediate of its put carries it
 *   failed   a peer toward which something went wrong: a lost connection, an operation refused, an
 *            answer that did not come in time. What waits for it ends with an error, nothing more
 *            is sent there, and every later call toward it says so. Other peers go on
 *
 * Cost: a fence is O(1), one for all peers too (peers notice when next used). A step does bounded
 * work, whatever the number of PEs. Per-peer state is allocated on first use. Memory:
 * docs/ordering.md has the table.
 */
#ifndef PRS_ORDER_ORDER_H
#define PRS_ORDER_ORDER_H

#include "fabric/fabric.h"

#define PRS_ORDER_ALL_PEERS     UINT32_MAX
#define PRS_ORDER_NO_TOKEN      UINT32_MAX
#define PRS_ORDERER_ADDRESS_MAX (PRS_ADDRESS_MAX + PRS_BLOB_MAX + 16)
#define PRS_WINDOW_BLOB_MAX     (PRS_BLOB_MAX + 16)
#define PRS_WINDOWS_MAX         4096
#define PRS_REQUEST_INLINE_MAX  256
#define PRS_SECRET_BYTES        16

struct prs_orderer;
struct prs_window;        /* local memory that peers may target */
struct prs_window_remote; /* a peer's window, imported */

enum prs_request_kind {
    PRS_REQUEST_PUT,
    PRS_REQUEST_GET,
    PRS_REQUEST_PUT_SIGNAL,
    PRS_REQUEST_SIGNAL,        /* op: enum perseus_signal_op */
    PRS_REQUEST_SIGNAL_VECTOR, /* SET `values`, bytes/8 of them, at most prs_orderer_vector_max */
    PRS_REQUEST_ATOMIC,        /* op: enum perseus_atomic */
    PRS_REQUEST_ATOMIC_FETCH   /* old value through the completion's result */
};

/* Consumed by submit; `values` and inline sources are copied before it returns. */
struct prs_request {
    uint8_t kind; /* enum prs_request_kind */
    uint8_t op;
    uint8_t word_bytes; /* ATOMIC*: 0 or 8, or 2 or 4, which the target's CPU always applies */
    uint32_t peer;      /* rank in the job */
    uint32_t token;     /* completion is reported for it, or PRS_ORDER_NO_TOKEN */
    struct prs_region *local;
    uint64_t local_offset;
    const void *inline_source; /* PUT of at most PRS_REQUEST_INLINE_MAX bytes that is not in a
                                  region; NULL: (local, local_offset) */
    struct prs_window_remote *remote;
    uint64_t remote_offset; /* of the data, or of the word of SIGNAL*, ATOMIC* */
    uint64_t bytes;
    struct prs_window_remote *signal_remote; /* PUT_SIGNAL */
    uint64_t signal_offset;
    uint64_t value, compare;
    const uint64_t *values;
};

/* How the target applies a signal or atomic to a word of `bytes` of its own memory; returns the old
 * value. NULL in the config: C11 sequentially consistent atomics on host memory. Called from
 * prs_orderer_progress. */
typedef uint64_t (*prs_apply_fn)(void *context, struct prs_window *window, uint64_t offset,
                                 enum perseus_atomic op, uint64_t operand, uint64_t compare,
                                 uint32_t bytes);

/* token completed; called from submit, quiet or progress of the same orderer; must not call back
 * into it. */
typedef void (*prs_complete_fn)(void *context, uint32_t token, enum perseus_status status,
                                uint64_t result);

/* How much may be open at once; 0: the default. More than fits is AGAIN, never an error. */
struct prs_order_pools {
    uint32_t operations; /* 4096; from 2 on, below 32768 */
    uint32_t tokens;     /* 1024: operations that somebody waits for */
    uint32_t quiets;     /* 64 */
    uint32_t stages;     /* 256: inline sources, vectors and native fetches, 1 KiB each */
    uint32_t replies;    /* 254, the most: fetches */
};

struct prs_orderer_config {
    /* Owned by the orderer once create returned OK: destroy closes it before it frees the memory
     * that operations in flight may still read. */
    struct prs_endpoint *endpoint;
    enum perseus_ordering ordering; /* resolved, not AUTO */
    uint32_t self, n_peers;         /* own rank, job size */
    uint32_t lanes;                 /* to each peer; 0: as many as are useful to the fabric */
    uint32_t parked_max;            /* per peer, from 2 on; 0: 64 */
    /* Where transfers are spread over lanes, a larger one goes in pieces of at least this; 0: 32
     * KiB. A power of two. */
    uint32_t piece_bytes;
    struct prs_order_pools pools;
    /* The job's secret, known to its PEs only: immediates of strangers are told by it. NULL: zeros,
     * which keep nobody out. Copied. */
    const unsigned char *secret; /* PRS_SECRET_BYTES */
    /* A peer that owes something and has not moved for so long is given up. 0: never. */
    uint64_t timeout_ns;
    bool immediate_signal; /* counted: single-payload signals ride in the put's immediate */
    bool native_atomics;   /* use the fabric's even if not CPU-coherent */
    bool torn_signals;     /* write signals directly also where they tear or repeat */
    prs_complete_fn complete;
    prs_apply_fn apply;
    void *context; /* of both callbacks */
    const struct prs_log *log;
    struct prs_clock clock;
};

/* ---- modes ---- */

/* Can `mode` keep Perseus's promises on a fabric with these caps? NOT_SUPPORTED fills `why` with
 * the reason, OK with what the mode stands on (both without a final period). */
enum perseus_status prs_ordering_check(enum perseus_ordering mode, const struct prs_caps *caps,
                                       char *why, size_t why_bytes);
/* AUTO: the one that costs least of those that check, and why; others are checked. A failed check
 * is logged with what to do. */
enum perseus_status prs_ordering_resolve(enum perseus_ordering asked, const struct prs_caps *caps,
                                         const struct prs_log *log, enum perseus_ordering *out,
                                         char *why, size_t why_bytes);

/* ---- life ---- */

enum perseus_status prs_orderer_create(const struct prs_orderer_config *config,
                                       struct prs_orderer **out);
/* Outstanding tokens complete as CANCELED first; closes the endpoint. Windows and remotes of this
 * orderer must be closed before. NULL allowed. */
void prs_orderer_destroy(struct prs_orderer *orderer);

/* Own address blob, to be handed to every peer. *bytes: capacity in, length out. */
enum perseus_status prs_orderer_address(struct prs_orderer *orderer, void *out, size_t *bytes);
/* Every rank's address blob at addresses + rank * stride (length first, as u32). Not copied: the
 * caller keeps it for the orderer's life. Peers are connected on first use. */
void prs_orderer_set_directory(struct prs_orderer *orderer, const unsigned char *addresses,
                               size_t stride);

/* Registers memory as a window. Not concurrently with progress of this orderer. */
enum perseus_status prs_window_create(struct prs_orderer *orderer, void *base, size_t bytes,
                                      enum prs_memory_kind kind, struct prs_window **out);
void prs_window_destroy(struct prs_window *window); /* NULL allowed */
struct prs_region *prs_window_region(const struct prs_window *window);
void *prs_window_base(const struct prs_window *window);
enum perseus_status prs_window_export(const struct prs_window *window, void *blob, size_t *bytes);
/* Connects the peer if need be. */
enum perseus_status prs_window_import(struct prs_orderer *orderer, uint32_t peer, const void *blob,
                                      size_t bytes, struct prs_window_remote **out);
void prs_window_remote_close(struct prs_window_remote *remote); /* NULL allowed */

/* ---- work ---- */

/* AGAIN: nothing happened, submit it again after progress. Any other error fails the peer: nothing
 * of the request happened, nothing that must come after it will, and every later call toward that
 * peer returns an error: PEER_LOST, or what the refused request returned. */
enum perseus_status prs_orderer_submit(struct prs_orderer *orderer,
                                       const struct prs_request *request);
/* A request to `peer` was refused before it got here: fails the peer, as submit does. A rank that
 * no PE has, or ALL_PEERS where it is not known: every later quiet of all peers returns `why`. */
void prs_orderer_refuse(struct prs_orderer *orderer, uint32_t peer, enum perseus_status why);
/* What was submitted to `peer` (or all) before is delivered before what is submitted after. O(1).
 * OK toward a failed peer: what is submitted behind it says so. */
enum perseus_status prs_orderer_fence(struct prs_orderer *orderer, uint32_t peer);
/* `token` completes when everything submitted before to `peer` (or all) is complete. Its status is
 * the error of the peer, or of the first of all that failed: it stays, since nobody else knows
 * which threads have been told. AGAIN when too many quiets are open. */
enum perseus_status prs_orderer_quiet(struct prs_orderer *orderer, uint32_t peer, uint32_t token);
/* Rings doorbells of what was posted; call once per batch. */
enum perseus_status prs_orderer_flush(struct prs_orderer *orderer);
/* Polls once, retires, posts what became ready. Bounded by `budget` events. *out_did: whether
 * anything moved. */
enum perseus_status prs_orderer_progress(struct prs_orderer *orderer, uint32_t budget,
                                         bool *out_did);

/* Sleeping between calls of progress: fabric.h, wait_fd and arm. wait_fd: -1 where the fabric wakes
 * nobody; then arm must not be called. */
int prs_orderer_wait_fd(const struct prs_orderer *orderer);
/* Whether the bytes of puts come without waking: who waits for them must look. */
bool prs_orderer_bytes_are_silent(const struct prs_orderer *orderer);
enum perseus_status prs_orderer_arm(struct prs_orderer *orderer, uint64_t *out_limit_ns);

uint32_t prs_orderer_vector_max(const struct prs_orderer *orderer);
enum perseus_ordering prs_orderer_mode(const struct prs_orderer *orderer);
/* Nothing in flight, parked or draining. */
bool prs_orderer_is_idle(const struct prs_orderer *orderer);
/* Rank, or PRS_ORDER_ALL_PEERS for sums. May be called from any thread: counters are relaxed
 * atomics. */
void prs_orderer_stats(const struct prs_orderer *orderer, uint32_t peer, struct perseus_stats *out);

#endif
