/* SPDX-License-Identifier: Apache-2.0 */
/* ring.h: what a slot's head may say, and counts of slots. Pure. */
#ifndef PRS_FABRIC_STAGED_RING_H
#define PRS_FABRIC_STAGED_RING_H

#include <stdatomic.h>
#include <stdbool.h>

#include "fabric/staged/lap.h"

enum prs_staged_kind {
    PRS_STAGED_PADDING = 1,
    PRS_STAGED_HELLO, /* first of all: the sender's address, as payload */
    PRS_STAGED_PUT,   /* payload, to (region, offset); may carry an immediate */
    PRS_STAGED_SET,   /* `value`, to (region, offset) */
    PRS_STAGED_GET,   /* `bytes` from (region, offset) come back as an ANSWER to `request` */
    PRS_STAGED_ANSWER /* payload; of `request` the bytes from `offset` on */
};

/* The head of a slot. Travels as it is between PEs of one build. */
struct prs_staged_slot {
    uint64_t position; /* its own: what an earlier lap has left is not taken for it */
    uint32_t span;     /* bytes of the slot, head included */
    uint8_t kind;      /* enum prs_staged_kind */
    uint8_t has_immediate;
    uint8_t reserved[2];
    uint32_t region, generation; /* the target's, as its blob had it */
    uint64_t offset;
    uint64_t bytes;
    uint64_t value; /* of a SET, or the immediate */
    uint64_t request;
    uint64_t reserved_too;
};
_Static_assert(sizeof(struct prs_staged_slot) == PRS_SLOT_ALIGN, "a slot's head");

/* A position as a peer writes it: with its complement, because a provider may store a word in
 * pieces. Zeroed: none yet. */
struct prs_staged_count {
    _Atomic uint64_t value, inverse;
};

/* The most payload of one slot: several fit into a ring, and none is so large that copying it and
 * sending it do not overlap. Twice a slot always fits, so padding never fills the ring. */
uint64_t prs_staged_payload_max(uint64_t ring_bytes);

/* Whether a slot at `position`, of which `readable` bytes have arrived, can be what its head
 * says. */
bool prs_staged_is_sound(const struct prs_staged_slot *slot, uint64_t position, uint64_t readable,
                         uint64_t ring_bytes);

/* The newest position that was written whole, or `known` if there is none. */
uint64_t prs_staged_read_count(const struct prs_staged_count *count, uint64_t known);

#endif
