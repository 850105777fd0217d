/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order/engine.h: the ordering engine's insides, shared by the files of this folder and by tests
 * that bring modes of their own (mutants).
 *
 * Main path: submit.c turns a request into items; an item passes its mode's gate and is posted by
 * post.c, or is parked in its peer (peer.c); progress.c polls, closes what completed and pumps what
 * became ready. mailbox.c sends and receives records. One struct prs_pending per open operation
 * carries it from submit to completion.
 */
#ifndef PRS_ORDER_ENGINE_H
#define PRS_ORDER_ENGINE_H

#include <stdatomic.h>

#include "order/epochs.h"
#include "order/immediate.h"
#include "order/order.h"

#define PRS_NONE UINT32_MAX
/* Records open per peer: at most half of PRS_IMMEDIATE_EPOCHS, so that numbers never alias. */
#define PRS_MAIL_SLOTS        64
#define PRS_RECORD_VALUES_MAX 32
#define PRS_STAGE_BYTES       1024
#define PRS_STAGE_SLOTS       256
#define PRS_VECTOR_VALUES_MAX (PRS_STAGE_BYTES / 8)
#define PRS_PENDING_MAX       4096
#define PRS_JOBS_MAX          1024
#define PRS_QUIETS_MAX        64
#define PRS_PARKED_DEFAULT    64

/* ---- records: what a mailbox slot holds ---- */

enum prs_record_kind {
    PRS_RECORD_FLUSH = 1, /* nothing to apply: its acknowledgement is the point */
    PRS_RECORD_ATOMIC,
    PRS_RECORD_FETCH, /* the old value goes back to reply slot `reply` */
    PRS_RECORD_VECTOR
};

struct prs_record {
    uint32_t number; /* from 0, wrapping; also the epoch of the counted puts before it */
    uint32_t puts;   /* counted puts posted between the record before and this one */
    uint32_t window; /* id at the target */
    uint8_t kind, atomic;
    uint16_t count; /* VECTOR: values; ATOMIC, FETCH: bytes of the word */
    uint32_t reply;
    uint32_t reserved;
    uint64_t offset, value, compare;
    uint64_t values[PRS_RECORD_VALUES_MAX];
};
#define PRS_RECORD_HEAD_BYTES offsetof(struct prs_record, values)

/* The control window of a PE: mail of every sender, ack words, reply slots, staging. */
struct prs_control_layout {
    uint64_t mail, acks, replies, staging, bytes;
};

/* ---- items, pendings, jobs ---- */

enum prs_item_form { PRS_ITEM_DIRECT, PRS_ITEM_RECORD };

struct prs_item {
    struct prs_op op;
    uint64_t after;
    uint32_t pending; /* index */
    uint8_t form;
    bool immediate_signal; /* DIRECT put that carries its signal; immediate filled but for the epoch
                            */
};

enum prs_pending_wait { /* what an open operation still waits for */
                        PRS_WAIT_LOCAL =
                            1, /* the fabric's completion (also: to be posted at all) */
                        PRS_WAIT_ACK = 2,
                        PRS_WAIT_REPLY = 4
};

struct prs_pending {
    struct prs_order_peer *peer; /* NULL: free */
    uint64_t epoch, endpoint_epoch;
    uint32_t job;   /* or PRS_NONE */
    uint32_t stage; /* staging slot, or PRS_NONE */
    uint32_t next;  /* free list */
    uint8_t waits;  /* enum prs_pending_wait bits */
    bool opened;    /* counted in the epochs */
    bool system;    /* acknowledgement or reply of a mailbox: in no epoch */
    bool is_ack;
    bool native_atomic, result_in_stage;
    uint32_t reply; /* reply slot, or PRS_NONE */
    uint8_t status; /* enum perseus_status, first error */
};

struct prs_job { /* a token, and how many operations stand between it and completion */
    uint32_t token, open, next;
    enum perseus_status status;
    uint64_t result;
};

/* ---- mailboxes ---- */

struct prs_mail_out {
    uint32_t next, acked; /* record numbers */
    uint32_t puts;        /* counted puts since the last record */
    /* Signals carried by immediates that no record's acknowledgement covers yet: parked, and
     * posted. */
    uint32_t signals_parked, signals_unacked;
    uint32_t pending[PRS_MAIL_SLOTS];
    uint64_t epoch[PRS_MAIL_SLOTS];
};

struct prs_mail_in {
    uint32_t sender;
    uint32_t applied; /* records below it are applied */
    uint32_t acked;   /* told to the sender */
    uint32_t arrived[PRS_IMMEDIATE_EPOCHS];
    uint64_t present; /* bit per number modulo PRS_MAIL_SLOTS */
    bool ack_in_flight, listed, reply_due;
    uint32_t reply_slot;
    uint64_t reply_value;
    struct prs_mail_in *next; /* list of those with work to do */
};

/* ---- peers ---- */

