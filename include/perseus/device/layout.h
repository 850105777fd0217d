/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perseus/device/layout.h: what producers (CPU threads, or CTAs of a GPU) and the proxy agree on.
 *
 * Valid as C11, C++ and CUDA: fixed-width integers, no _Atomic. ring.c and perseus/device.cuh say
 * which words are atomic, and with whom.
 *
 * A descriptor is one 64-byte cache line of four 16-byte quarters, and each quarter begins with the
 * turn of its slot: 1 + ring position / slots, wrapping; 0 in a fresh ring. Sixteen bytes are the
 * most that a GPU stores whole (PTX: st.b128 is single-copy atomic, a vector of smaller stores is
 * not), so a consumer that finds the turn in all four quarters has all of the descriptor, in
 * whatever order they arrived. A producer that shares a coherent cache with the consumer writes the
 * first quarter's turn last, with release. The consumer looks only for the turn it awaits, and a
 * slot that lags holds the one before, so 16 bits are plenty.
 */
#ifndef PERSEUS_DEVICE_LAYOUT_H
#define PERSEUS_DEVICE_LAYOUT_H

#ifdef __cplusplus
#include <cstddef>
#include <cstdint>
#else
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#endif

#ifdef __CUDACC__
#define PRS_ANYWHERE __host__ __device__
#else
#define PRS_ANYWHERE
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

#define PRS_DESC_ALL_PEERS  UINT32_C(0xffffffff)
#define PRS_DESC_NO_TICKET  UINT32_C(0xffffffff)
#define PRS_DESC_TICKET_END UINT32_C(0x1000000) /* tickets are below: the proxy adds the source */
#define PRS_DESC_BYTES      64
#define PRS_DESC_QUARTERS   4

struct prs_desc {
    uint16_t turn;
    uint8_t kind;   /* enum prs_desc_kind */
    uint8_t sub;    /* SIGNAL*: enum perseus_signal_op; ATOMIC: enum perseus_atomic */
    uint32_t peer;  /* target PE */
    uint64_t local; /* offset in local_window (PUT, GET) */

    uint16_t turn_1;
    uint16_t local_window; /* which local region `local` is an offset into */
    uint32_t ticket;       /* completion slot of a waiting producer, or PRS_DESC_NO_TICKET */
    uint64_t remote;       /* heap offset at the target */

    uint64_t turn_2 : 16;
    uint64_t bytes : 48; /* PUT, GET, vector */
    uint64_t value;      /* signal value, atomic operand */

    uint16_t turn_3;
    uint16_t reserved_3[3];
    union {
        uint64_t signal;  /* PUT_SIGNAL: heap offset of the signal word */
        uint64_t compare; /* ATOMIC: COMPARE_SWAP */
    };
};

#define PRS_DESC_VALUES_MAX 4
struct prs_desc_values {
    struct {
        uint16_t turn;
        uint8_t kind;  /* PRS_DESC_VALUES; in the first quarter only, like the count */
        uint8_t count; /* values in use, the first ones */
        uint32_t reserved;
        uint64_t value;
    } of[PRS_DESC_VALUES_MAX];
};

/* The same bytes as what they are when they are stored and looked for. */
struct prs_desc_quarter {
    uint16_t turn;
    uint16_t a;
    uint32_t b;
    uint64_t c;
};

union prs_desc_slot {
    struct prs_desc desc;
    struct prs_desc_values values;
    struct prs_desc_quarter quarters[PRS_DESC_QUARTERS];
};

static_assert(sizeof(struct prs_desc) == PRS_DESC_BYTES, "a descriptor is a cache line");
static_assert(sizeof(struct prs_desc_values) == PRS_DESC_BYTES, "values are a descriptor");
static_assert(sizeof(struct prs_desc_quarter) == 16, "a GPU stores a quarter whole");
static_assert(sizeof(union prs_desc_slot) == PRS_DESC_BYTES, "a slot is a descriptor");

/* Makes *out the descriptor of the next values of a vector; takes at most PRS_DESC_VALUES_MAX of
 * `n`, and returns how many. */
