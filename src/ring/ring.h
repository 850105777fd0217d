/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring/ring.h: the channel ring, a bounded multi-producer single-consumer queue of descriptors.
 *
 * Producers claim a position with one compare-exchange on tail, after checking it against head,
 * fill the slot, and publish it by storing `turn` with release. They never lock and never wait for
 * each other; a full ring is PERSEUS_AGAIN. The proxy reads slots in order while their turn matches
 * (acquire), and gives whole batches back with one release store of head.
 */
#ifndef PRS_RING_RING_H
#define PRS_RING_RING_H

#include <stdbool.h>

#include <perseus/status.h>

#include "ring/layout.h"

struct prs_ring; /* opaque; memory owned by the ring */

/* slots: a power of two, 2 to 2^20. */
enum perseus_status prs_ring_create(uint32_t slots, struct prs_ring **out);
void prs_ring_destroy(struct prs_ring *ring); /* NULL allowed */

/* Any thread. Copies *desc (turn ignored). AGAIN when full: nothing happened. *out_position (may be
 * NULL) is the claimed position. */
enum perseus_status prs_ring_push(struct prs_ring *ring, const struct prs_desc *desc,
                                  uint64_t *out_position);
/* Any thread. All n descriptors at consecutive positions, or AGAIN and none; n <= slots. */
enum perseus_status prs_ring_push_many(struct prs_ring *ring, const struct prs_desc *descs,
                                       uint32_t n);

/* Proxy only. The index-th unreleased descriptor (0 is the oldest), or NULL if not published yet.
 * Stays valid until released. */
const struct prs_desc *prs_ring_peek(const struct prs_ring *ring, uint32_t index);
/* Proxy only. Gives back the n oldest. */
void prs_ring_release(struct prs_ring *ring, uint32_t n);

/* Any thread; a hint, stale at once. */
bool prs_ring_is_empty(const struct prs_ring *ring);
uint32_t prs_ring_slots(const struct prs_ring *ring);

#endif
