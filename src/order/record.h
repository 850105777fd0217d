/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order/record.h: messages into a target's mailbox, and where they lie there.
 *
 * A record has as many bytes as it needs, a multiple of 8. At the target every sender has two
 * rings: a near one of a few records, next to those of all other senders, and a far one, whose
 * pages are touched only by senders that have many records open at once. Every record says in which
 * ring its successor lies, so the target finds them in order without another word.
 *
 *     ring:   [ records begin here, round and round ....... | pad ]
 *
 * A record that begins before the end of a ring's first part lies in one piece: the pad takes what
 * is left of it.
 */
#ifndef PRS_ORDER_RECORD_H
#define PRS_ORDER_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "order/immediate.h"

/* Records open per pair of PEs: at most half of PRS_NUMBERS, so that numbers never alias. */
#define PRS_RECORDS_OPEN_MAX  64
#define PRS_RECORD_VALUES_MAX 32

enum prs_record_kind {
    PRS_RECORD_SET = 1, /* values[0] */
    PRS_RECORD_ATOMIC,  /* operand, compare */
    PRS_RECORD_FETCH,   /* the same, and the old value goes back to reply slot `reply` */
    PRS_RECORD_VECTOR   /* `count` values to contiguous words */
};

struct prs_record {
    uint32_t number; /* low 32 bits, from 0 */
    uint32_t puts;   /* counted puts of the epoch that this record ends */
    uint16_t window; /* id at the target */
    uint8_t kind, atomic;
    uint8_t count; /* VECTOR: values; else: bytes of the word */
    uint8_t reply;
    uint8_t next_ring; /* where the record behind this one lies */
    uint8_t zero;
    uint64_t offset;
    uint64_t values[PRS_RECORD_VALUES_MAX];
};
#define PRS_RECORD_HEAD_BYTES offsetof(struct prs_record, values)

static inline uint32_t prs_record_values(const struct prs_record *record)
{
    return record->kind == PRS_RECORD_VECTOR ? record->count
           : record->kind == PRS_RECORD_SET  ? 1
                                             : 2;
}

static inline uint32_t prs_record_bytes(const struct prs_record *record)
{
    return (uint32_t)(PRS_RECORD_HEAD_BYTES + prs_record_values(record) * sizeof(uint64_t));
}

/* Riding signals count from the last word of the first window that a record set or added to. */
static inline void prs_riding_rebase(struct prs_riding_base *base, const struct prs_record *record)
{
    bool adds = record->kind == PRS_RECORD_ATOMIC && record->atomic == PERSEUS_ATOMIC_ADD;
    bool is_vector = record->kind == PRS_RECORD_VECTOR;
    uint32_t last = is_vector ? record->count - 1u : 0;
    if (record->window == 0 &&
        (is_vector || ((record->kind == PRS_RECORD_SET || adds) && record->count == 8))) {
        *base = (struct prs_riding_base){.value = record->values[last],
                                         .slot = record->offset / 8 + last};
    }
}

/* ---- rings ---- */

enum prs_ring_of_mail { PRS_MAIL_NEAR, PRS_MAIL_FAR, PRS_MAIL_RINGS };

#define PRS_MAIL_PAD       (sizeof(struct prs_record) - sizeof(uint64_t))
#define PRS_MAIL_NEAR_SIZE 256u /* of its first part */

/* What a record that begins at `at` takes of a ring whose first part has `size` bytes. */
static inline uint32_t prs_mail_charge(uint32_t size, uint32_t at, uint32_t bytes)
{
    return bytes < size - at ? bytes : size - at;
}

/* Where the record behind it begins. */
static inline uint32_t prs_mail_after(uint32_t size, uint32_t at, uint32_t bytes)
{
    return bytes < size - at ? at + bytes : 0;
}

/* ---- the control window of a PE: mail of every sender, replies, answers, staging ---- */

struct prs_reply { /* the answer to a FETCH, written by the target */
    uint64_t value;
    uint64_t number; /* prs_reply_number */
};

/* Of the record and of who answers: a slot is used again when a peer is lost, and its answer may
 * still come. */
static inline uint64_t prs_reply_number(uint32_t answerer, uint64_t record)
{
    return record ^ (uint64_t)answerer << 40;
}

struct prs_control_layout {
    uint32_t ring_size[PRS_MAIL_RINGS]; /* first part; far: 0 where many PEs share the room */
    uint64_t mail[PRS_MAIL_RINGS];      /* by sender */
    uint64_t replies;                   /* struct prs_reply, by slot */
    uint64_t answers;                   /* sources of replies on their way, by peer */
    uint64_t scratch;                   /* where flushes write, and nobody reads */
    uint64_t staging, bytes;
};

/* n_peers 0: no mailbox. */
struct prs_control_layout prs_control_layout(uint32_t n_peers, uint32_t replies, uint32_t stages);

static inline uint64_t prs_mail_place(const struct prs_control_layout *layout, uint32_t ring,
                                      uint32_t sender, uint32_t at)
{
    return layout->mail[ring] + (uint64_t)sender * (layout->ring_size[ring] + PRS_MAIL_PAD) + at;
}

#endif
