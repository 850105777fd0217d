/* SPDX-License-Identifier: Apache-2.0 */
#include "core/memory/buffers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct prs_buffer {
    uintptr_t base;
    size_t bytes;
    uint16_t window;
    enum prs_memory_kind kind;
};

struct prs_buffers {
    const struct prs_log *log;
    struct prs_gpu_side *gpu;  /* NULL: no buffer is GPU memory */
    struct prs_fabric *fabric; /* NULL: every peer is local */
    pthread_rwlock_t lock;
    uint32_t n;
    struct prs_buffer sorted[PRS_BUFFERS_MAX - 1]; /* by base, not overlapping; untouched pages of
                                                      the table cost nothing */
    bool is_used[PRS_BUFFERS_MAX];                 /* windows */
    struct prs_region *_Atomic regions[PRS_BUFFERS_MAX];
};

enum perseus_status prs_buffers_create(const struct prs_log *log, struct prs_gpu_side *gpu,
                                       struct prs_buffers **out)
{
    struct prs_buffers *buffers = calloc(1, sizeof *buffers);
    if (buffers == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for the table of buffers");
    }
    buffers->log = log;
    buffers->gpu = gpu;
    buffers->is_used[PRS_WINDOW_HEAP] = true;
    pthread_rwlock_init(&buffers->lock, NULL);
    *out = buffers;
    return PERSEUS_OK;
}

static void close_region(struct prs_buffers *buffers, uint16_t window)
{
    struct prs_region *region =
        atomic_exchange_explicit(&buffers->regions[window], NULL, memory_order_relaxed);
    if (region != NULL) {
        buffers->fabric->ops->region_close(region);
    }
}

void prs_buffers_destroy(struct prs_buffers *buffers)
{
    if (buffers == NULL) {
        return;
    }
    for (uint32_t i = 0; i < buffers->n; i++) {
        close_region(buffers, buffers->sorted[i].window);
    }
    pthread_rwlock_destroy(&buffers->lock);
    free(buffers);
}

void prs_buffers_set_fabric(struct prs_buffers *buffers, struct prs_fabric *fabric,
                            struct prs_region *heap)
{
    buffers->fabric = fabric;
    atomic_store_explicit(&buffers->regions[PRS_WINDOW_HEAP], heap, memory_order_relaxed);
}

