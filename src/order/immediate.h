/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order/immediate.h: what the bits of a put's immediate mean.
 *
 *   low to high:  kind (3) | sender rank (rank_bits) | epoch (7) or reply slot (8) | signal payload
 *
 * The signal payload is op (1) | value (value_bits) | slot (slot_bits), slot being the signal
 * word's index in the target's first window. A signal that does not fit goes as a record.
 */
#ifndef PRS_ORDER_IMMEDIATE_H
#define PRS_ORDER_IMMEDIATE_H

#include <stdbool.h>
#include <stdint.h>

#include <perseus/perseus.h>

enum prs_immediate_kind {
    PRS_IMMEDIATE_PUT = 1, /* a counted put of `epoch` */
    PRS_IMMEDIATE_RECORD,  /* the record numbered `epoch` is in its mailbox slot */
    PRS_IMMEDIATE_ACK,     /* the sender's ack word has grown */
    PRS_IMMEDIATE_REPLY,   /* reply slot `reply` holds a fetched value */
    PRS_IMMEDIATE_SIGNAL   /* a counted put that is its signal's only payload */
};

#define PRS_IMMEDIATE_EPOCHS  128 /* epoch numbers are carried modulo this */
#define PRS_IMMEDIATE_REPLIES 256

struct prs_immediate_layout {
    uint32_t rank_bits, value_bits, slot_bits; /* slot_bits 0: signals do not fit at all */
};

struct prs_immediate {
    enum prs_immediate_kind kind;
    uint32_t sender;
    uint32_t epoch; /* modulo PRS_IMMEDIATE_EPOCHS; reply slot for REPLY */
    enum perseus_signal_op op;
    uint64_t value, slot;
};

/* False when `bits` cannot carry even records for n_peers ranks. */
bool prs_immediate_layout(uint32_t bits, uint32_t n_peers, struct prs_immediate_layout *out);
/* Whether a SIGNAL with these contents fits. */
bool prs_immediate_fits(const struct prs_immediate_layout *layout, uint64_t value, uint64_t slot);
uint64_t prs_immediate_encode(const struct prs_immediate_layout *layout,
                              const struct prs_immediate *what);
/* `bits` encoded with epoch 0, with the epoch filled in. */
uint64_t prs_immediate_with_epoch(const struct prs_immediate_layout *layout, uint64_t bits,
                                  uint32_t epoch);
/* False for an unknown kind. */
bool prs_immediate_decode(const struct prs_immediate_layout *layout, uint64_t bits,
                          struct prs_immediate *out);

#endif
