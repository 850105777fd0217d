/* SPDX-License-Identifier: Apache-2.0 */
/* stage_bulk.c: large puts between system memories pass the rings by: the fabric carries them straight from
 * source to destination, and their slot only keeps their place in the order. */
#include "staging/stage.h"

static uint64_t bulk_bytes_min(const struct prs_staging *stage)
{
    return stage->ring_bytes[PRS_STAGE_REQUEST] / 16;
}

bool prs_staging_is_bulk(const struct prs_staging *stage, const struct prs_piece *piece)
{
    if (piece->bytes < bulk_bytes_min(stage) || piece->handle.blob_bytes[PRS_SIDE_PROXY] == 0) {
        return false; /* small, or into device memory */
    }
    const struct prs_chunk *chunk = prs_memory_find(stage->memory, piece->local, piece->bytes);
    return chunk != NULL && chunk->regions[PRS_SIDE_PROXY] != NULL;
}

enum perseus_status prs_staging_put_bulk(struct prs_staging *stage, int pe,
                                         const struct prs_piece *piece)
{
    struct prs_staging_bulks *bulks = &stage->peers[pe].bulks;
    struct prs_staging_bulk bulk;
    struct prs_slot *slot;
    enum perseus_status status =
        prs_piece_request(stage->route, stage->memory, pe, piece, PRS_REQUEST_PUT, &bulk.put);
    if (status == PERSEUS_OK) {
        status = prs_staging_request(stage, pe, 0, &slot);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    slot->kind = PRS_SLOT_BULK;
    bulk.position = stage->peers[pe].out[PRS_STAGE_REQUEST].tail;
    bulk.after = bulks->after;
    bulks->waiting[(bulks->first + bulks->count++) % PRS_STAGING_BULKS] = bulk;
    prs_staging_commit(stage, pe, PRS_STAGE_REQUEST, false);
    return PERSEUS_OK;
}

const struct prs_staging_bulk *prs_staging_next_bulk(const struct prs_staging *stage, int pe)
{
    const struct prs_staging_bulks *bulks = &stage->peers[pe].bulks;
    return bulks->count > 0 ? &bulks->waiting[bulks->first] : NULL;
}

enum perseus_status prs_staging_send_bulk(struct prs_staging *stage, int pe)
{
    struct prs_staging_bulks *bulks = &stage->peers[pe].bulks;
    const struct prs_staging_bulk *bulk = &bulks->waiting[bulks->first];
    if (prs_staging_peer_done(stage, pe, PRS_STAGE_REQUEST) < bulk->after) {
        return PERSEUS_AGAIN;
    }
    enum perseus_status status = prs_orderer_submit(stage->route->link.orderer, &bulk->put);
    if (status == PERSEUS_OK) {
        bulks->first = (bulks->first + 1) % PRS_STAGING_BULKS;
        bulks->count--;
        bulks->open = true;
    }
    return status;
}

enum perseus_status prs_staging_fence_bulk(struct prs_staging *stage, int pe)
{
    struct prs_staging_bulks *bulks = &stage->peers[pe].bulks;
    if (!bulks->open) {
        return PERSEUS_OK;
    }
    enum perseus_status status = prs_orderer_fence(stage->route->link.orderer, (uint32_t)pe);
    bulks->open = status != PERSEUS_OK;
    return status;
}