struct prs_counters {
    _Atomic uint64_t puts, put_bytes, gets, get_bytes, signals, signal_messages, atomics, fences,
        fence_flags, drains, drain_ns, again, deferred, in_flight, in_flight_max;
};

struct prs_order_peer {
    uint32_t rank, fabric_peer;
    bool lost;
    struct prs_remote *control; /* NULL without a mailbox */
    struct prs_epochs epochs;
    uint64_t fence_after;   /* plain operations are after this epoch */
    bool fence_due;         /* a fence to be resolved at the next use */
    uint64_t fences_seen;   /* of the orderer's fences_all */
    uint64_t flagged_after; /* nic-fence: a flag already covers this */
    uint32_t native_atomics_open;
    struct prs_item *parked; /* ring of parked_max */
    uint32_t parked_first, parked_count;
    bool parked_listed, unacked_listed;
    struct prs_order_peer *parked_next, *unacked_next; /* lists of the orderer */
    struct prs_mail_out mail_out;
    struct prs_counters counters;
};

/* ---- modes ---- */

enum prs_gate {
    PRS_GATE_GO,
    PRS_GATE_WAIT /* park: progress of this peer opens it */
};

struct prs_mode {
    enum perseus_ordering ordering;
    /* Signals go as records and puts are counted. */
    bool counted;
    /* Fences hold the whole channel until done: drain (every peer) and drain-peer (one). */
    bool stalls, stalls_all;
    /* May `item` be posted now? Adds fabric flags to *out_flags. */
    enum prs_gate (*gate)(struct prs_orderer *orderer, struct prs_order_peer *peer,
                          const struct prs_item *item, uint8_t *out_flags);
    /* It was posted with `flags` (the fabric said OK). NULL: nothing to remember. */
    void (*posted)(struct prs_orderer *orderer, struct prs_order_peer *peer,
                   const struct prs_item *item, uint8_t flags);
    /* Target side: may the next record of this sender be applied? */
    bool (*may_apply)(const struct prs_mail_in *in, const struct prs_record *record);
};

const struct prs_mode *prs_mode_get(enum perseus_ordering ordering);

extern const struct prs_mode prs_mode_drain, prs_mode_drain_peer, prs_mode_deferred,
    prs_mode_nic_fence, prs_mode_fifo, prs_mode_counted;

/* Whether completions prove that everything `item` must be after has been delivered. */
bool prs_order_proven(const struct prs_orderer *orderer, const struct prs_order_peer *peer,
                      const struct prs_item *item);
/* Whether a direct item would overtake records that must come first (they are applied by the
 * target's CPU, so neither fabric order nor fence flags cover them). */
bool prs_order_behind_records(const struct prs_order_peer *peer, const struct prs_item *item);
/* The may_apply of every correct mode: the epoch's own puts have all arrived. */
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
    const unsigned char *directory;
    size_t directory_stride;
    struct prs_order_peer *_Atomic
        *peers;                   /* by rank; written by the driving thread, read by stats */
    struct prs_mail_in **mail_in; /* by rank, allocated at the first record or put */
    struct prs_mail_in *mail_in_work;
    struct prs_order_peer *parked_list;
    struct prs_order_peer *unacked_list; /* peers that may need a flush */
    struct prs_window *windows[PRS_WINDOWS_MAX];
    uint32_t windows_count;
    bool has_mailbox, has_immediate_signals;
    bool signals_are_records; /* counted, or a fabric on which a written word may be seen half */
    uint32_t atomics_native, atomics_fetch_native; /* usable: bit per enum perseus_atomic */
    struct prs_immediate_layout immediate;
    struct prs_control_layout control_layout;
    unsigned char *control;
    struct prs_region *control_region;
    struct prs_epochs epochs; /* of the endpoint, for quiet */
    uint64_t fences_all;
    struct prs_stall stall;
    struct prs_quiet quiets[PRS_QUIETS_MAX];
    uint32_t quiets_count;
    enum perseus_status quiet_status; /* first error since the last quiet */
    struct prs_pending pendings[PRS_PENDING_MAX];
    struct prs_job jobs[PRS_JOBS_MAX];
    uint32_t pendings_used, jobs_used; /* never touched from here on: their pages cost nothing */
    uint32_t pending_free, job_free, stage_free;
    uint32_t stage_next[PRS_STAGE_SLOTS];
    uint32_t reply_free;
    uint32_t reply_next[PRS_IMMEDIATE_REPLIES], reply_pending[PRS_IMMEDIATE_REPLIES];
    struct prs_counters counters; /* what belongs to no single peer */
};

/* As prs_orderer_create, with a mode from outside the registry (tests). */
enum perseus_status prs_orderer_create_with_mode(const struct prs_orderer_config *config,
                                                 const struct prs_mode *mode,
                                                 struct prs_orderer **out);

/* peer.c */
enum perseus_status prs_order_peer_get(struct prs_orderer *orderer, uint32_t rank,
                                       struct prs_order_peer **out);
