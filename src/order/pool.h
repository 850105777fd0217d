/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order/pool.h: the fixed pools of the engine: open operations, tokens, staging and reply slots.
 *
 * Every request takes all that it needs before anything is posted; PRS_NONE is AGAIN. Answers to
 * peers take nothing from here (mail_in.c), so no cycle of waiting leads through a pool.
 */
#ifndef PRS_ORDER_POOL_H
#define PRS_ORDER_POOL_H

#include "order/epochs.h"
#include "order/order.h"

#define PRS_NONE        UINT32_MAX
#define PRS_STAGE_BYTES 1024
#define PRS_SMALL_BYTES 40 /* a SET record, or an atomic: kept in the operation itself */

struct prs_order_peer;

enum prs_form {
    PRS_FORM_DIRECT, /* the fabric does it */
    PRS_FORM_RECORD, /* a message that the target's orderer applies */
    PRS_FORM_RIDING  /* a put that carries its signal: direct, and a record as well */
};

/* What an open operation still waits for. */
enum prs_waits {
    PRS_WAIT_POST = 1,   /* parked */
    PRS_WAIT_LOCAL = 2,  /* the fabric's completion */
    PRS_WAIT_ANSWER = 4, /* the target's word that its record is applied */
    PRS_WAIT_PROOF = 8   /* the delivery of something behind it (prove.c) */
};

/* An open operation, from submit to its end. Parked operations stand in their peer's queue. */
struct prs_pending {
    struct prs_order_peer *peer; /* NULL: free */
    struct prs_op op;
    uint64_t after; /* it may take effect once the epochs of its peer below this have passed */
    struct prs_epoch_member of_peer, of_endpoint;
    uint64_t number;       /* RECORD, RIDING: once posted */
    uint64_t sequence;     /* of its post, among those to its peer */
    uint32_t token;        /* index, or PRS_NONE */
    uint32_t stage, reply; /* slots, or PRS_NONE */
    uint32_t next;         /* free, parked, or open records of its peer */
    uint16_t charge;       /* what it takes of its mailbox ring */
    uint8_t ring;          /* enum prs_ring_of_mail */
    uint8_t form;          /* enum prs_form */
    uint8_t waits;         /* enum prs_waits bits */
    uint8_t status;        /* enum perseus_status: its first error */
    bool opened;           /* stands in the epochs */
    bool gathers;          /* a signal that waits for the end of its batch: others may join it */
    bool told;             /* its end was told before the fabric returned it */
    bool asked;            /* a put whose completion means that it is delivered */
    bool native_atomic, result_in_stage;
    enum perseus_signal_op riding_op;
    uint64_t riding_value, riding_slot;
    uint64_t small[PRS_SMALL_BYTES / 8]; /* what a short operation sends */
};

/* A token of the caller's, and how many operations stand between it and its completion. */
struct prs_order_token {
    uint32_t token, open, next;
    enum perseus_status status;
    uint64_t result;
};

struct prs_free_list {
    uint32_t first, used, count; /* from `used` on never taken: their pages cost nothing */
};

struct prs_pools {
    struct prs_pending *pendings;
    struct prs_order_token *tokens;
    uint32_t *stage_next, *reply_next; /* free lists */
    struct prs_free_list pending_free, token_free, stage_free, reply_free;
};

/* Sizes of the config, with its defaults filled in; INVALID_ARGUMENT says which is too small. */
enum perseus_status prs_pools_create(struct prs_pools *pools, const struct prs_order_pools *sizes,
                                     const struct prs_log *log);
void prs_pools_destroy(struct prs_pools *pools);
struct prs_order_pools prs_pools_defaults(const struct prs_order_pools *sizes);

/* A free operation toward `peer`; its op's peer is filled in. */
struct prs_pending *prs_pending_take(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                     uint32_t token);
/* With a staging slot, too. */
struct prs_pending *prs_pending_take_staged(struct prs_orderer *orderer,
                                            struct prs_order_peer *peer, uint32_t token);
/* Enters it in its peer's and the endpoint's current epoch. */
void prs_pending_open(struct prs_orderer *orderer, struct prs_pending *pending);
/* Undoes take and open of an operation that never left. */
void prs_pending_give_back(struct prs_orderer *orderer, struct prs_pending *pending);
/* Waits are over; ends the operation when they were the last. */
void prs_pending_clear(struct prs_orderer *orderer, struct prs_pending *pending, uint8_t waits,
                       enum perseus_status status);
/* Tells its end now. The slot stays taken until the fabric returns what it has. */
void prs_pending_give_up(struct prs_orderer *orderer, struct prs_pending *pending,
                         enum perseus_status status);
uint32_t prs_pending_index(const struct prs_orderer *orderer, const struct prs_pending *pending);
/* The open operation of this index, or NULL. */
struct prs_pending *prs_pending_at(struct prs_orderer *orderer, uint64_t index);

uint32_t prs_token_take(struct prs_orderer *orderer, uint32_t token);
void prs_token_give_back(struct prs_orderer *orderer, uint32_t index);
void *prs_stage_memory(struct prs_orderer *orderer, uint32_t stage);
/* A staging slot; it goes back with its operation. */
bool prs_stage_take(struct prs_orderer *orderer, struct prs_pending *pending);
/* A slot for the answer to a fetch; it goes back with its operation. */
bool prs_reply_take(struct prs_orderer *orderer, struct prs_pending *pending);

#endif