static inline PRS_ANYWHERE uint32_t prs_desc_take_values(union prs_desc_slot *out,
                                                         const uint64_t *values, uint64_t n)
{
    uint32_t count = n < PRS_DESC_VALUES_MAX ? (uint32_t)n : PRS_DESC_VALUES_MAX;
    for (uint32_t i = 0; i < PRS_DESC_VALUES_MAX; i++) {
        out->quarters[i].turn = 0;
        out->quarters[i].a = 0;
        out->quarters[i].b = 0;
        out->quarters[i].c = i < count ? values[i] : 0;
    }
    out->values.of[0].kind = PRS_DESC_VALUES;
    out->values.of[0].count = (uint8_t)count;
    return count;
}

/*
 * A ring is memory in two places. What producers share among themselves lies where they are: in
 * the GPU's memory for a GPU's ring, because an atomic across PCIe costs a round trip, where the
 * platform has any. What both sides touch lies where the consumer is: in mapped, pinned host
 * memory, whose lines it reads without leaving its cache. Words that different threads write lie on
 * different pairs of cache lines: the adjacent-line prefetcher couples pairs.
 */
#define PRS_RING_ALIGN 128

struct prs_ring_producers {
    uint64_t tail; /* next position to claim */
    uint8_t pad_0[PRS_RING_ALIGN - sizeof(uint64_t)];
    /* A copy of the head that may lag. Producers check room against it, so that the consumer's own
     * line travels only when the ring looks full. */
    uint64_t known_head;
    uint32_t is_looking; /* a GPU's: one thread reads the head across PCIe; the others wait */
    uint32_t is_broken;  /* a GPU's: a producer gave up; positions are missing from here on */
    uint8_t pad_1[PRS_RING_ALIGN - 2 * sizeof(uint64_t)];
};

struct prs_ring_head {
    uint64_t head; /* positions below it are free again; the consumer alone writes, once a batch */
    uint8_t pad[PRS_RING_ALIGN - sizeof(uint64_t)];
};

/* One side's view of a ring: plain pointers, also as a kernel's argument. */
struct prs_ring {
    struct prs_ring_producers *producers; /* NULL: out of this side's reach */
    struct prs_ring_head *head;
    union prs_desc_slot *slots; /* right behind the head */
    uint32_t n_slots;           /* a power of two */
    uint32_t turn_shift;        /* log2 of it */
};

static inline PRS_ANYWHERE union prs_desc_slot *prs_ring_slot(const struct prs_ring *ring,
                                                              uint64_t position)
{
    return &ring->slots[position & (ring->n_slots - 1)];
}

static inline PRS_ANYWHERE uint16_t prs_ring_turn(const struct prs_ring *ring, uint64_t position)
{
    return (uint16_t)(1 + (position >> ring->turn_shift));
}

/* Signed, because a tail read before other producers moved on may lie below head: then the claim
 * fails, and "full" would be a lie. */
static inline PRS_ANYWHERE int prs_ring_fits(const struct prs_ring *ring, uint64_t end,
                                             uint64_t head)
{
    return (int64_t)(end - head) <= (int64_t)ring->n_slots;
}

/*
 * Answers to producers that share no atomics with the proxy (answers.h): each word has one writer.
 * The producer keeps who holds which slot to itself, counts its uses of a slot, and puts both into
 * the ticket; the proxy writes status and result, and then, with release, the ticket it answers.
 */
#define PRS_ANSWER_SLOT_BITS 10
#define PRS_ANSWERS_MAX      (1u << PRS_ANSWER_SLOT_BITS)
#define PRS_ANSWER_USE_MASK  0x3fffu /* of the count of uses, above the slot's bits */

struct prs_answer {
    uint32_t ticket; /* the one that was answered last; PRS_DESC_NO_TICKET at first */
    uint32_t status; /* enum perseus_status */
    uint64_t result;
};

static inline PRS_ANYWHERE uint32_t prs_answer_ticket(uint32_t slot, uint32_t use)
{
    return slot | (use & PRS_ANSWER_USE_MASK) << PRS_ANSWER_SLOT_BITS;
}

static inline PRS_ANYWHERE uint32_t prs_answer_slot(uint32_t ticket)
{
    return ticket & (PRS_ANSWERS_MAX - 1);
}

#endif
