/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order/mail.h: records between two PEs: their sending half (mail_out.c) and their receiving half
 * (mail_in.c).
 *
 * The target applies the records of a sender by number, each when it is here, when the records
 * before it are applied, and when the counted puts of its epoch have arrived. Then it answers: one
 * put, whose immediate says how far it is, and which carries the old value of a fetch.
 *
 * No cycle of waiting: an answer needs its sender's own 16 bytes, no operation, slot or token of
 * the pools, and room in the fabric, which polling frees. Where puts keep no order one answer per
 * pair is on its way; what happens meanwhile goes into the next. So whoever waits for an answer
 * waits for a PE that polls, never for one that waits for an answer itself.
 */
#ifndef PRS_ORDER_MAIL_H
#define PRS_ORDER_MAIL_H

#include "order/peer.h"

/* Target side, per sender, allocated with its first genuine immediate. */
struct prs_mail_in {
    uint32_t sender;
    uint64_t applied;      /* records below it are */
    uint64_t told;         /* ... as the sender knows, or will by the answer on its way */
    uint64_t epoch;        /* of counted puts: records applied that end one */
    uint64_t present;      /* bit per record number modulo PRS_RECORDS_OPEN_MAX */
    uint64_t riding;       /* ... of those that came by their immediate alone */
    uint64_t *riding_bits; /* their immediates, while there are any */
    uint64_t put_bits;     /* the last genuine PUT immediate, of put_epoch: most are the same */
    uint64_t put_epoch;
    uint64_t reply_value;
    struct prs_riding_base base;
    struct prs_mail_in *next; /* list of those with work to do */
    uint32_t ring, at[PRS_MAIL_RINGS];
    uint32_t code; /* of the next answer: PRS_ANSWER_*, or 1 + a reply slot */
    bool listed, answer_in_flight;
    bool cut;                      /* it cannot be answered any more */
    bool moved;                    /* something was applied in the last step */
    uint16_t arrived[PRS_NUMBERS]; /* counted puts, by epoch; fewer than 65536 are in flight */
};

struct prs_mail_list {
    struct prs_mail_in *first, *last;
};

/* ---- mail_out.c ---- */

/* The record of `pending` gets its number and place; AGAIN: the mailbox is full. */
enum perseus_status prs_mail_stamp_record(struct prs_orderer *orderer, struct prs_pending *pending,
                                          struct prs_op *op);
enum perseus_status prs_mail_stamp_riding(struct prs_orderer *orderer,
                                          const struct prs_pending *pending, struct prs_op *op);
void prs_mail_stamp_put(struct prs_orderer *orderer, struct prs_order_peer *peer,
                        struct prs_op *op);
/* It was posted as stamped. */
void prs_mail_posted(struct prs_orderer *orderer, struct prs_pending *pending);
/* The open record that is answered next, or NULL. */
struct prs_pending *prs_mail_oldest(struct prs_orderer *orderer, const struct prs_order_peer *peer);
/* Everything below `acked` is applied, the last of it with this code. */
void prs_mail_answered(struct prs_orderer *orderer, struct prs_order_peer *peer, uint64_t acked,
                       uint32_t code);
struct prs_record *prs_mail_record(struct prs_orderer *orderer, struct prs_pending *pending);

/* ---- mail_in.c ---- */

void prs_mail_immediate(struct prs_orderer *orderer, uint64_t bits);
/* The answer to `sender` has completed. */
void prs_mail_answer_done(struct prs_orderer *orderer, uint32_t sender);
bool prs_mail_in_pump(struct prs_orderer *orderer);

/* ---- apply.c ---- */

/* Copies the record numbered in->applied out of the mailbox, where its sender can still write, and
 * checks the copy. False: it is not there. */
bool prs_mail_read(struct prs_orderer *orderer, const struct prs_mail_in *in,
                   struct prs_record *out);
/* Whether it could be applied; *out_old: the word before. */
bool prs_mail_apply(struct prs_orderer *orderer, uint32_t sender, const struct prs_record *record,
                    uint64_t *out_old);
bool prs_mail_apply_riding(struct prs_orderer *orderer, const struct prs_mail_in *in,
                           const struct prs_immediate *what);
uint64_t prs_order_apply(struct prs_orderer *orderer, struct prs_window *window, uint64_t offset,
                         enum perseus_atomic op, uint64_t operand, uint64_t compare,
                         uint32_t bytes);

#endif
