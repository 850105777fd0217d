/* SPDX-License-Identifier: Apache-2.0 */
/* stage_out.c: the sending half of staging: reserve, fill, put. */
#include <string.h>

#include "staging/stage.h"

/* ---- slots ---- */

uint64_t prs_staging_peer_done(const struct prs_staging *stage, int pe, enum prs_staging_way way)
{
    /* Acquire pairs with the fabric's delivery: the peer has read all slots below. */
    return atomic_load_explicit(&prs_staging_words_from(stage, pe)->way[way].done,
                                memory_order_acquire);
}

struct prs_slot *prs_staging_reserve(struct prs_staging *stage, int pe, enum prs_staging_way way,
                                     uint64_t payload_bytes)
{
    struct prs_staging_out *out = &stage->peers[pe].out[way];
    uint64_t ring_bytes = stage->ring_bytes[way], span = prs_slot_span(payload_bytes);
    uint64_t padding = prs_lap_padding(out->tail, span, ring_bytes);
    if (out->tail + padding + span - prs_staging_peer_done(stage, pe, way) > ring_bytes) {
        return NULL;
    }
    if (padding > 0) {
        struct prs_slot *filler = (struct prs_slot *)(void *)(out->ring + out->tail % ring_bytes);
        *filler = (struct prs_slot){.kind = PRS_SLOT_PADDING, .span = (uint32_t)padding};
        out->tail += padding;
    }
    struct prs_slot *slot = (struct prs_slot *)(void *)(out->ring + out->tail % ring_bytes);
    *slot = (struct prs_slot){.span = (uint32_t)span};
    return slot;
}

void prs_staging_commit(struct prs_staging *stage, int pe, enum prs_staging_way way, bool copied)
{
    struct prs_staging_out *out = &stage->peers[pe].out[way];
    const struct prs_slot *slot =
        (const struct prs_slot *)(const void *)(out->ring + out->tail % stage->ring_bytes[way]);
    out->tail += slot->span;
    if (way == PRS_STAGE_REQUEST && slot->kind != PRS_SLOT_BULK) {
        struct prs_staging_bulks *bulks = &stage->peers[pe].bulks;
        bulks->newest = out->tail;
        bulks->after = stage->fences ? bulks->after : bulks->newest;
    }
    prs_marks_add(&out->marks, out->tail, copied ? stage->out.issued : 0, stage->out.recorded);
}

enum perseus_status prs_staging_request(struct prs_staging *stage, int pe, uint64_t payload_bytes,
                                        struct prs_slot **out)
{
    struct prs_route *route = stage->route;
    struct prs_patience patience = {0};
    enum perseus_status status = prs_cuda_enter(stage->cuda);
    while (status == PERSEUS_OK && !stage->peers[pe].lost) {
        bool is_full = stage->peers[pe].bulks.count == PRS_STAGING_BULKS;
        *out = is_full ? NULL : prs_staging_reserve(stage, pe, PRS_STAGE_REQUEST, payload_bytes);
        if (*out != NULL) {
            atomic_fetch_add_explicit(&route->submitted, 1, memory_order_relaxed);
            return PERSEUS_OK;
        }
        prs_staging_knock(stage, pe, patience.idle);
        status = prs_route_turn(route, &patience, "room in the staging ring", (uint32_t)pe);
    }
    return status == PERSEUS_OK ? PERSEUS_PEER_LOST : status;
}

/* ---- requests ---- */

enum perseus_status prs_staging_load(struct prs_staging *stage, void *slot, const void *source,
                                     size_t bytes, bool device)
{
    if (device) {
        return prs_cuda_lane_copy(&stage->out, slot, source, bytes);
    }
    memcpy(slot, source, bytes);
    return PERSEUS_OK;
}

static uint64_t piece_max(const struct prs_staging *stage, enum prs_staging_way way)
{
    return stage->ring_bytes[way] / 8 - sizeof(struct prs_slot);
}

enum perseus_status prs_staging_put(struct prs_staging *stage, int pe, uint64_t address,
                                    const void *local, size_t bytes)
{
    const unsigned char *source = local;
    const struct prs_chunk *chunk = prs_memory_find(stage->memory, local, bytes);
    if (chunk == NULL) {
        return prs_memory_stray(stage->memory, pe, local, bytes);
    }
    while (bytes > 0) {
        uint64_t most = piece_max(stage, PRS_STAGE_REQUEST), piece = bytes < most ? bytes : most;
        struct prs_slot *slot;
        enum perseus_status status = prs_staging_request(stage, pe, piece, &slot);
        if (status == PERSEUS_OK) {
            status = prs_staging_load(stage, slot + 1, source, piece, chunk->device);
        }
        if (status != PERSEUS_OK) {
            return status;
        }
        slot->kind = PRS_SLOT_PUT;
        slot->address = address;
        slot->bytes = (uint32_t)piece;
        prs_staging_commit(stage, pe, PRS_STAGE_REQUEST, chunk->device);
        source += piece;
        address += piece;
        bytes -= piece;
    }
    return PERSEUS_OK;
}

enum perseus_status prs_staging_put_value(struct prs_staging *stage, int pe, uint64_t address,
                                          uint64_t value, uint32_t bytes)
{
    struct prs_slot *slot;
    enum perseus_status status = prs_staging_request(stage, pe, 0, &slot);
    if (status == PERSEUS_OK) {
        slot->kind = PRS_SLOT_VALUE;
        slot->address = address;
        slot->bytes = bytes;
        slot->value = value;
        prs_staging_commit(stage, pe, PRS_STAGE_REQUEST, false);
    }
    return status;
}

