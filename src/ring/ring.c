/* SPDX-License-Identifier: Apache-2.0 */
#include "ring/ring.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS_MIN 2
#define SLOTS_MAX (UINT32_C(1) << 20)
#define AHEAD     4 /* slots whose lines a producer asks for before it needs them */

/* The three places that different threads write, behind a view that nobody writes. */
struct own_ring {
    struct prs_ring ring;
    _Alignas(PRS_RING_ALIGN) struct prs_ring_producers producers;
    _Alignas(PRS_RING_ALIGN) unsigned char memory[];
};

size_t prs_ring_bytes(uint32_t slots)
{
    return sizeof(struct prs_ring_head) + slots * sizeof(union prs_desc_slot);
}

static bool slots_valid(uint32_t slots)
{
    return slots >= SLOTS_MIN && slots <= SLOTS_MAX && (slots & (slots - 1)) == 0;
}

enum perseus_status prs_ring_place(uint32_t slots, void *memory,
                                   struct prs_ring_producers *producers, struct prs_ring *out)
{
    if (!slots_valid(slots)) {
        return PERSEUS_INVALID_ARGUMENT;
    }
    memset(memory, 0, prs_ring_bytes(slots));
    if (producers != NULL) {
        *producers = (struct prs_ring_producers){.tail = 0};
    }
    struct prs_ring_head *head = memory;
    *out = (struct prs_ring){.producers = producers,
                             .head = head,
                             .slots = (union prs_desc_slot *)(void *)(head + 1),
                             .n_slots = slots,
                             .turn_shift = (uint32_t)__builtin_ctz(slots)};
    return PERSEUS_OK;
}

enum perseus_status prs_ring_create(uint32_t slots, struct prs_ring **out)
{
    if (!slots_valid(slots)) {
        return PERSEUS_INVALID_ARGUMENT;
    }
    struct own_ring *own = aligned_alloc(PRS_RING_ALIGN, sizeof *own + prs_ring_bytes(slots));
    if (own == NULL) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    *out = &own->ring;
    return prs_ring_place(slots, own->memory, &own->producers, &own->ring);
}

void prs_ring_destroy(struct prs_ring *ring)
{
    free(ring); /* the first member of own_ring */
}

static bool has_room(struct prs_ring *ring, uint64_t end)
{
    /* Acquire: with the release below, by whichever producer looked last; through it with the
     * proxy's release of head, after which it reads the slots no more. */
    if (prs_ring_fits(ring, end, __atomic_load_n(&ring->producers->known_head, __ATOMIC_ACQUIRE))) {
        return true;
    }
    /* Acquire: with prs_ring_release. */
    uint64_t head = __atomic_load_n(&ring->head->head, __ATOMIC_ACQUIRE);
    /* Release: with the acquire above. A slower producer may put an older head back; that only
     * makes somebody look again. */
    __atomic_store_n(&ring->producers->known_head, head, __ATOMIC_RELEASE);
    return prs_ring_fits(ring, end, head);
}

/* Claims n consecutive positions from *out_first on, or AGAIN. */
static enum perseus_status claim(struct prs_ring *ring, uint32_t n, uint64_t *out_first)
{
    uint64_t tail = __atomic_load_n(&ring->producers->tail, __ATOMIC_RELAXED);
    do {
        if (!has_room(ring, tail + n)) {
            return PERSEUS_AGAIN;
        }
        /* Sequentially consistent: with prs_ring_is_empty. A proxy that says it is about to sleep
         * and then finds the ring empty is seen as sleeping by whoever claims afterwards. */
    } while (!__atomic_compare_exchange_n(&ring->producers->tail, &tail, tail + n, true,
                                          __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    *out_first = tail;
    return PERSEUS_OK;
}

static void publish(struct prs_ring *ring, uint64_t position, const struct prs_desc *desc)
{
    union prs_desc_slot *slot = prs_ring_slot(ring, position);
    uint16_t turn = prs_ring_turn(ring, position);
    /* The consumer's core holds the lines of the last lap. Without this the next compare-exchange
     * would wait for this slot's line, one core-to-core round trip per descriptor. */
    __builtin_prefetch(prs_ring_slot(ring, position + AHEAD), 1);
    union prs_desc_slot filled = {.desc = *desc};
    for (int i = 1; i < PRS_DESC_QUARTERS; i++) {
        filled.quarters[i].turn = turn;
    }
    memcpy((unsigned char *)slot + sizeof turn, (const unsigned char *)&filled + sizeof turn,
           sizeof filled - sizeof turn);
    /* Release: with the acquire of prs_ring_peek. */
    __atomic_store_n(&slot->desc.turn, turn, __ATOMIC_RELEASE);
}

enum perseus_status prs_ring_push(struct prs_ring *ring, const struct prs_desc *desc,
                                  uint64_t *out_position)
{
    uint64_t position = 0;
    enum perseus_status status = claim(ring, 1, &position);
    if (status != PERSEUS_OK) {
        return status;
    }
    publish(ring, position, desc);
    if (out_position != NULL) {
        *out_position = position;
    }
    return PERSEUS_OK;
}

enum perseus_status prs_ring_push_many(struct prs_ring *ring, const struct prs_desc *descs,
                                       uint32_t n)
{
    if (n > ring->n_slots) {
        return PERSEUS_INVALID_ARGUMENT; /* AGAIN would promise that it can fit one day */
    }
    uint64_t first = 0;
    enum perseus_status status = claim(ring, n, &first);
    if (status != PERSEUS_OK) {
        return status;
    }
    for (uint32_t i = 0; i < n; i++) {
        publish(ring, first + i, &descs[i]);
    }
    return PERSEUS_OK;
}

const struct prs_desc *prs_ring_peek(const struct prs_ring *ring, uint32_t index)
{
    /* Relaxed: the proxy alone writes head, and the proxy alone calls this. */
    uint64_t position = __atomic_load_n(&ring->head->head, __ATOMIC_RELAXED) + index;
    const union prs_desc_slot *slot = prs_ring_slot(ring, position);
    uint16_t turn = prs_ring_turn(ring, position);
    /* Acquire: with publish, whose release covers the whole slot, and with the GPU's store of each
     * quarter (perseus/device.cuh). A slot one lap behind carries the turn before. */
    for (int i = 0; i < PRS_DESC_QUARTERS; i++) {
        if (__atomic_load_n(&slot->quarters[i].turn, __ATOMIC_ACQUIRE) != turn) {
            return NULL;
        }
    }
    return &slot->desc;
}

void prs_ring_release(struct prs_ring *ring, uint32_t n)
{
    uint64_t head = __atomic_load_n(&ring->head->head, __ATOMIC_RELAXED);
    /* Release: with has_room; the slots have been read. */
    __atomic_store_n(&ring->head->head, head + n, __ATOMIC_RELEASE);
}

bool prs_ring_is_empty(const struct prs_ring *ring)
{
    if (ring->producers == NULL) {
        return prs_ring_peek(ring, 0) == NULL;
    }
    /* Sequentially consistent: with claim. Claimed but not yet published is not empty. */
    return __atomic_load_n(&ring->producers->tail, __ATOMIC_SEQ_CST) ==
           __atomic_load_n(&ring->head->head, __ATOMIC_RELAXED);
}

uint32_t prs_ring_slots(const struct prs_ring *ring)
{
    return ring->n_slots;
}
