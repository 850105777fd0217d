/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order/engine.h: the ordering engine's insides, shared by the files of this folder and by tests
 * that bring modes of their own (mutants).
 *
 *     submit.c      a request becomes operations, which are posted or parked
 *     operation.c   ... how each is made
 *     pieces.c      ... and how a large transfer becomes several
 *     post.c        an operation passes its mode's gate into the fabric
 *     park.c        operations that must wait, and their waking
 *     prove.c       deliveries that are not asked for one by one
 *     progress.c    poll; what completed, what arrived
 *     fence.c       fences, drains, quiets
 *     modes/        a file for each mode; mode.c is their registry and says what each needs
 *     mail_out.c    records: sending, and their answers
 *     mail_in.c     ... receiving, and answering
 *     apply.c       ... what they do to this PE's words
 *     peer.c        a peer and its connection
 *     fail.c        ... its failure, and the deadline
 *     window.c      memory that peers may target
 *     orderer.c     life, address, counters
 *
 * and what they stand on: epochs.[ch] pool.[ch] record.[ch] immediate.[ch].
 */
#ifndef PRS_ORDER_ENGINE_H
#define PRS_ORDER_ENGINE_H

#include "order/mail.h"

#define PRS_PARKED_DEFAULT    64
#define PRS_PIECE_DEFAULT     (32u << 10) /* microseconds of a fast link: worth an operation more */
#define PRS_VECTOR_VALUES_MAX (PRS_STAGE_BYTES / 8)
/* Cookies of what is no open operation: | the peer's rank. */
#define PRS_COOKIE_ANSWER (UINT64_C(1) << 32)
#define PRS_COOKIE_FLUSH  (UINT64_C(2) << 32)

/* ---- modes ---- */

enum prs_gate {
    PRS_GATE_GO,
    PRS_GATE_WAIT /* park: progress of this peer opens it */
};

struct prs_mode {
    enum perseus_ordering ordering;
    /* Signals go as records and puts are counted. */
    bool counted;
    /* A put may carry its signal, where signals are records. */
    bool rides;
    /* The lane keeps puts in order: the delivery of one proves those posted before it. */
    bool ordered;
    /* Whatever must come after something waits for it, at the target or here, so a peer's transfers
     * may take any lane. In the other modes its one lane orders them. */
    bool stripes;
    /* Fences hold the whole channel until done: drain (every peer) and drain-peer (one). */
    bool stalls, stalls_all;
    /* May `pending` be posted now? Adds fabric flags to *out_flags. */
    enum prs_gate (*gate)(struct prs_orderer *orderer, struct prs_order_peer *peer,
                          const struct prs_pending *pending, uint8_t *out_flags);
    /* It was posted with `flags` (the fabric said OK). NULL: nothing to remember. */
    void (*posted)(struct prs_orderer *orderer, struct prs_order_peer *peer,
                   const struct prs_pending *pending, uint8_t flags);
    /* Target side: may the next record of this sender be applied? */
    bool (*may_apply)(const struct prs_mail_in *in, const struct prs_record *record);
};

extern const struct prs_mode prs_mode_drain, prs_mode_drain_peer, prs_mode_deferred,
    prs_mode_nic_fence, prs_mode_fifo, prs_mode_counted;

/* NULL: unknown, or AUTO. */
const struct prs_mode *prs_mode_get(enum perseus_ordering ordering);

/* What `pending` must be after is known to be delivered, whatever the mode. */
bool prs_order_proven(const struct prs_orderer *orderer, const struct prs_order_peer *peer,
                      const struct prs_pending *pending);
/* It must be after a record that is not answered yet, and is none itself. */
bool prs_order_behind_records(struct prs_orderer *orderer, const struct prs_order_peer *peer,
                              const struct prs_pending *pending);
/* As many counted puts of the record's epoch have arrived as it says. */
bool prs_mail_epoch_complete(const struct prs_mail_in *in, const struct prs_record *record);

/* ---- the engine ---- */

struct prs_stall {
    bool active;
    struct prs_order_peer *peer; /* NULL: every peer */
    uint64_t after;
    bool again; /* another fence came meanwhile */
    struct prs_order_peer *again_peer;
    uint64_t since_ns;
};

struct prs_quiet {
    uint32_t token;
    uint64_t after;
    struct prs_order_peer *peer; /* NULL: every peer */
};

struct prs_window {
    struct prs_orderer *orderer;
    struct prs_region *region;
    uint32_t id;
};

struct prs_window_remote {
    struct prs_remote *remote;
    uint32_t window; /* id at the target */
};

