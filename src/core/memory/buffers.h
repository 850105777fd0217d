/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffers.h: the local memory that operations may read from or write to besides the heap: what
 * perseus_buffer_register was given. Each buffer has a window number, which descriptors carry.
 * Window 0 is the heap.
 *
 * Any thread. A look-up takes a read lock and O(log buffers); the proxy's takes neither.
 */
#ifndef PRS_CORE_MEMORY_BUFFERS_H
#define PRS_CORE_MEMORY_BUFFERS_H

#include <stdbool.h>

#include "fabric/fabric.h"
#include "gpu/side.h"

#define PRS_BUFFERS_MAX 4096 /* windows, the heap's included */
#define PRS_WINDOW_HEAP 0

struct prs_buffers;

/* `gpu`: of the heap, which tells GPU memory from the host's and outlives the buffers. NULL: all is
 * the host's. */
enum perseus_status prs_buffers_create(const struct prs_log *log, struct prs_gpu_side *gpu,
                                       struct prs_buffers **out);
/* Closes the regions: before the fabric, after the endpoint. NULL allowed. */
void prs_buffers_destroy(struct prs_buffers *buffers);
/* Before any add. From here on buffers are registered with the fabric too; `heap` is window 0. */
void prs_buffers_set_fabric(struct prs_buffers *buffers, struct prs_fabric *fabric,
                            struct prs_region *heap);

/* INVALID_ARGUMENT: it overlaps a registered buffer. LIMIT: too many buffers. */
enum perseus_status prs_buffers_add(struct prs_buffers *buffers, void *base, size_t bytes);
bool prs_buffers_has(struct prs_buffers *buffers, const void *base);
/* No operation uses the buffer any more. INVALID_ARGUMENT: none begins at base. */
enum perseus_status prs_buffers_remove(struct prs_buffers *buffers, const void *base);

/* Whether [address, address + bytes) lies in one buffer; then where. */
bool prs_buffers_find(struct prs_buffers *buffers, const void *address, size_t bytes,
                      uint16_t *out_window, uint64_t *out_offset);
/* Adds to `out`, behind what it has, the buffers that are GPU memory, as far as there is room. */
void prs_buffers_describe(struct prs_buffers *buffers, struct perseus_device_pe *out);
/* The proxy's look-up, NULL if there is no such window. */
struct prs_region *prs_buffers_region(const struct prs_buffers *buffers, uint16_t window);

#endif
