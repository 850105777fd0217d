/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order/peer.h: one remote PE as the engine sees it.
 *
 * Parked operations are a queue through the open operations themselves. A peer stands in the
 * orderer's ready list while the head of its queue may be postable: since something of this peer
 * completed, or because the fabric refused it and only trying again tells. A step tries a bounded
 * number of peers of that list, so it costs the same for two PEs and for thousands.
 *
 * A peer that owes something (an operation that the fabric has or refuses, an answer) stands in the
 * orderer's watch list, the one that has not moved for longest first; a step looks at that one.
 */
#ifndef PRS_ORDER_PEER_H
#define PRS_ORDER_PEER_H

#include <stdatomic.h>

#include "order/pool.h"
#include "order/record.h"

struct prs_counters {
    _Atomic uint64_t puts, put_bytes, gets, get_bytes, signals, signal_messages, atomics, fences,
        fence_flags, drains, drain_ns, again, deferred, in_flight, in_flight_max;
};

/* Counters have one writer and any number of readers: relaxed pairs with relaxed, they order
 * nothing. */
static inline void prs_count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* Records to this peer. */
struct prs_mail_out {
    uint64_t next, acked;           /* record numbers; acked: below it all are applied */
    uint64_t epoch;                 /* of counted puts: records so far that can end one */
    uint32_t puts;                  /* posted in that epoch */
    uint32_t first_open, last_open; /* unanswered records, through prs_pending.next */
    uint32_t ring;                  /* where the next record lies */
    struct {
        uint32_t at, used;
    } rings[PRS_MAIL_RINGS];
    uint64_t next_word; /* offset behind the last signal's word, and its window */
    uint32_t next_window;
    struct prs_riding_base base; /* as it will be at the target when the next one submitted is */
    uint64_t put_immediate;      /* of puts in epoch put_epoch - 1 */
    uint64_t put_epoch;
};

struct prs_order_peer {
    uint32_t rank, fabric_peer;
    uint8_t lane;               /* of all that is not spread over lanes */
    uint32_t turn;              /* of the lanes, where transfers are */
    enum perseus_status status; /* the first failure; it stays */
    bool fence_due;             /* a fence to be resolved at the next use */
    bool refused;               /* the fabric took nothing more at the last attempt */
    bool ready_listed, watch_listed, prove_listed;
    struct prs_remote *control; /* NULL without a mailbox */
    struct prs_epochs epochs;
    uint64_t fence_after;   /* plain operations are after this epoch */
    uint64_t fences_seen;   /* of the orderer's fences_all */
    uint64_t flagged_after; /* nic-fence: a flag already covers this */
    uint32_t native_atomics_open;
    uint32_t parked_first, parked_last, parked_count;
    uint32_t unproven_first, unproven_last, unproven_count; /* through prs_pending.next */
    uint64_t posts;                                         /* so far */
    uint64_t flush_sequence;                                /* of the flush on its way; 0: none */
    uint64_t moved_ns, watched_ns; /* last movement, as noticed; and when it was listed */
    uint64_t owed_record, owed_ns; /* the oldest that it owes is this answer, plus 1; since then */
    struct prs_order_peer *ready_next, *watch_next, *prove_next;
    struct prs_mail_out mail_out;
    struct prs_counters counters;
};

struct prs_peer_list {
    struct prs_order_peer *first, *last;
};

/* Connects on first use. An error is the peer's own, and stays. */
enum perseus_status prs_order_peer_get(struct prs_orderer *orderer, uint32_t rank,
                                       struct prs_order_peer **out);
void prs_order_peer_destroy(struct prs_order_peer *peer);
/* Whether anything may still be sent there; else what to return to the caller. */
enum perseus_status prs_order_peer_check(const struct prs_order_peer *peer);

/* fail.c */
/* The first failure: parked operations end, those that wait for an answer end, nothing follows.
 * What the fabric still has ends when the fabric returns it. */
void prs_order_peer_fail(struct prs_orderer *orderer, struct prs_order_peer *peer,
                         enum perseus_status why);
/* Something came back from this peer, or went to it for the first time. */
void prs_order_peer_watch(struct prs_orderer *orderer, struct prs_order_peer *peer);
/* The time of this look, before it polls; only while a peer is watched. */
void prs_order_watch_clock(struct prs_orderer *orderer);
/* Gives up the peer that has not moved for longest, if that is too long. */
bool prs_order_watch(struct prs_orderer *orderer);

/* prove.c */
bool prs_order_may_be_early(const struct prs_orderer *orderer, const struct prs_order_peer *peer,
                            const struct prs_pending *pending);
/* Sends a flush, unless the fabric is full. None may be on its way. */
void prs_order_flush_peer(struct prs_orderer *orderer, struct prs_order_peer *peer);
/* It was posted so, and no answer will come for it. */
void prs_order_unproven(struct prs_orderer *orderer, struct prs_pending *pending);
/* The put of this sequence is delivered: so are those before it, where puts keep order. */
void prs_order_prove(struct prs_orderer *orderer, struct prs_order_peer *peer, uint64_t sequence);
/* No proof will come. */
void prs_order_disprove(struct prs_orderer *orderer, struct prs_order_peer *peer,
                        enum perseus_status status);
void prs_order_flushed(struct prs_orderer *orderer, struct prs_order_peer *peer);
/* Sends flushes that are due; `idle`: this step had nothing else to do. */
bool prs_order_prove_pump(struct prs_orderer *orderer, bool idle);

/* park.c */
bool prs_order_can_park(const struct prs_orderer *orderer, const struct prs_order_peer *peer);
void prs_order_park(struct prs_orderer *orderer, struct prs_order_peer *peer,
                    struct prs_pending *pending);
struct prs_pending *prs_order_parked_head(struct prs_orderer *orderer,
                                          const struct prs_order_peer *peer);
struct prs_pending *prs_order_parked_tail(struct prs_orderer *orderer,
                                          const struct prs_order_peer *peer);
/* No signal joins what is parked last: a quiet of this peer covers that, and would not cover both,
 * since a record that is joined counts as new. */
void prs_order_seal(struct prs_orderer *orderer, const struct prs_order_peer *peer);
void prs_order_unpark(struct prs_orderer *orderer, struct prs_order_peer *peer);
/* The head of its queue may go now. */
void prs_order_wake(struct prs_orderer *orderer, struct prs_order_peer *peer);
/* Posts what may go. Returns whether anything moved. */
bool prs_order_pump_parked(struct prs_orderer *orderer);

#endif
