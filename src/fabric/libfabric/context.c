/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/libfabric/context.h"

#include <stdlib.h>

#include "fabric/libfabric/internal.h"
#include "fabric/libfabric/status.h"

#define PRS_LF_CHUNK_CONTEXTS 64

struct prs_lf_chunk {
    struct prs_lf_chunk *next;
    struct fid_mr *mr; /* of slots, where the provider wants sources registered */
    struct prs_lf_context contexts[PRS_LF_CHUNK_CONTEXTS];
    unsigned char slots[PRS_LF_CHUNK_CONTEXTS][PRS_LF_SLOT_BYTES];
};

void prs_lf_pool_init(struct prs_lf_pool *pool, uint32_t limit)
{
    *pool = (struct prs_lf_pool){.limit = limit};
}

void prs_lf_pool_finish(struct prs_lf_pool *pool)
{
    while (pool->chunks != NULL) {
        struct prs_lf_chunk *chunk = pool->chunks;
        pool->chunks = chunk->next;
        if (chunk->mr != NULL) {
            fi_close(&chunk->mr->fid);
        }
        free(chunk);
    }
    pool->free = NULL;
}

static enum perseus_status pool_grow(struct prs_lf_endpoint *endpoint)
{
    struct prs_lf_pool *pool = &endpoint->pool;
    struct prs_lf_chunk *chunk = calloc(1, sizeof *chunk);
    if (chunk == NULL) {
        return prs_fail(prs_lf_log(endpoint), PERSEUS_OUT_OF_MEMORY,
                        "no memory for %d operation contexts", PRS_LF_CHUNK_CONTEXTS);
    }
    void *descriptor = NULL;
    if (endpoint->base.fabric->caps.source_needs_region) {
        enum perseus_status status = prs_lf_memory_register(
            prs_lf_fabric_of(endpoint->base.fabric), endpoint, chunk->slots, sizeof chunk->slots,
            FI_READ | FI_WRITE, PRS_MEMORY_HOST, &chunk->mr);
        if (status != PERSEUS_OK) {
            free(chunk);
            return status;
        }
        descriptor = fi_mr_desc(chunk->mr);
    }
    for (uint32_t i = 0; i < PRS_LF_CHUNK_CONTEXTS; i++) {
        struct prs_lf_context *context = &chunk->contexts[i];
        context->slot = chunk->slots[i];
        context->slot_descriptor = descriptor;
        context->next = pool->free;
        pool->free = context;
    }
    chunk->next = pool->chunks;
    pool->chunks = chunk;
    return PERSEUS_OK;
}

enum perseus_status prs_lf_context_acquire(struct prs_lf_endpoint *endpoint,
                                           struct prs_lf_context **out)
{
    struct prs_lf_pool *pool = &endpoint->pool;
    if (pool->lent - pool->stranded >= pool->limit) {
        return PERSEUS_AGAIN;
    }
    if (pool->free == NULL) {
        enum perseus_status status = pool_grow(endpoint);
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    struct prs_lf_context *context = pool->free;
    pool->free = context->next;
    pool->lent++;
    context->next = NULL;
    context->settled = false;
    context->joined = NULL;
    *out = context;
    return PERSEUS_OK;
}

void prs_lf_context_release(struct prs_lf_pool *pool, struct prs_lf_context *context)
{
    if (context->with_provider || context->queued) {
        return;
    }
    context->next = pool->free;
    pool->free = context;
    pool->lent--;
}

struct prs_lf_context *prs_lf_pool_find_unsettled(struct prs_lf_pool *pool, uint32_t peer)
{
    for (struct prs_lf_chunk *chunk = pool->chunks; chunk != NULL; chunk = chunk->next) {
        for (uint32_t i = 0; i < PRS_LF_CHUNK_CONTEXTS; i++) {
            struct prs_lf_context *context = &chunk->contexts[i];
            if (context->with_provider && !context->settled && context->op.peer == peer) {
                return context;
            }
        }
    }
    return NULL;
}