void prs_order_peer_destroy(struct prs_order_peer *peer);
void prs_order_peer_lost(struct prs_orderer *orderer, struct prs_order_peer *peer,
                         enum perseus_status why);
bool prs_order_can_park(const struct prs_orderer *orderer, const struct prs_order_peer *peer);
void prs_order_park(struct prs_orderer *orderer, struct prs_order_peer *peer,
                    const struct prs_item *item);
struct prs_item *prs_order_parked_head(struct prs_order_peer *peer);
void prs_order_unpark(struct prs_order_peer *peer, uint32_t parked_max);
/* Posts parked items whose gate opened. *did is set when something moved. */
enum perseus_status prs_order_pump_parked(struct prs_orderer *orderer, bool *did);

/* pool.c: fixed pools; AGAIN is PRS_NONE. */
void prs_order_pools_init(struct prs_orderer *orderer);
uint32_t prs_pending_take(struct prs_orderer *orderer, struct prs_order_peer *peer, uint32_t job);
/* Counts it in its peer's and the endpoint's current epoch. */
void prs_pending_open(struct prs_orderer *orderer, uint32_t index);
/* Undoes take and open for an operation that never left. */
void prs_pending_give_back(struct prs_orderer *orderer, uint32_t index);
/* One wait is over; closes the operation when it was the last. */
void prs_pending_clear(struct prs_orderer *orderer, uint32_t index, uint8_t wait,
                       enum perseus_status status);
uint32_t prs_job_take(struct prs_orderer *orderer, uint32_t token);
void prs_job_give_back(struct prs_orderer *orderer, uint32_t job);
uint32_t prs_stage_take(struct prs_orderer *orderer);
void prs_stage_give_back(struct prs_orderer *orderer, uint32_t stage);
void *prs_stage_memory(struct prs_orderer *orderer, uint32_t stage);
uint32_t prs_reply_take(struct prs_orderer *orderer);
void prs_reply_give_back(struct prs_orderer *orderer, uint32_t reply);

/* submit.c */
/* Posts the item, or parks it. AGAIN: neither; it is still the caller's (its pending is open). */
enum perseus_status prs_order_place(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                    struct prs_item *item, bool may_overtake);
/* The source of a put from the staging slot: inline if it fits. */
void prs_op_set_source(struct prs_orderer *orderer, struct prs_op *op, const void *source,
                       uint32_t stage);
/* An empty record with its pending and staging slot; the caller fills prs_item_record(). */
enum perseus_status prs_record_item(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                    uint32_t job, struct prs_item *out);
struct prs_record *prs_item_record(struct prs_orderer *orderer, const struct prs_item *item);

/* post.c */
/* Gate, then post. OK: posted. AGAIN: nothing happened and the fabric or mailbox is full.
 * *out_wait: the gate is closed (with AGAIN). */
enum perseus_status prs_order_try(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                  struct prs_item *item, bool *out_wait);
enum perseus_status prs_order_post(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                   const struct prs_op *op);

/* fence.c */
/* Resolves fences that this peer has not noticed yet. AGAIN: submit later. */
enum perseus_status prs_order_catch_up(struct prs_orderer *orderer, struct prs_order_peer *peer);
/* Starts a stall in the modes that have them, unless there is nothing to wait for. */
void prs_order_stall_begin(struct prs_orderer *orderer, struct prs_order_peer *peer);
bool prs_order_stall_update(struct prs_orderer *orderer);
bool prs_order_quiets_update(struct prs_orderer *orderer);

/* mailbox.c, mail_in.c */
struct prs_control_layout prs_control_layout(uint32_t n_peers);
static inline bool prs_mail_needs_flush(const struct prs_mail_out *mail)
{
    return mail->signals_parked + mail->signals_unacked > 0;
}
/* Sends a FLUSH record so that signals carried by immediates are known applied. */
enum perseus_status prs_mail_flush(struct prs_orderer *orderer, struct prs_order_peer *peer);
void prs_mail_acked(struct prs_orderer *orderer, struct prs_order_peer *peer, uint32_t acked);
void prs_mail_abandon(struct prs_orderer *orderer, struct prs_order_peer *peer,
                      enum perseus_status why);
/* The acknowledgement to `sender` has completed: the next may go. One at a time, so that they
 * cannot pass each other on an unordered fabric. */
void prs_mail_ack_sent(struct prs_orderer *orderer, uint32_t sender);
void prs_mail_immediate(struct prs_orderer *orderer, uint64_t bits);
enum perseus_status prs_mail_in_pump(struct prs_orderer *orderer, bool *did);
uint64_t prs_order_apply(struct prs_orderer *orderer, struct prs_window *window, uint64_t offset,
                         enum perseus_atomic op, uint64_t operand, uint64_t compare,
                         uint32_t bytes);

/* Counters have one writer and any number of readers: relaxed pairs with relaxed, they order
 * nothing. */
static inline void prs_count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

#endif
