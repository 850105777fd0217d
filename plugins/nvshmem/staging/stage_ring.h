/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stage_ring.h: the slots of a staging ring, and which of its positions (fabric/staged/lap.h) await
 * copies. Pure.
 */
#ifndef PRS_NVSHMEM_STAGE_RING_H
#define PRS_NVSHMEM_STAGE_RING_H

#include <stdbool.h>

#include "fabric/staged/lap.h"

#define PRS_MARKS 64 /* more than a lane has events, so the list rarely has to blur */

enum prs_slot_kind {
    PRS_SLOT_PADDING = 1,
    PRS_SLOT_PUT,   /* payload behind the head, to `address` */
    PRS_SLOT_VALUE, /* the low `bytes` of `value`, to `address` */
    PRS_SLOT_ATOMIC,
    PRS_SLOT_FETCH, /* the old value comes back as a VALUE for `back` */
    PRS_SLOT_GET,   /* `bytes` from `address` come back as a PUT to `back` */
    PRS_SLOT_BULK   /* a put that did not take the ring has arrived before it */
};

/* Travels as it is between PEs of one build. */
struct prs_slot {
    uint32_t kind; /* enum prs_slot_kind */
    uint32_t span; /* bytes of the slot, head included */
    uint32_t bytes;
    uint8_t op, word_bytes; /* ATOMIC, FETCH */
    uint8_t reserved[2];
    uint64_t address; /* in the receiver's address space */
    uint64_t back;    /* in the sender's */
    uint64_t value, compare;
    uint64_t reserved_too[2];
};
_Static_assert(sizeof(struct prs_slot) == PRS_SLOT_ALIGN, "a slot's head");

/* Positions up to `end` are ready once the copy `ticket` is done. */
struct prs_mark {
    uint64_t end, ticket;
};

struct prs_marks {
    struct prs_mark marks[PRS_MARKS];
    uint32_t first, count;
};

/* `recorded`: newest ticket that an event stands for already; marks behind it melt together. */
void prs_marks_add(struct prs_marks *marks, uint64_t end, uint64_t ticket, uint64_t recorded);
/* Drops what is done; *position moves to the end of it. Returns whether it moved. */
bool prs_marks_pass(struct prs_marks *marks, uint64_t done, uint64_t *position);

/* Whether a slot at `position` can be what its head says. */
bool prs_slot_is_sound(const struct prs_slot *slot, uint64_t position, uint64_t ring_bytes);

#endif
