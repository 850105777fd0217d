/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h: what NVSHMEM registered on this PE: heap chunks and user buffers, by address.
 *
 * Changed with both routes' locks held, so whoever holds either may look.
 */
#ifndef PRS_NVSHMEM_MEMORY_H
#define PRS_NVSHMEM_MEMORY_H

#include "host/handle.h"
#include "order/order.h"

struct prs_route;

struct prs_chunk {
    uintptr_t base;
    size_t bytes;
    enum prs_handle_kind kind;
    bool device;
    uint32_t number;
    struct prs_window *windows[PRS_SIDE_COUNT]; /* WINDOW */
    struct prs_region *regions[PRS_SIDE_COUNT]; /* of what the fabric itself reads and writes */
};

struct prs_memory {
    const struct prs_log *log;
    struct prs_route *routes; /* by side */
    uint32_t owner;           /* this PE */
    bool stage_host;          /* system memory is staged too, and so is the proxy's alone */
    struct prs_chunk *chunks; /* sorted by base, disjoint */
    uint32_t count, capacity;
    uint32_t heap_next, local_next; /* numbers */
};

/* Registers [buffer, buffer + bytes) with the routes and fills the host's blob. `device`: memory of
 * the GPU. `local_only`: a user buffer. With both routes' locks held. */
enum perseus_status prs_memory_register(struct prs_memory *memory, void *buffer, size_t bytes,
                                        bool device, bool local_only, unsigned char *out_blob);
/* `blob` is the host's copy of what register wrote, at any address. Under the same locks. */
enum perseus_status prs_memory_release(struct prs_memory *memory, const unsigned char *blob);
void prs_memory_finish(struct prs_memory *memory); /* a zeroed table is allowed */

/* The chunk that holds all of [pointer, pointer + bytes), or NULL. */
const struct prs_chunk *prs_memory_find(const struct prs_memory *memory, const void *pointer,
                                        size_t bytes);
/* Reports local memory that nobody registered. */
enum perseus_status prs_memory_stray(const struct prs_memory *memory, int pe, const void *local,
                                     size_t bytes);

#endif