/* Number of buffers that begin at or below address. */
static uint32_t rank_of(const struct prs_buffers *buffers, uintptr_t address)
{
    uint32_t low = 0, high = buffers->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (buffers->sorted[middle].base <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static uint16_t free_window(const struct prs_buffers *buffers)
{
    uint32_t window = 1;
    while (buffers->is_used[window]) {
        window++; /* ends: n < PRS_BUFFERS_MAX - 1 */
    }
    return (uint16_t)window;
}

/* Under the write lock. */
static enum perseus_status insert(struct prs_buffers *buffers, void *base, size_t bytes)
{
    uintptr_t address = (uintptr_t)base;
    uint32_t at = rank_of(buffers, address);
    const struct prs_buffer *before = at > 0 ? &buffers->sorted[at - 1] : NULL;
    const struct prs_buffer *after = at < buffers->n ? &buffers->sorted[at] : NULL;
    if ((before != NULL && address - before->base < before->bytes) ||
        (after != NULL && after->base - address < bytes)) {
        return prs_fail(buffers->log, PERSEUS_INVALID_ARGUMENT,
                        "the buffer at %p of %zu bytes overlaps one that is registered; unregister "
                        "that one first",
                        base, bytes);
    }
    if (buffers->n == PRS_BUFFERS_MAX - 1) {
        return prs_fail(buffers->log, PERSEUS_LIMIT,
                        "%d buffers are registered, which is the most; register fewer, larger ones",
                        PRS_BUFFERS_MAX - 1);
    }
    uint16_t window = free_window(buffers);
    bool is_device = buffers->gpu != NULL && prs_gpu_side_is_device(buffers->gpu, base);
    enum prs_memory_kind kind = is_device ? PRS_MEMORY_CUDA : PRS_MEMORY_HOST;
    if (buffers->fabric != NULL) {
        struct prs_region *region = NULL;
        enum perseus_status status =
            buffers->fabric->ops->region_register(buffers->fabric, base, bytes, kind, &region);
        if (status != PERSEUS_OK) {
            return status;
        }
        /* Release: with prs_buffers_region. */
        atomic_store_explicit(&buffers->regions[window], region, memory_order_release);
    }
    memmove(&buffers->sorted[at + 1], &buffers->sorted[at],
            (buffers->n - at) * sizeof buffers->sorted[0]);
    buffers->sorted[at] =
        (struct prs_buffer){.base = address, .bytes = bytes, .window = window, .kind = kind};
    buffers->is_used[window] = true;
    buffers->n++;
    return PERSEUS_OK;
}

enum perseus_status prs_buffers_add(struct prs_buffers *buffers, void *base, size_t bytes)
{
    pthread_rwlock_wrlock(&buffers->lock);
    enum perseus_status status = insert(buffers, base, bytes);
    pthread_rwlock_unlock(&buffers->lock);
    return status;
}

bool prs_buffers_has(struct prs_buffers *buffers, const void *base)
{
    pthread_rwlock_rdlock(&buffers->lock);
    uint32_t rank = rank_of(buffers, (uintptr_t)base);
    bool has = rank > 0 && buffers->sorted[rank - 1].base == (uintptr_t)base;
    pthread_rwlock_unlock(&buffers->lock);
    return has;
}

enum perseus_status prs_buffers_remove(struct prs_buffers *buffers, const void *base)
{
    enum perseus_status status = PERSEUS_INVALID_ARGUMENT;
    pthread_rwlock_wrlock(&buffers->lock);
    uint32_t rank = rank_of(buffers, (uintptr_t)base);
    if (rank > 0 && buffers->sorted[rank - 1].base == (uintptr_t)base) {
        uint16_t window = buffers->sorted[rank - 1].window;
        close_region(buffers, window);
        buffers->is_used[window] = false;
        memmove(&buffers->sorted[rank - 1], &buffers->sorted[rank],
                (buffers->n - rank) * sizeof buffers->sorted[0]);
        buffers->n--;
        status = PERSEUS_OK;
    }
    pthread_rwlock_unlock(&buffers->lock);
    return status;
}

bool prs_buffers_find(struct prs_buffers *buffers, const void *address, size_t bytes,
                      uint16_t *out_window, uint64_t *out_offset)
{
    bool found = false;
    pthread_rwlock_rdlock(&buffers->lock);
    uint32_t rank = rank_of(buffers, (uintptr_t)address);
    if (rank > 0) {
        const struct prs_buffer *buffer = &buffers->sorted[rank - 1];
        size_t offset = (uintptr_t)address - buffer->base;
        if (offset <= buffer->bytes && bytes <= buffer->bytes - offset) {
            *out_window = buffer->window;
            *out_offset = offset;
            found = true;
        }
    }
    pthread_rwlock_unlock(&buffers->lock);
    return found;
}

void prs_buffers_describe(struct prs_buffers *buffers, struct perseus_device_pe *out)
{
    pthread_rwlock_rdlock(&buffers->lock);
    for (uint32_t i = 0; i < buffers->n && out->n_buffers < PERSEUS_DEVICE_BUFFERS_MAX; i++) {
        const struct prs_buffer *buffer = &buffers->sorted[i];
        if (buffer->kind == PRS_MEMORY_CUDA) {
            out->buffers[out->n_buffers++] =
                (struct perseus_device_buffer){.base = (unsigned char *)buffer->base,
                                               .bytes = buffer->bytes,
                                               .window = buffer->window};
        }
    }
    pthread_rwlock_unlock(&buffers->lock);
}

struct prs_region *prs_buffers_region(const struct prs_buffers *buffers, uint16_t window)
{
    if (window >= PRS_BUFFERS_MAX) {
        return NULL;
    }
    /* Acquire: with insert. */
    return atomic_load_explicit(&buffers->regions[window], memory_order_acquire);
}
