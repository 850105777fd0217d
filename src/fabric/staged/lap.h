/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lap.h: positions in a ring of slots. Pure; also for rings of other slots than the decorator's.
 *
 * Positions are byte counts since the start and never wrap; a slot lies at position % ring bytes,
 * whole: the rest of a lap that is too short for it becomes padding. A slot is a head of
 * PRS_SLOT_ALIGN bytes and its payload, and its span a multiple of that.
 */
#ifndef PRS_FABRIC_STAGED_LAP_H
#define PRS_FABRIC_STAGED_LAP_H

#include <stdint.h>

#define PRS_SLOT_ALIGN 64

/* Bytes from `tail` to the start of the next slot of `span` bytes: 0, or the padding to the end of
 * the lap. */
static inline uint64_t prs_lap_padding(uint64_t tail, uint64_t span, uint64_t ring_bytes)
{
    uint64_t rest = ring_bytes - tail % ring_bytes;
    return span <= rest ? 0 : rest;
}

static inline uint64_t prs_slot_span(uint64_t payload_bytes)
{
    uint64_t bytes = PRS_SLOT_ALIGN + payload_bytes;
    return (bytes + PRS_SLOT_ALIGN - 1) / PRS_SLOT_ALIGN * PRS_SLOT_ALIGN;
}

#endif
