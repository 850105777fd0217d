/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sequence.h: which operations need a fence before them although the host sent none.
 *
 * Hosts of interface 3.0 ask for fences; yet barrier signals are SETs of a growing counter, and two
 * of them to one word must not change places even without a fence. Interface 4.0's host may drop
 * the device's fences, so there every flag-like operation is ordered by itself. Where no fence
 * operation is offered, the host relies on full order.
 *
 * Pure bookkeeping, one struct prs_sequence per target PE and channel.
 */
#ifndef PRS_NVSHMEM_SEQUENCE_H
#define PRS_NVSHMEM_SEQUENCE_H

#include "fabric/fabric.h"

enum prs_class {
    PRS_CLASS_PUT,      /* bulk data */
    PRS_CLASS_FLAG,     /* a put small enough to be somebody's flag; P */
    PRS_CLASS_SET,      /* 8-byte AMO that only writes */
    PRS_CLASS_ATOMIC,   /* every other AMO */
    PRS_CLASS_SIGNALED, /* put_signal: orders itself behind all earlier puts */
    PRS_CLASS_COUNT
};
#define PRS_FLAG_BYTES_MAX 8

struct prs_sequence_rules {
    uint8_t kept[PRS_CLASS_COUNT]; /* earlier classes (bits) behind which this class stays anyhow */
    bool words_kept;               /* SETs and atomics on one word stay in order anyhow */
};

struct prs_sequence {
    uint8_t open;   /* classes (bits) submitted since the last fence */
    uint64_t words; /* hash bits of the words that SETs and atomics went to since then */
};

/* `host_fences`: the host can be trusted to call fence. `records`: SETs are applied by the target's
 * CPU, in order among themselves, but a put may pass them. */
void prs_sequence_rules_init(struct prs_sequence_rules *rules, enum perseus_ordering mode,
                             const struct prs_caps *caps, bool records, bool host_fences);
/* Whether the fabric under this mode keeps every order that a host without a fence operation
 * relies on. */
bool prs_sequence_is_natural(enum perseus_ordering mode, const struct prs_caps *caps, bool records);

bool prs_sequence_needs_fence(const struct prs_sequence_rules *rules,
                              const struct prs_sequence *sequence, enum prs_class what,
                              uint64_t word);
void prs_sequence_add(struct prs_sequence *sequence, enum prs_class what, uint64_t word);

static inline void prs_sequence_fenced(struct prs_sequence *sequence)
{
    *sequence = (struct prs_sequence){0};
}

#endif
