/* SPDX-License-Identifier: Apache-2.0 */
/* address.h: checks what callers hand in, and turns addresses into heap offsets and windows. Every
 * failure is logged with the argument's name, its value, what is allowed and what to do. */
#ifndef PRS_CORE_ADDRESS_H
#define PRS_CORE_ADDRESS_H

#include "core/pe.h"

/* *out_peer: the target as descriptors name it; may be NULL. */
enum perseus_status prs_check_target(const struct perseus_pe *pe, int target, uint32_t *out_peer);
/* [address, address + bytes) in the own heap: the same offset at every PE. */
enum perseus_status prs_find_symmetric(const struct perseus_pe *pe, const char *argument,
                                       const void *address, size_t bytes, uint64_t *out_offset);
/* An aligned 8-byte word of the own heap. */
enum perseus_status prs_find_word(const struct perseus_pe *pe, const char *argument,
                                  const uint64_t *address, uint64_t *out_offset);
/* [address, address + bytes) in the own heap or in one registered buffer: sets out's local_window
 * and local. */
enum perseus_status prs_find_local(const struct perseus_pe *pe, const char *argument,
                                   const void *address, size_t bytes, struct prs_desc *out);

/* Where the heap of a local target is mapped here, or NULL; the target is valid. */
static inline unsigned char *prs_local_heap(const struct perseus_pe *pe, int target)
{
    return pe->peers->peer[target].base;
}

/* Counts an operation that the caller did itself. */
static inline void prs_count_local(const struct perseus_pe *pe, int target)
{
    /* Relaxed, like its readers: a statistic orders nothing. */
    atomic_fetch_add_explicit(&pe->peers->peer[target].local_ops, 1, memory_order_relaxed);
}

#endif
