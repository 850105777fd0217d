/* SPDX-License-Identifier: Apache-2.0 */
/* stage_bulk.c: puts between system memories that pass the rings by: the fabric carries them
 * straight from source to destination. A slot keeps their place in the order, or nothing needs
 * to. */
#include "staging/stage.h"

/*
 * Through the rings a put is copied once more by a CPU on each side, beside them it is a message of
 * its own; so what decides is what else there is to do:
 *
 *   idle   nothing that was staged for this PE is on its way: nobody to share a message with, and
 *          both copies are waited for. The put goes without a slot, and quiet asks the fabric.
 *          After a few of these it is a stream, whose messages are better shared.
 *   free   something is, but nothing that the put must not overtake: copies run beside other
 *          messages, and only a message's fixed cost counts.
 *   held   it would have to wait until the receiver is done with what is in front of it: a round
 *          trip, in which the rings carry much.
 *
 * The sizes were measured over tcp on one host (docs/nvshmem.md, the sweep).
 */
#define IDLE_BYTES_MIN 2048u
#define IDLE_PUTS_MAX  8u
#define FREE_BYTES_MIN 65536u

static uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool has_staged(const struct prs_staging_peer *peer, uint64_t done)
{
    return done < peer->out[PRS_STAGE_REQUEST].tail || peer->bulks.count > 0;
}

static bool fabric_reaches(const struct prs_staging *stage, const struct prs_piece *piece)
{
    if (piece->handle.blob_bytes[PRS_SIDE_PROXY] == 0) {
        return false; /* into device memory */
    }
    const struct prs_chunk *chunk = prs_memory_find(stage->memory, piece->local, piece->bytes);
    return chunk != NULL && chunk->regions[PRS_SIDE_PROXY] != NULL;
}

enum prs_staging_path prs_staging_path(struct prs_staging *stage, int pe,
                                       const struct prs_piece *piece)
{
    struct prs_staging_peer *peer = &stage->peers[pe];
    uint64_t done = prs_staging_peer_done(stage, pe, PRS_STAGE_REQUEST);
    uint64_t held_min = stage->ring_bytes[PRS_STAGE_REQUEST] / 16;
    bool is_idle = !has_staged(peer, done);
    if (piece->bytes < least_of(held_min, is_idle ? IDLE_BYTES_MIN : FREE_BYTES_MIN) ||
        !fabric_reaches(stage, piece)) {
        return PRS_STAGING_RING;
    }
    if (is_idle && (piece->bytes >= FREE_BYTES_MIN || peer->bulks.direct < IDLE_PUTS_MAX)) {
        peer->bulks.direct++;
        return PRS_STAGING_DIRECT;
    }
    uint64_t min = done >= peer->bulks.after ? least_of(FREE_BYTES_MIN, held_min) : held_min;
    return piece->bytes >= min ? PRS_STAGING_BULK : PRS_STAGING_RING;
}

void prs_staging_went_direct(struct prs_staging *stage, int pe)
{
    stage->peers[pe].bulks.open = true;
}

void prs_staging_fence(struct prs_staging *stage, int pe)
{
    stage->peers[pe].bulks.after = stage->peers[pe].bulks.newest;
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
