/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring/layout.h: what a producer (a CPU thread, or a CTA through mapped pinned memory) and the
 * proxy agree on. Compiles as C11, C++ and CUDA: fixed-width integers, no _Atomic (ring.h says
 * which words are atomic).
 *
 * A descriptor is one 64-byte cache line, so a warp can store it in one coalesced transaction and
 * the proxy never sees half of a neighbour. `turn` is written last, with release: it publishes the
 * rest.
 */
#ifndef PRS_RING_LAYOUT_H
#define PRS_RING_LAYOUT_H

#ifdef __cplusplus
#include <cstdint>
#define PRS_LAYOUT_ASSERT(condition) static_assert(condition, #condition)
#else
#include <assert.h>
#include <stdint.h>
#define PRS_LAYOUT_ASSERT(condition) static_assert(condition, #condition)
#endif

enum prs_desc_kind {
    PRS_DESC_PUT = 1,
    PRS_DESC_GET = 2,
    PRS_DESC_PUT_SIGNAL = 3,
    PRS_DESC_SIGNAL = 4,        /* one word, op in `sub` */
    PRS_DESC_SIGNAL_VECTOR = 5, /* `bytes`/8 SET values in the VALUES descriptors right behind it */
    PRS_DESC_ATOMIC = 6,        /* op in `sub`; result goes to `ticket` */
    PRS_DESC_FENCE = 7,         /* peer, or PRS_DESC_ALL_PEERS */
    PRS_DESC_QUIET = 8,         /* peer, or PRS_DESC_ALL_PEERS */
    PRS_DESC_VALUES = 9         /* struct prs_desc_values; only behind a SIGNAL_VECTOR */
};

#define PRS_DESC_ALL_PEERS UINT32_C(0xffffffff)
#define PRS_DESC_NO_TICKET UINT32_C(0xffffffff)
#define PRS_DESC_BYTES     64

struct prs_desc {
    uint32_t turn;         /* 1 + ring position / slots, wrapping; 0 in a fresh ring */
    uint8_t kind;          /* enum prs_desc_kind */
    uint8_t sub;           /* SIGNAL*: enum perseus_signal_op; ATOMIC: enum perseus_atomic */
    uint16_t local_window; /* which local region `local` is an offset into */
    uint32_t peer;         /* target PE */
    uint32_t ticket;       /* completion slot of a waiting producer, or PRS_DESC_NO_TICKET */
    uint64_t local;        /* offset in local_window (PUT, GET) */
    uint64_t remote;       /* heap offset at the target */
    uint64_t bytes;        /* PUT, GET, vector */
    uint64_t signal;       /* heap offset of the signal word (PUT_SIGNAL) */
    uint64_t value;        /* signal value, atomic operand */
    uint64_t compare;      /* COMPARE_SWAP */
};

PRS_LAYOUT_ASSERT(sizeof(struct prs_desc) == PRS_DESC_BYTES);

#define PRS_DESC_VALUES_MAX 7
struct prs_desc_values {
    uint32_t turn;
    uint8_t kind; /* PRS_DESC_VALUES */
    uint8_t count;
    uint16_t reserved;
    uint64_t values[PRS_DESC_VALUES_MAX];
};

PRS_LAYOUT_ASSERT(sizeof(struct prs_desc_values) == PRS_DESC_BYTES);

/* Control words, each on its own pair of cache lines: the adjacent-line prefetcher couples pairs.
 */
struct prs_ring_control {
    uint64_t tail; /* next position to claim; producers, compare-exchange */
    uint8_t pad0[120];
    uint64_t head; /* positions below it are free again; the proxy alone writes, once per batch */
    uint8_t pad1[120];
};

PRS_LAYOUT_ASSERT(sizeof(struct prs_ring_control) == 256);

#endif
