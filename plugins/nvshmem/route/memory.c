/* SPDX-License-Identifier: Apache-2.0 */
#include "route/memory.h"

#include <stdlib.h>
#include <string.h>

#include "route/route.h"

static enum perseus_status grow(struct prs_memory *memory)
{
    if (memory->count < memory->capacity) {
        return PERSEUS_OK;
    }
    uint32_t capacity = memory->capacity == 0 ? 16 : 2 * memory->capacity;
    struct prs_chunk *chunks = realloc(memory->chunks, capacity * sizeof *chunks);
    if (chunks == NULL) {
        return prs_fail(memory->log, PERSEUS_OUT_OF_MEMORY, "no memory for %u chunks", capacity);
    }
    memory->chunks = chunks;
    memory->capacity = capacity;
    return PERSEUS_OK;
}

/* Index of the first chunk that begins above `address`. */
static uint32_t upper(const struct prs_memory *memory, uintptr_t address)
{
    uint32_t low = 0, high = memory->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (memory->chunks[middle].base <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const struct prs_chunk *prs_memory_find(const struct prs_memory *memory, const void *pointer,
                                        size_t bytes)
{
    uintptr_t address = (uintptr_t)pointer;
    uint32_t above = upper(memory, address);
    if (above == 0) {
        return NULL;
    }
    const struct prs_chunk *chunk = &memory->chunks[above - 1];
    size_t offset = address - chunk->base;
    return offset <= chunk->bytes && bytes <= chunk->bytes - offset ? chunk : NULL;
}

enum perseus_status prs_memory_stray(const struct prs_memory *memory, int pe, const void *local,
                                     size_t bytes)
{
    return prs_fail(
        memory->log, PERSEUS_OUT_OF_RANGE,
        "transfer with PE %d: %zu bytes at %p are neither in the heap nor in a buffer given "
        "to nvshmemx_buffer_register",
        pe, bytes, local);
}

/* ---- one chunk with the fabrics ---- */

static void unregister(struct prs_memory *memory, struct prs_chunk *chunk)
{
    for (int side = 0; side < PRS_SIDE_COUNT; side++) {
        if (chunk->windows[side] != NULL) {
            prs_window_destroy(chunk->windows[side]);
        } else if (chunk->regions[side] != NULL) {
            memory->routes[side].link.fabric->ops->region_close(chunk->regions[side]);
        }
        chunk->windows[side] = NULL;
        chunk->regions[side] = NULL;
    }
}

static enum perseus_status register_side(struct prs_memory *memory, struct prs_chunk *chunk,
                                         enum prs_side side, struct prs_handle *handle)
{
    struct prs_route *route = &memory->routes[side];
    void *base = (void *)chunk->base;
    if (chunk->kind == PRS_HANDLE_LOCAL) {
        return route->link.fabric->ops->region_register(route->link.fabric, base, chunk->bytes,
                                                        PRS_MEMORY_HOST, &chunk->regions[side]);
    }
    enum perseus_status status = prs_window_create(route->link.orderer, base, chunk->bytes,
                                                   PRS_MEMORY_HOST, &chunk->windows[side]);
    if (status != PERSEUS_OK) {
        return status;
    }
    chunk->regions[side] = prs_window_region(chunk->windows[side]);
    unsigned char blob[PRS_WINDOW_BLOB_MAX];
    size_t bytes = sizeof blob;
    status = prs_window_export(chunk->windows[side], blob, &bytes);
    if (status != PERSEUS_OK) {
        return status;
    }
    size_t used = side == PRS_SIDE_PROXY ? handle->blob_bytes[PRS_SIDE_HOST] : 0;
    if (used + bytes > sizeof handle->blobs) {
        return prs_fail(memory->log, PERSEUS_LIMIT,
                        "memory keys of %s need %zu bytes, NVSHMEM's handle has room for %zu",
                        route->link.fabric->caps.provider, used + bytes, sizeof handle->blobs);
    }
    memcpy(handle->blobs + used, blob, bytes);
    handle->blob_bytes[side] = (uint16_t)bytes;
    return PERSEUS_OK;
}

static enum perseus_status register_chunk(struct prs_memory *memory, struct prs_chunk *chunk,
                                          struct prs_handle *handle)
{
    enum perseus_status status = grow(memory);
    for (int side = 0; side < PRS_SIDE_COUNT && status == PERSEUS_OK && !chunk->device; side++) {
        if (memory->stage_host && side != PRS_SIDE_PROXY) {
            continue; /* staging is the proxy's; what passes its rings by, too */
        }
        status = register_side(memory, chunk, (enum prs_side)side, handle);
        if (status != PERSEUS_OK) {
            unregister(memory, chunk);
            return status;
        }
    }
    return status;
}

/* ---- the host's calls ---- */

static enum perseus_status insert(struct prs_memory *memory, struct prs_chunk *chunk,
                                  struct prs_handle *handle)
{
    uint32_t place = upper(memory, chunk->base);
    bool overlaps =
        (place > 0 &&
         memory->chunks[place - 1].base + memory->chunks[place - 1].bytes > chunk->base) ||
        (place < memory->count && memory->chunks[place].base < chunk->base + chunk->bytes);
    if (overlaps) {
        return prs_fail(memory->log, PERSEUS_INVALID_ARGUMENT,
                        "memory at %p (%zu bytes) is registered already, at least in part: release "
                        "it first",
                        (void *)chunk->base, chunk->bytes);
    }
    enum perseus_status status = register_chunk(memory, chunk, handle);
    if (status != PERSEUS_OK) {
        return status;
    }
    memmove(&memory->chunks[place + 1], &memory->chunks[place],
            (memory->count - place) * sizeof *memory->chunks);
    memory->chunks[place] = *chunk;
    memory->count++;
    return PERSEUS_OK;
}

enum perseus_status prs_memory_register(struct prs_memory *memory, void *buffer, size_t bytes,
                                        bool device, bool local_only, unsigned char *out_blob)
{
    if (bytes == 0 || (uintptr_t)buffer + bytes < (uintptr_t)buffer) {
        return prs_fail(memory->log, PERSEUS_INVALID_ARGUMENT, "%zu bytes at %p are no memory",
                        bytes, buffer);
    }
    bool staged = device || memory->stage_host;
    struct prs_chunk chunk = {
        .base = (uintptr_t)buffer,
        .bytes = bytes,
        .device = device,
        .kind = local_only ? PRS_HANDLE_LOCAL
                : staged   ? PRS_HANDLE_STAGED
                           : PRS_HANDLE_WINDOW,
    };
    struct prs_handle handle = {
        .magic = PRS_HANDLE_MAGIC,
        .base = chunk.base,
        .bytes = bytes,
        .owner = memory->owner,
        .kind = chunk.kind,
    };
    uint32_t *next = local_only ? &memory->local_next : &memory->heap_next;
    chunk.number = handle.number = *next;
    enum perseus_status status = insert(memory, &chunk, &handle);
    if (status == PERSEUS_OK) {
        (*next)++;
        memcpy(out_blob, &handle, sizeof handle);
    }
    return status;
}

enum perseus_status prs_memory_release(struct prs_memory *memory, const unsigned char *blob)
{
    struct prs_handle handle;
    if (!prs_handle_read(blob, &handle) || handle.owner != memory->owner) {
        return prs_fail(memory->log, PERSEUS_INVALID_ARGUMENT,
                        "release of a memory handle that this PE did not make");
    }
    uint32_t above = upper(memory, handle.base);
    struct prs_chunk *chunk = above > 0 ? &memory->chunks[above - 1] : NULL;
    enum perseus_status status = PERSEUS_OK;
    if (chunk == NULL || chunk->base != handle.base || chunk->number != handle.number ||
        chunk->kind != handle.kind) {
        status = prs_fail(memory->log, PERSEUS_INVALID_ARGUMENT,
                          "memory at %p was released already", (void *)(uintptr_t)handle.base);
    } else {
        unregister(memory, chunk);
        memmove(chunk, chunk + 1, (memory->count - above) * sizeof *chunk);
        memory->count--;
    }
    return status;
}

void prs_memory_finish(struct prs_memory *memory)
{
    for (uint32_t i = 0; i < memory->count; i++) {
        unregister(memory, &memory->chunks[i]);
    }
    free(memory->chunks);
    memory->chunks = NULL;
    memory->count = memory->capacity = 0;
}