enum perseus_status prs_staging_get(struct prs_staging *stage, int pe, uint64_t address,
                                    void *local, size_t bytes)
{
    unsigned char *target = local;
    if (prs_memory_find(stage->memory, local, bytes) == NULL) {
        return prs_memory_stray(stage->memory, pe, local, bytes);
    }
    while (bytes > 0) {
        uint64_t most = piece_max(stage, PRS_STAGE_REPLY), piece = bytes < most ? bytes : most;
        struct prs_slot *slot;
        enum perseus_status status = prs_staging_request(stage, pe, 0, &slot);
        if (status != PERSEUS_OK) {
            return status;
        }
        slot->kind = PRS_SLOT_GET;
        slot->address = address;
        slot->back = (uint64_t)(uintptr_t)target;
        slot->bytes = (uint32_t)piece;
        prs_staging_commit(stage, pe, PRS_STAGE_REQUEST, false);
        stage->peers[pe].asked++;
        target += piece;
        address += piece;
        bytes -= piece;
    }
    return PERSEUS_OK;
}

enum perseus_status prs_staging_amo(struct prs_staging *stage, int pe, uint64_t address,
                                    const struct prs_amo *amo, void *result)
{
    struct prs_slot *slot;
    enum perseus_status status = prs_staging_request(stage, pe, 0, &slot);
    if (status != PERSEUS_OK) {
        return status;
    }
    slot->kind = amo->fetch ? PRS_SLOT_FETCH : PRS_SLOT_ATOMIC;
    slot->address = address;
    slot->back = (uint64_t)(uintptr_t)result;
    slot->op = (uint8_t)amo->op;
    slot->word_bytes = (uint8_t)amo->bytes;
    slot->value = amo->operand;
    slot->compare = amo->compare;
    prs_staging_commit(stage, pe, PRS_STAGE_REQUEST, false);
    stage->peers[pe].asked += amo->fetch;
    return PERSEUS_OK;
}

static bool is_settled(const struct prs_staging *stage, int pe)
{
    const struct prs_staging_peer *peer = &stage->peers[pe];
    const struct prs_staging_in *replies = &peer->in[PRS_STAGE_REPLY];
    return prs_staging_peer_done(stage, pe, PRS_STAGE_REQUEST) >=
               peer->out[PRS_STAGE_REQUEST].tail &&
           peer->answered >= peer->asked && replies->done == replies->head;
}

enum perseus_status prs_staging_quiet(struct prs_staging *stage, int pe)
{
    struct prs_route *route = stage->route;
    struct prs_patience patience = {0};
    enum perseus_status status = prs_cuda_enter(stage->cuda);
    while (status == PERSEUS_OK && !is_settled(stage, pe)) {
        prs_staging_knock(stage, pe, patience.idle);
        status = stage->peers[pe].lost ? PERSEUS_PEER_LOST
                                       : prs_route_turn(route, &patience, "quiet", (uint32_t)pe);
    }
    stage->peers[pe].bulks.direct = 0;
    return status;
}

/* ---- to the fabric ---- */

#define SEND_BYTES_MIN (32u << 10)

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Slots up to `end`, and the word that tells of them. */
static enum perseus_status send_slots(struct prs_staging *stage, int pe, enum prs_staging_way way,
                                      uint64_t end)
{
    struct prs_staging_peer *peer = &stage->peers[pe];
    struct prs_staging_out *out = &peer->out[way];
    uint64_t most = stage->op_bytes_max / PRS_SLOT_ALIGN * PRS_SLOT_ALIGN;
    uint64_t offset = out->posted % stage->ring_bytes[way];
    uint64_t bytes = least(least(end - out->posted, stage->ring_bytes[way] - offset), most);
    int self = stage->self;
    const struct prs_request put = {
        .kind = PRS_REQUEST_PUT_SIGNAL,
        .op = PERSEUS_SIGNAL_SET,
        .peer = (uint32_t)pe,
        .token = PRS_ORDER_NO_TOKEN,
        .local = prs_window_region(stage->window),
        .local_offset = (uint64_t)(out->ring - stage->arena) + offset,
        .remote = peer->arena,
        .remote_offset = prs_staging_in_offset(stage, self, way) + offset,
        .bytes = bytes,
        .signal_remote = peer->arena,
        .signal_offset = prs_staging_tail_offset(self, way),
        .value = out->posted + bytes,
    };
    enum perseus_status status = prs_orderer_submit(stage->route->link.orderer, &put);
    if (status == PERSEUS_OK) {
        out->posted += bytes;
    }
    return status;
}

enum perseus_status prs_staging_send(struct prs_staging *stage, int pe, enum prs_staging_way way,
                                     bool *did)
{
    struct prs_staging_out *out = &stage->peers[pe].out[way];
    enum perseus_status status = PERSEUS_OK;
    prs_marks_pass(&out->marks, stage->out.done, &out->ready);
    if (out->ready < out->tail && out->ready - out->posted < SEND_BYTES_MIN) {
        return PERSEUS_OK; /* more is on its way out of the GPU: one message for all of it */
    }
    while (out->posted < out->ready && status == PERSEUS_OK) {
        const struct prs_staging_bulk *bulk =
            way == PRS_STAGE_REQUEST ? prs_staging_next_bulk(stage, pe) : NULL;
        if (bulk != NULL && bulk->position == out->posted) {
            status = prs_staging_send_bulk(stage, pe);
        } else {
            status = prs_staging_fence_bulk(stage, pe);
            uint64_t end = bulk != NULL ? least(bulk->position, out->ready) : out->ready;
            status = status == PERSEUS_OK ? send_slots(stage, pe, way, end) : status;
        }
        *did |= status == PERSEUS_OK;
    }
    return status == PERSEUS_AGAIN ? PERSEUS_OK : status;
}
