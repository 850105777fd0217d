/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap.h: the symmetric heap, one memory object (memfd) that node-local peers map too. It has no
 * name in any file system, so nothing is left behind however a PE ends. Or a GPU's memory: then no
 * CPU touches it, and no peer maps it.
 *
 * Layout, the same on every PE: one page of words for the library's own barrier, then the user's
 * part. Offsets count from the mapping's base. Untouched pages cost nothing.
 */
#ifndef PRS_CORE_MEMORY_HEAP_H
#define PRS_CORE_MEMORY_HEAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/log.h"
#include "core/memory/allocator.h"
#include "gpu/side.h"

#define PRS_HEAP_RESERVED  4096
#define PRS_HEAP_WORDS_MAX (PRS_HEAP_RESERVED / 64)

struct prs_heap {
    _Atomic uint32_t shares;  /* of the owner, and of the other PEs of this process */
    struct prs_gpu_side *gpu; /* whose memory it is, with what kernels have; NULL: the host's */
    unsigned char *base;
    size_t bytes;         /* of the mapping, PRS_HEAP_RESERVED included */
    size_t touched_bytes; /* memory from here on was never handed out: still zero */
    int fd;               /* -1 once every peer has mapped the heap, and of a GPU's */
    dev_t device;         /* with inode: what the fd of another process must show to be this heap */
    ino_t inode;
    bool takes_pages; /* at prs_heap_take: the kernel does not promise what nobody has touched */
    struct prs_allocator *allocator;
};

/* bytes: of the user's part, whole pages. */
enum perseus_status prs_heap_create(size_t bytes, const struct prs_log *log, struct prs_heap **out);
/* A GPU's: `config` but for its heap, of which `bytes` are the user's part. */
enum perseus_status prs_heap_create_gpu(size_t bytes, const struct prs_gpu_side_config *config,
                                        struct prs_heap **out);
/* A PE of the same process uses the heap too, until it destroys its share. */
struct prs_heap *prs_heap_share(struct prs_heap *heap);
/* Gives up a share; the last one frees. NULL allowed. */
void prs_heap_destroy(struct prs_heap *heap);
void prs_heap_close_fd(struct prs_heap *heap);

/* Zeroed memory of the user's part; OUT_OF_MEMORY is not logged here. One thread at a time. */
enum perseus_status prs_heap_take(struct prs_heap *heap, size_t bytes, uint64_t *out_offset);
enum perseus_status prs_heap_give(struct prs_heap *heap, uint64_t offset);
/* The word at `offset`, with acquire: the payload of a signal is readable. */
enum perseus_status prs_heap_load(const struct prs_heap *heap, uint64_t offset, uint64_t *out);
/* Whether a block that was taken begins at `offset`. */
bool prs_heap_holds(const struct prs_heap *heap, uint64_t offset);

/* Offset of the index-th word of the library's own, each on its own cache line. */
static inline uint64_t prs_heap_word(uint32_t index)
{
    return (uint64_t)index * 64;
}

/* Whether [address, address + bytes) lies in the user's part; then *out_offset is set. */
static inline bool prs_heap_find(const struct prs_heap *heap, const void *address, size_t bytes,
                                 uint64_t *out_offset)
{
    uintptr_t offset = (uintptr_t)address - (uintptr_t)heap->base;
    if (offset < PRS_HEAP_RESERVED || offset > heap->bytes || bytes > heap->bytes - offset) {
        return false;
    }
    *out_offset = offset;
    return true;
}

#endif
