/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "fabric/staged/internal.h"

#define MAGIC 0x70727374u /* "prst" */

struct blob {
    uint32_t magic, number, generation, is_word_aligned;
    uint64_t bytes;
};
_Static_assert(sizeof(struct blob) == 24 && sizeof(struct blob) <= PRS_BLOB_MAX, "no padding");

/* ---- regions ---- */

static enum perseus_status add(struct prs_staged_fabric *fabric, struct prs_staged_region *region)
{
    uint32_t number = 0;
    while (number < fabric->n_regions && fabric->regions[number] != NULL) {
        number++;
    }
    if (number == fabric->n_regions) {
        uint32_t room = 2 * number + 8;
        struct prs_staged_region **regions = realloc(fabric->regions, room * sizeof(void *));
        if (regions == NULL) {
            return PERSEUS_OUT_OF_MEMORY;
        }
        memset(regions + number, 0, (room - number) * sizeof(void *));
        fabric->regions = regions;
        fabric->n_regions = room;
    }
    region->number = number;
    region->generation = ++fabric->generations;
    fabric->regions[number] = region;
    return PERSEUS_OK;
}

static void unpin(struct prs_staged_fabric *fabric, struct prs_staged_region *region)
{
    if (region->is_pinned) {
        prs_gpu_unpin(&fabric->device, region->base.base);
    }
}

enum perseus_status prs_staged_region_register(struct prs_fabric *base_fabric, void *base,
                                               size_t bytes, enum prs_memory_kind kind,
                                               struct prs_region **out)
{
    struct prs_staged_fabric *fabric = (struct prs_staged_fabric *)base_fabric;
    if (base == NULL || bytes == 0) {
        return prs_fail(fabric->config.log, PERSEUS_INVALID_ARGUMENT,
                        "a region needs memory: %zu bytes at %p", bytes, base);
    }
    struct prs_staged_region *region = calloc(1, sizeof *region);
    if (region == NULL) {
        return prs_fail(fabric->config.log, PERSEUS_OUT_OF_MEMORY, "no memory for one more region");
    }
    region->base =
        (struct prs_region){.fabric = base_fabric, .base = base, .bytes = bytes, .kind = kind};
    enum perseus_status status = PERSEUS_OK;
    if (kind == PRS_MEMORY_HOST) {
        status = prs_gpu_pin(&fabric->device, base, bytes, &region->is_pinned);
    }
    if (status == PERSEUS_OK) {
        pthread_mutex_lock(&fabric->lock);
        status = add(fabric, region);
        pthread_mutex_unlock(&fabric->lock);
    }
    if (status != PERSEUS_OK) {
        unpin(fabric, region);
        free(region);
        return status;
    }
    *out = &region->base;
    return PERSEUS_OK;
}

/* What peers have under way into it: the lock is held, so the GPU has all of it. */
static void settle(struct prs_staged_fabric *fabric)
{
    void *before = NULL;
    if (fabric->endpoint != NULL && prs_gpu_enter(&fabric->device, &before) == PERSEUS_OK) {
        fabric->cuda->call.stream_synchronize(fabric->endpoint->in.stream);
        fabric->cuda->call.stream_synchronize(fabric->endpoint->out.stream);
        prs_gpu_leave(&fabric->device, before);
    }
}

void prs_staged_region_close(struct prs_region *base)
{
    if (base == NULL) {
        return;
    }
    struct prs_staged_fabric *fabric = (struct prs_staged_fabric *)base->fabric;
    struct prs_staged_region *region = (struct prs_staged_region *)base;
    pthread_mutex_lock(&fabric->lock);
    fabric->regions[region->number] = NULL;
    settle(fabric);
    pthread_mutex_unlock(&fabric->lock);
    unpin(fabric, region);
    free(region);
}

unsigned char *prs_staged_find(const struct prs_staged_fabric *fabric,
                               const struct prs_staged_slot *slot, uint64_t bytes)
{
    const struct prs_staged_region *region =
        slot->region < fabric->n_regions ? fabric->regions[slot->region] : NULL;
    if (region == NULL || region->generation != slot->generation ||
        slot->offset > region->base.bytes || bytes > region->base.bytes - slot->offset) {
        return NULL;
    }
    return region->base.base + slot->offset;
}

/* ---- telling of them ---- */

enum perseus_status prs_staged_region_export(struct prs_region *base, void *blob, size_t *bytes)
{
    const struct prs_staged_region *region = (const struct prs_staged_region *)base;
    const struct blob out = {.magic = MAGIC,
                             .number = region->number,
                             .generation = region->generation,
                             .is_word_aligned = (uintptr_t)base->base % sizeof(uint64_t) == 0,
                             .bytes = base->bytes};
    if (*bytes < sizeof out) {
        return prs_fail(((struct prs_staged_fabric *)base->fabric)->config.log, PERSEUS_LIMIT,
                        "a region's blob takes %zu bytes, the buffer has %zu", sizeof out, *bytes);
    }
    memcpy(blob, &out, sizeof out);
    *bytes = sizeof out;
    return PERSEUS_OK;
}

enum perseus_status prs_staged_remote_import(struct prs_endpoint *endpoint, uint32_t peer,
                                             const void *blob, size_t bytes,
                                             struct prs_remote **out)
{
    const struct prs_staged_endpoint *self = (const struct prs_staged_endpoint *)endpoint;
    const struct prs_log *log = self->fabric->config.log;
    struct blob in = {0};
    if (bytes == sizeof in) {
        memcpy(&in, blob, sizeof in);
    }
    if (in.magic != MAGIC || peer >= self->n_peers) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "%zu bytes are no region of peer %u over a staged fabric", bytes, peer);
    }
    struct prs_staged_remote *remote = calloc(1, sizeof *remote);
    if (remote == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for a region of peer %u", peer);
    }
    remote->base = (struct prs_remote){.endpoint = endpoint, .peer = peer, .bytes = in.bytes};
    remote->number = in.number;
    remote->generation = in.generation;
    remote->is_word_aligned = in.is_word_aligned != 0;
    *out = &remote->base;
    return PERSEUS_OK;
}

void prs_staged_remote_close(struct prs_remote *remote)
{
    free(remote);
}