struct prs_orderer {
    struct prs_orderer_config config;
    const struct prs_mode *mode;
    struct prs_caps caps;
    const struct prs_fabric_ops *ops;
    uint32_t lanes;      /* in use, to each peer */
    uint32_t pieces_max; /* of a transfer */
    const unsigned char *directory;
    size_t directory_stride;
    unsigned char secret[PRS_SECRET_BYTES];
    struct prs_order_peer *_Atomic
        *peers;                   /* by rank; written by the driving thread, read by stats */
    struct prs_mail_in **mail_in; /* by rank */
    struct prs_mail_list mail_work;
    struct prs_peer_list ready, watched, unproven;
    struct prs_window **windows; /* by id */
    uint32_t windows_count, windows_room;
    bool has_mailbox;
    bool signals_are_records; /* counted, or a fabric on which a written word may be seen half */
    bool signals_ride;
    uint32_t atomics_native, atomics_fetch_native; /* usable: bit per enum perseus_atomic */
    struct prs_immediate_layout immediate;
    struct prs_control_layout layout;
    unsigned char *control;
    struct prs_region *control_region;
    struct prs_epochs epochs; /* of the endpoint, for quiet */
    uint64_t fences_all;
    struct prs_stall stall;
    struct prs_quiet *quiets;
    uint32_t quiets_count;
    enum perseus_status status; /* of the first peer that failed; quiets of all peers tell it */
    struct prs_pools pools;
    uint64_t now_ns, looked_ns;   /* of the watch: its own time, and the clock's at the last look */
    uint64_t strangers;           /* immediates refused so far */
    bool submitted;               /* something, since the last step */
    struct prs_counters counters; /* what belongs to no single peer */
};

/* As prs_orderer_create, with a mode from outside the registry (tests). */
enum perseus_status prs_orderer_create_with_mode(const struct prs_orderer_config *config,
                                                 const struct prs_mode *mode,
                                                 struct prs_orderer **out);

/* ---- operation.c: AGAIN when a pool is empty; on any error nothing is taken ---- */

/* One signal or atomic, whatever request it came from. */
struct prs_word {
    struct prs_window_remote *remote;
    uint64_t offset;
    enum perseus_atomic op;
    uint64_t value, compare;
    uint64_t bytes;
    bool fetch;
};

enum perseus_status prs_operation_word(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                       const struct prs_word *word, uint32_t token,
                                       struct prs_pending **out);
enum perseus_status prs_operation_vector(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                         const struct prs_request *request, uint32_t token,
                                         struct prs_pending **out);
enum perseus_status prs_operation_transfer(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                           const struct prs_request *request, uint32_t token,
                                           struct prs_pending **out);
/* Adds a signal that must be after `after` to the one parked last toward its peer, if they make one
 * vector: token-less, no fence between them, the next word. */
bool prs_operation_join(struct prs_orderer *orderer, struct prs_order_peer *peer,
                        const struct prs_word *word, uint64_t after);
/* Whether the put_signal's signal may ride, and then its one operation. */
bool prs_operation_rides(const struct prs_orderer *orderer, const struct prs_order_peer *peer,
                         const struct prs_request *request);
enum perseus_status prs_operation_riding(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                         const struct prs_request *request, uint32_t token,
                                         struct prs_pending **out);

/* ---- pieces.c ---- */

/* Whether a transfer is one operation, as most are. */
static inline bool prs_pieces_is_one(const struct prs_orderer *orderer,
                                     const struct prs_request *request)
{
    return orderer->pieces_max < 2 || request->bytes <= orderer->config.piece_bytes ||
           request->inline_source != NULL;
}
/* How many operations a transfer becomes. */
uint32_t prs_pieces_of(const struct prs_orderer *orderer, const struct prs_request *request);
/* All of them or none: a chain through prs_pending.next. */
enum perseus_status prs_pieces_take(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                    const struct prs_request *request, uint32_t token,
                                    struct prs_pending **out_first);
/* Those of the chain from here on, which never left. */
void prs_pieces_give_back(struct prs_orderer *orderer, struct prs_pending *first);

/* ---- post.c ---- */

/* Gate, then post. OK: posted. AGAIN: nothing happened. *out_wait, with AGAIN: its gate is closed
 * or its mailbox full, and something of this peer will open it. Any other error: the peer
 * failed. */
enum perseus_status prs_order_try(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                  struct prs_pending *pending, bool *out_wait);

/* ---- fence.c ---- */

/* Resolves fences that this peer has not noticed yet. */
void prs_order_catch_up(struct prs_orderer *orderer, struct prs_order_peer *peer);
/* Starts a stall in the modes that have them, unless there is nothing to wait for. */
void prs_order_stall_begin(struct prs_orderer *orderer, struct prs_order_peer *peer);
bool prs_order_stall_update(struct prs_orderer *orderer);
bool prs_order_quiets_update(struct prs_orderer *orderer);

#endif
