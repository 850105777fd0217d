/* SPDX-License-Identifier: Apache-2.0 */
#include "core/memory/allocator.h"

#include <stdint.h>
#include <stdlib.h>

/* Blocks in address order cover the whole range; two free ones are never neighbours. */
struct block {
    struct block *next;
    size_t offset, bytes;
    bool is_used;
};

struct prs_allocator {
    struct block *first;
};

static struct block *create_block(size_t offset, size_t bytes, struct block *next)
{
    struct block *block = malloc(sizeof *block);
    if (block != NULL) {
        *block = (struct block){.next = next, .offset = offset, .bytes = bytes};
    }
    return block;
}

enum perseus_status prs_allocator_create(size_t bytes, struct prs_allocator **out)
{
    struct prs_allocator *allocator = calloc(1, sizeof *allocator);
    if (allocator == NULL) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    allocator->first = create_block(0, bytes, NULL);
    if (allocator->first == NULL) {
        free(allocator);
        return PERSEUS_OUT_OF_MEMORY;
    }
    *out = allocator;
    return PERSEUS_OK;
}

void prs_allocator_destroy(struct prs_allocator *allocator)
{
    if (allocator == NULL) {
        return;
    }
    while (allocator->first != NULL) {
        struct block *block = allocator->first;
        allocator->first = block->next;
        free(block);
    }
    free(allocator);
}

enum perseus_status prs_allocator_take(struct prs_allocator *allocator, size_t bytes,
                                       size_t *out_offset)
{
    if (bytes > SIZE_MAX - PRS_ALLOCATOR_ALIGNMENT) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    bytes = (bytes + PRS_ALLOCATOR_ALIGNMENT - 1) & ~(size_t)(PRS_ALLOCATOR_ALIGNMENT - 1);
    struct block *block = allocator->first;
    while (block != NULL && (block->is_used || block->bytes < bytes)) {
        block = block->next;
    }
    if (block == NULL) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    if (block->bytes > bytes) {
        struct block *rest = create_block(block->offset + bytes, block->bytes - bytes, block->next);
        if (rest == NULL) {
            return PERSEUS_OUT_OF_MEMORY;
        }
        block->next = rest;
        block->bytes = bytes;
    }
    block->is_used = true;
    *out_offset = block->offset;
    return PERSEUS_OK;
}

/* Takes the free block behind `block` into it. */
static void absorb_next(struct block *block)
{
    struct block *next = block->next;
    block->bytes += next->bytes;
    block->next = next->next;
    free(next);
}

enum perseus_status prs_allocator_give(struct prs_allocator *allocator, size_t offset)
{
    struct block *before = NULL, *block = allocator->first;
    while (block != NULL && block->offset < offset) {
        before = block;
        block = block->next;
    }
    if (block == NULL || block->offset != offset || !block->is_used) {
        return PERSEUS_INVALID_ARGUMENT;
    }
    block->is_used = false;
    if (block->next != NULL && !block->next->is_used) {
        absorb_next(block);
    }
    if (before != NULL && !before->is_used) {
        absorb_next(before);
    }
    return PERSEUS_OK;
}

bool prs_allocator_holds(const struct prs_allocator *allocator, size_t offset)
{
    const struct block *block = allocator->first;
    while (block != NULL && block->offset < offset) {
        block = block->next;
    }
    return block != NULL && block->offset == offset && block->is_used;
}

size_t prs_allocator_largest_free(const struct prs_allocator *allocator)
{
    size_t largest = 0;
    for (const struct block *block = allocator->first; block != NULL; block = block->next) {
        if (!block->is_used && block->bytes > largest) {
            largest = block->bytes;
        }
    }
    return largest;
}
