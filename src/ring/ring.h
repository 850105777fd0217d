/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring/ring.h: the channel ring, a bounded multi-producer single-consumer queue of descriptors.
 *
 * Producers claim a position with one compare-exchange on tail, after checking it against head,
 * fill the slot, and publish it by storing its turn with release. They never lock and never wait
 * for each other; a full ring is PERSEUS_AGAIN. The proxy reads slots in order while their turn
 * matches (acquire), and gives whole batches back with one release store of head.
 *
 * Producers may also be out of reach: a GPU's (perseus/device.cuh), in whose memory the tail lies.
 * Then only the consumer's calls are for this side, and it learns of a descriptor by looking.
 */
#ifndef PRS_RING_RING_H
#define PRS_RING_RING_H

#include <stdbool.h>

#include <perseus/status.h>

#include <perseus/device/layout.h>

/* A ring in memory of its own, for producers of this process. slots: a power of two, 2 to 2^20. */
enum perseus_status prs_ring_create(uint32_t slots, struct prs_ring **out);
void prs_ring_destroy(struct prs_ring *ring); /* of prs_ring_create; NULL allowed */

/* A ring in the caller's memory: `memory` of prs_ring_bytes, aligned to PRS_RING_ALIGN, and the
 * producers' words, NULL where they are out of reach (whoever reaches them zeroes them). Zeroes
 * what it is given. */
size_t prs_ring_bytes(uint32_t slots);
enum perseus_status prs_ring_place(uint32_t slots, void *memory,
                                   struct prs_ring_producers *producers, struct prs_ring *out);

/* Any thread; producers in reach. Copies *desc (turns ignored). AGAIN when full: nothing happened.
 * *out_position (may be NULL) is the claimed position. */
enum perseus_status prs_ring_push(struct prs_ring *ring, const struct prs_desc *desc,
                                  uint64_t *out_position);
/* The same. All n descriptors at consecutive positions, or AGAIN and none; n <= slots. */
enum perseus_status prs_ring_push_many(struct prs_ring *ring, const struct prs_desc *descs,
                                       uint32_t n);

/* Proxy only. The index-th unreleased descriptor (0 is the oldest), or NULL if not published yet.
 * Stays valid until released. */
const struct prs_desc *prs_ring_peek(const struct prs_ring *ring, uint32_t index);
/* Proxy only. Gives back the n oldest. */
void prs_ring_release(struct prs_ring *ring, uint32_t n);

/* Any thread; a hint, stale at once. Of a ring whose producers are out of reach: whether nothing is
 * published, proxy only. */
bool prs_ring_is_empty(const struct prs_ring *ring);
uint32_t prs_ring_slots(const struct prs_ring *ring);

#endif
