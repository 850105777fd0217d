/* SPDX-License-Identifier: Apache-2.0 */
#include "ring/ring.h"

#include <stdlib.h>
#include <string.h>

#define PRS_RING_SLOTS_MIN 2
#define PRS_RING_SLOTS_MAX (UINT32_C(1) << 20)
#define PRS_RING_ALIGN     128 /* two cache lines: the adjacent-line prefetcher couples pairs */
#define PRS_RING_AHEAD     4   /* slots whose lines a producer asks for before it needs them */

/* Three groups of words that different threads write, each apart from the others, behind one that
 * nobody writes. */
struct prs_ring {
    uint32_t slots;
    uint32_t turn_shift; /* log2 of slots */
    /* A copy of control.head that may lag. Producers check room against it, so that the proxy's own
     * line travels only once per lap or when the ring looks full. */
    _Alignas(PRS_RING_ALIGN) uint64_t known_head;
    _Alignas(PRS_RING_ALIGN) struct prs_ring_control control;
    _Alignas(PRS_RING_ALIGN) struct prs_desc descs[];
};

enum perseus_status prs_ring_create(uint32_t slots, struct prs_ring **out)
{
    if (slots < PRS_RING_SLOTS_MIN || slots > PRS_RING_SLOTS_MAX || (slots & (slots - 1)) != 0) {
        return PERSEUS_INVALID_ARGUMENT;
    }
    size_t bytes = sizeof(struct prs_ring) + slots * sizeof(struct prs_desc);
    struct prs_ring *ring = aligned_alloc(PRS_RING_ALIGN, bytes);
    if (ring == NULL) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    memset(ring, 0, bytes);
    ring->slots = slots;
    ring->turn_shift = (uint32_t)__builtin_ctz(slots);
    *out = ring;
    return PERSEUS_OK;
}

void prs_ring_destroy(struct prs_ring *ring)
{
    free(ring);
}

static struct prs_desc *prs_ring_slot(const struct prs_ring *ring, uint64_t position)
{
    return (struct prs_desc *)&ring->descs[position & (ring->slots - 1)];
}

static uint32_t prs_ring_turn(const struct prs_ring *ring, uint64_t position)
{
    return 1 + (uint32_t)(position >> ring->turn_shift);
}

/* Signed, because a tail read before other producers moved on may lie below head: then the
 * compare-exchange fails, and "full" would be a lie. */
static bool prs_ring_fits(const struct prs_ring *ring, uint64_t end, uint64_t head)
{
    return (int64_t)(end - head) <= (int64_t)ring->slots;
}

static bool prs_ring_has_room(struct prs_ring *ring, uint64_t end)
{
    /* Acquire: with the release below, by whichever producer looked last; through it with the
     * proxy's release of head, after which it reads the slots no more. */
    if (prs_ring_fits(ring, end, __atomic_load_n(&ring->known_head, __ATOMIC_ACQUIRE))) {
        return true;
    }
    /* Acquire: with prs_ring_release. */
    uint64_t head = __atomic_load_n(&ring->control.head, __ATOMIC_ACQUIRE);
    /* Release: with the acquire above. A slower producer may put an older head back; that only
     * makes somebody look again. */
    __atomic_store_n(&ring->known_head, head, __ATOMIC_RELEASE);
    return prs_ring_fits(ring, end, head);
}

/* Claims n consecutive positions from *out_first on, or AGAIN. */
static enum perseus_status prs_ring_claim(struct prs_ring *ring, uint32_t n, uint64_t *out_first)
{
    uint64_t tail = __atomic_load_n(&ring->control.tail, __ATOMIC_RELAXED);
    do {
        if (!prs_ring_has_room(ring, tail + n)) {
            return PERSEUS_AGAIN;
        }
        /* Sequentially consistent: with prs_ring_is_empty. A proxy that says it is about to sleep
         * and then finds the ring empty is seen as sleeping by whoever claims afterwards. */
    } while (!__atomic_compare_exchange_n(&ring->control.tail, &tail, tail + n, true,
                                          __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    *out_first = tail;
    return PERSEUS_OK;
}

static void prs_ring_publish(struct prs_ring *ring, uint64_t position, const struct prs_desc *desc)
{
    struct prs_desc *slot = prs_ring_slot(ring, position);
    /* The consumer's core holds the lines of the last lap. Without this the next compare-exchange
     * would wait for this slot's line, one core-to-core round trip per descriptor. */
    __builtin_prefetch(prs_ring_slot(ring, position + PRS_RING_AHEAD), 1);
    memcpy((unsigned char *)slot + sizeof slot->turn,
           (const unsigned char *)desc + sizeof desc->turn, sizeof *desc - sizeof desc->turn);
    /* Release: with the acquire of prs_ring_peek. */
    __atomic_store_n(&slot->turn, prs_ring_turn(ring, position), __ATOMIC_RELEASE);
}

enum perseus_status prs_ring_push(struct prs_ring *ring, const struct prs_desc *desc,
                                  uint64_t *out_position)
{
    uint64_t position = 0;
    enum perseus_status status = prs_ring_claim(ring, 1, &position);
    if (status != PERSEUS_OK) {
        return status;
    }
    prs_ring_publish(ring, position, desc);
    if (out_position != NULL) {
        *out_position = position;
    }
    return PERSEUS_OK;
}

enum perseus_status prs_ring_push_many(struct prs_ring *ring, const struct prs_desc *descs,
                                       uint32_t n)
{
    if (n > ring->slots) {
        return PERSEUS_INVALID_ARGUMENT; /* AGAIN would promise that it can fit one day */
    }
    uint64_t first = 0;
    enum perseus_status status = prs_ring_claim(ring, n, &first);
    if (status != PERSEUS_OK) {
        return status;
    }
    for (uint32_t i = 0; i < n; i++) {
        prs_ring_publish(ring, first + i, &descs[i]);
    }
    return PERSEUS_OK;
}

const struct prs_desc *prs_ring_peek(const struct prs_ring *ring, uint32_t index)
{
    /* Relaxed: the proxy alone writes head, and the proxy alone calls this. */
    uint64_t position = __atomic_load_n(&ring->control.head, __ATOMIC_RELAXED) + index;
    const struct prs_desc *slot = prs_ring_slot(ring, position);
    /* Acquire: with prs_ring_publish. A slot one lap behind carries the turn before. */
    bool published =
        __atomic_load_n(&slot->turn, __ATOMIC_ACQUIRE) == prs_ring_turn(ring, position);
    return published ? slot : NULL;
}

void prs_ring_release(struct prs_ring *ring, uint32_t n)
{
    uint64_t head = __atomic_load_n(&ring->control.head, __ATOMIC_RELAXED);
    /* Release: with prs_ring_has_room; the slots have been read. */
    __atomic_store_n(&ring->control.head, head + n, __ATOMIC_RELEASE);
}

bool prs_ring_is_empty(const struct prs_ring *ring)
{
    /* Sequentially consistent: with prs_ring_claim. Claimed but not yet published is not empty. */
    return __atomic_load_n(&ring->control.tail, __ATOMIC_SEQ_CST) ==
           __atomic_load_n(&ring->control.head, __ATOMIC_RELAXED);
}

uint32_t prs_ring_slots(const struct prs_ring *ring)
{
    return ring->slots;
}
