/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order/immediate.h: what the bits of a put's immediate mean.
 *
 *     low to high:  kind (2) | sender (rank_bits) | number (7) | body | tag (the rest, at most 48)
 *
 *     kind     body
 *     PUT      nothing: a put of the epoch `number` of counted puts has arrived
 *     RECORD   nothing: the record `number` is in the mailbox
 *     ANSWER   code (8): records below `number` are applied; PRS_ANSWER_*, or 1 + a reply slot
 *     RIDING   op (1) | value (10) | slot (10): the record `number` is this signal itself, riding
 *              on the put that is its payload. Value and slot count from the last SET or ADD
 *              record's
 *
 * An immediate is a claim: on most providers whoever reaches the port can send one, without a key.
 * The tag is a keyed MAC (SipHash-2-4) over sender, target, kind, body, and the number in full
 * width, of which the bits above are the low ones. So it acts only where the sender can have sent
 * it, and one recorded from an earlier number is refused. Where fewer than PRS_TAG_BITS_MIN bits
 * would be left for the tag of a signal that changes a word by itself, signals do not ride.
 */
#ifndef PRS_ORDER_IMMEDIATE_H
#define PRS_ORDER_IMMEDIATE_H

#include <stdbool.h>
#include <stdint.h>

#include "order/order.h"

enum prs_immediate_kind {
    PRS_IMMEDIATE_PUT,
    PRS_IMMEDIATE_RECORD,
    PRS_IMMEDIATE_ANSWER,
    PRS_IMMEDIATE_RIDING
};

#define PRS_NUMBERS        128 /* numbers are carried modulo this */
#define PRS_TAG_BITS_MIN   24
#define PRS_ANSWER_ACK     0   /* nothing but the number */
#define PRS_ANSWER_REFUSED 255 /* the newest of these records could not be applied */
#define PRS_REPLIES_MAX    254

struct prs_immediate_layout {
    uint32_t bits, rank_bits;
    bool rides; /* there is room for RIDING with a worthwhile tag */
};

struct prs_immediate {
    enum prs_immediate_kind kind;
    uint32_t sender;
    uint64_t number;           /* decoded: modulo PRS_NUMBERS */
    uint32_t code;             /* ANSWER */
    enum perseus_signal_op op; /* RIDING */
    uint64_t value, slot;      /* RIDING: above the base, and its low bits */
};

/* A riding signal's value and slot, as distances from the last record's; false: they do not fit. */
struct prs_riding_base {
    uint64_t value, slot;
};
bool prs_riding_fits(const struct prs_riding_base *base, uint64_t value, uint64_t slot);
void prs_riding_encode(const struct prs_riding_base *base, uint64_t value, uint64_t slot,
                       struct prs_immediate *out);
void prs_riding_decode(const struct prs_riding_base *base, const struct prs_immediate *what,
                       uint64_t *out_value, uint64_t *out_slot);

/* False when `bits` cannot carry even records for n_peers ranks. */
bool prs_immediate_layout(uint32_t bits, uint32_t n_peers, struct prs_immediate_layout *out);
/* With the tag for `target`. */
uint64_t prs_immediate_encode(const struct prs_immediate_layout *layout,
                              const unsigned char *secret, uint32_t target,
                              const struct prs_immediate *what);
void prs_immediate_decode(const struct prs_immediate_layout *layout, uint64_t bits,
                          struct prs_immediate *out);
/* Whether the tag in `bits` is that of `target` and of the full number. */
bool prs_immediate_is_genuine(const struct prs_immediate_layout *layout,
                              const unsigned char *secret, uint32_t target, uint64_t number,
                              uint64_t bits);

/* The number nearest above `base` with these low bits: base to base + PRS_NUMBERS - 1. */
static inline uint64_t prs_number_from(uint64_t base, uint64_t low)
{
    return base + (low - base) % PRS_NUMBERS;
}

#endif
