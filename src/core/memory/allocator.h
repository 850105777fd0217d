/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allocator.h: hands out offsets of a range it never touches. Deterministic: the same calls give
 * the same offsets on every PE, which is what makes the heap symmetric. First fit from the lowest
 * offset, neighbours are merged when freed. Its records are its own memory, so that no stray remote
 * write can damage them.
 *
 * One thread at a time. A call costs O(blocks).
 */
#ifndef PRS_CORE_MEMORY_ALLOCATOR_H
#define PRS_CORE_MEMORY_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>

#include <perseus/status.h>

#define PRS_ALLOCATOR_ALIGNMENT 64

struct prs_allocator;

/* bytes: a multiple of the alignment. */
enum perseus_status prs_allocator_create(size_t bytes, struct prs_allocator **out);
void prs_allocator_destroy(struct prs_allocator *allocator); /* NULL allowed */

/* Rounds bytes (1 and more) up to the alignment. OUT_OF_MEMORY: no free block is large enough. */
enum perseus_status prs_allocator_take(struct prs_allocator *allocator, size_t bytes,
                                       size_t *out_offset);
/* INVALID_ARGUMENT: no block in use begins at `offset`. */
enum perseus_status prs_allocator_give(struct prs_allocator *allocator, size_t offset);
/* Whether a block in use begins at `offset`. */
bool prs_allocator_holds(const struct prs_allocator *allocator, size_t offset);
size_t prs_allocator_largest_free(const struct prs_allocator *allocator);

#endif
