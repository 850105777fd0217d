/* SPDX-License-Identifier: Apache-2.0 */
/* stage_in.c: the receiving half of staging: the agent that carries what arrived into this PE's
 * memory, in order. */
#include <string.h>

#include "fabric/word.h"
#include "staging/stage.h"

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

#define GPU_SECTOR_BYTES 32

struct arrival { /* the slot at the head of a ring */
    struct prs_staging *stage;
    int pe;
    enum prs_staging_way way;
    struct prs_staging_in *in;
    struct prs_slot *slot;      /* in the ring, where copies may read until it is told done */
    const struct prs_slot *end; /* of what lies behind it without a break */
    uint64_t span;   /* bytes taken with it: more than its own when a run melts together */
    uint64_t ticket; /* of the copy it needs, 0: none */
    bool wait;       /* it cannot be taken yet */
};

static enum perseus_status find(const struct arrival *arrival, size_t bytes,
                                const struct prs_chunk **out)
{
    const struct prs_staging *stage = arrival->stage;
    void *pointer = (void *)(uintptr_t)arrival->slot->address;
    *out = prs_memory_find(stage->memory, pointer, bytes);
    if (*out == NULL) {
        return prs_fail(stage->log, PERSEUS_PROTOCOL,
                        "PE %d asked for %zu bytes at %p, which are not registered on this PE: its "
                        "program uses memory that was freed, or another heap",
                        arrival->pe, bytes, pointer);
    }
    return PERSEUS_OK;
}

/* Copies into the GPU are asynchronous, into host memory immediate. */
static enum perseus_status land(struct arrival *arrival, const void *source, size_t bytes)
{
    const struct prs_chunk *chunk;
    enum perseus_status status = find(arrival, bytes, &chunk);
    if (status != PERSEUS_OK) {
        return status;
    }
    void *target = (void *)(uintptr_t)arrival->slot->address;
    if (!chunk->device) {
        prs_staging_store(target, source, bytes);
        return PERSEUS_OK;
    }
    status = prs_cuda_lane_copy(&arrival->stage->in, target, source, bytes);
    arrival->ticket = arrival->stage->in.issued;
    return status;
}

/* ---- atomics ---- */

static struct prs_amo amo_of(const struct prs_slot *slot)
{
    return (struct prs_amo){.op = (enum perseus_atomic)slot->op,
                            .operand = slot->value,
                            .compare = slot->compare,
                            .bytes = slot->word_bytes,
                            .fetch = slot->kind == PRS_SLOT_FETCH};
}

/* False when the reply ring has no room. */
static bool reply_value(struct arrival *arrival, uint64_t old)
{
    const struct prs_slot *asked = arrival->slot;
    struct prs_slot *reply = prs_staging_reserve(arrival->stage, arrival->pe, PRS_STAGE_REPLY, 0);
    if (reply == NULL) {
        return false;
    }
    reply->kind = PRS_SLOT_VALUE;
    reply->address = asked->back;
    reply->bytes = asked->word_bytes;
    reply->value = old;
    prs_staging_commit(arrival->stage, arrival->pe, PRS_STAGE_REPLY, false);
    return true;
}

/* Read, change, write, over several visits of the same slot. */
static enum perseus_status modify_device(struct arrival *arrival)
{
    struct prs_staging *stage = arrival->stage;
    struct prs_staging_rmw *rmw = &stage->rmw;
    const struct prs_amo amo = amo_of(arrival->slot);
    void *word = (void *)(uintptr_t)arrival->slot->address;
    arrival->wait = true;
    if (!rmw->busy) {
        *rmw = (struct prs_staging_rmw){.busy = true, .in = arrival->in, .scratch = rmw->scratch};
        enum perseus_status status =
            prs_cuda_lane_copy(&stage->in, &rmw->scratch[0], word, amo.bytes);
        rmw->ticket = stage->in.issued;
        return status;
    }
    if (rmw->in != arrival->in || stage->in.done < rmw->ticket) {
        return PERSEUS_OK;
    }
    uint64_t old = 0;
    memcpy(&old, &rmw->scratch[0], amo.bytes);
    if (amo.fetch && !reply_value(arrival, old)) {
        return PERSEUS_OK;
    }
    rmw->scratch[1] = prs_word_result(amo.op, old, amo.operand, prs_amo_low(&amo, amo.compare));
    rmw->busy = false;
    arrival->wait = false;
    enum perseus_status status = prs_cuda_lane_copy(&stage->in, word, &rmw->scratch[1], amo.bytes);
    arrival->ticket = stage->in.issued;
    return status;
}

/* The word that a slot writes into device memory, whatever was there: a SET, or a value of p. */
static bool is_word(const struct prs_slot *slot, uint32_t bytes)
{
    bool sets = slot->kind == PRS_SLOT_ATOMIC && slot->op == PERSEUS_ATOMIC_SET;
    return slot->span == sizeof *slot && ((sets && slot->word_bytes == bytes) ||
                                          (slot->kind == PRS_SLOT_VALUE && slot->bytes == bytes));
}

/* Neighbouring words of one width, as the signals of a group and an array sent by p are, land with
 * one copy: the slots that have been read make room for the values. Within one sector of GPU memory
 * only, which becomes visible as a whole: a program may have put a fence between them that the host
 * does not pass on. */
static enum perseus_status write_words(struct arrival *arrival, const struct prs_chunk *chunk,
                                       uint32_t bytes)
{
    const struct prs_slot first = *arrival->slot, *slot = arrival->slot + 1;
    unsigned char *values = (unsigned char *)arrival->slot;
    uint64_t room = least(chunk->base + chunk->bytes - first.address,
                          GPU_SECTOR_BYTES - first.address % GPU_SECTOR_BYTES);
    uint64_t n = 1;
    memcpy(values, &first.value, bytes);
    for (; first.address % bytes == 0 && slot < arrival->end; slot++, n++) {
        if (!is_word(slot, bytes) || slot->address != first.address + n * bytes ||
            (n + 1) * bytes > room) {
            break;
        }
        memcpy(values + n * bytes, &slot->value, bytes);
    }
    arrival->span = n * sizeof *slot;
    enum perseus_status status = prs_cuda_lane_copy(
        &arrival->stage->in, (void *)(uintptr_t)first.address, values, n * bytes);
    arrival->ticket = arrival->stage->in.issued;
    return status;
}

static enum perseus_status take_atomic(struct arrival *arrival)
{
    const struct prs_slot *slot = arrival->slot;
    const struct prs_amo amo = amo_of(slot);
    const struct prs_chunk *chunk;
    enum perseus_status status = find(arrival, amo.bytes, &chunk);
    if (status != PERSEUS_OK) {
        return status;
    }
    if (chunk->device && (amo.fetch || amo.op != PERSEUS_ATOMIC_SET)) {
        return modify_device(arrival);
    }
    if (arrival->stage->rmw.busy) { /* not in the middle of another one */
        arrival->wait = true;
        return PERSEUS_OK;
    }
    if (chunk->device) {
        return write_words(arrival, chunk, amo.bytes);
    }
    if (amo.fetch && prs_staging_reserve(arrival->stage, arrival->pe, PRS_STAGE_REPLY, 0) == NULL) {
        arrival->wait = true;
        return PERSEUS_OK;
    }
    uint64_t old = prs_word_apply_sized((void *)(uintptr_t)slot->address, amo.bytes, amo.op,
                                        amo.operand, amo.compare);
    if (amo.fetch) {
        reply_value(arrival, old);
    }
    return PERSEUS_OK;
}

/* A value of p, or an answer. */
static enum perseus_status take_value(struct arrival *arrival)
{
    const struct prs_slot *slot = arrival->slot;
    const struct prs_chunk *chunk;
    enum perseus_status status = find(arrival, slot->bytes, &chunk);
    if (status != PERSEUS_OK) {
        return status;
    }
    if (chunk->device && arrival->way == PRS_STAGE_REQUEST && slot->bytes > 0) {
        return write_words(arrival, chunk, slot->bytes);
    }
    return land(arrival, &slot->value, slot->bytes);
}

/* ---- gets ---- */

static enum perseus_status take_get(struct arrival *arrival)
{
    struct prs_staging *stage = arrival->stage;
    const struct prs_slot *slot = arrival->slot;
    const struct prs_chunk *chunk;
    enum perseus_status status = find(arrival, slot->bytes, &chunk);
    if (status != PERSEUS_OK) {
        return status;
    }
    if (prs_slot_span(slot->bytes) > stage->ring_bytes[PRS_STAGE_REPLY] / 2) {
        return prs_fail(stage->log, PERSEUS_PROTOCOL,
                        "PE %d asks for %u bytes in one reply, which its own PERSEUS_STAGE_BYTES "
                        "cannot give: set it alike everywhere",
                        arrival->pe, slot->bytes);
    }
    struct prs_slot *reply = prs_staging_reserve(stage, arrival->pe, PRS_STAGE_REPLY, slot->bytes);
    if (reply == NULL) {
        arrival->wait = true;
        return PERSEUS_OK;
    }
    status = prs_staging_load(stage, reply + 1, (void *)(uintptr_t)slot->address, slot->bytes,
                              chunk->device);
    if (status != PERSEUS_OK) {
        return status;
    }
    reply->kind = PRS_SLOT_PUT;
    reply->address = slot->back;
    reply->bytes = slot->bytes;
    prs_staging_commit(stage, arrival->pe, PRS_STAGE_REPLY, chunk->device);
    return PERSEUS_OK;
}

/* ---- one ring ---- */

static enum perseus_status take_one(struct arrival *arrival)
{
    const struct prs_slot *slot = arrival->slot;
    enum perseus_status status = PERSEUS_OK;
    switch (slot->kind) {
    case PRS_SLOT_PUT:
        status = land(arrival, slot + 1, slot->bytes);
        break;
    case PRS_SLOT_VALUE:
        status = take_value(arrival);
        break;
    case PRS_SLOT_ATOMIC:
    case PRS_SLOT_FETCH:
        return take_atomic(arrival);
    case PRS_SLOT_GET:
        return take_get(arrival);
    case PRS_SLOT_PADDING:
    case PRS_SLOT_BULK:
        return PERSEUS_OK;
    }
    arrival->stage->peers[arrival->pe].answered += arrival->way == PRS_STAGE_REPLY;
    return status;
}

enum perseus_status prs_staging_take(struct prs_staging *stage, int pe, enum prs_staging_way way,
                                     bool *did)
{
    struct prs_staging_in *in = &stage->peers[pe].in[way];
    uint64_t ring_bytes = stage->ring_bytes[way];
    /* Acquire pairs with the fabric's delivery of the word after the slots below it. */
    uint64_t tail = atomic_load_explicit(&prs_staging_words_from(stage, pe)->way[way].tail,
                                         memory_order_acquire);
    while (in->head < tail) {
        uint64_t offset = in->head % ring_bytes, span;
        struct arrival arrival = {
            .stage = stage,
            .pe = pe,
            .way = way,
            .in = in,
            .slot = (struct prs_slot *)(void *)(in->ring + offset),
        };
        arrival.span = span = arrival.slot->span;
        arrival.end =
            arrival.slot + least(tail - in->head, ring_bytes - offset) / sizeof *arrival.slot;
        if (!prs_slot_is_sound(arrival.slot, in->head, ring_bytes)) {
            return prs_fail(
                stage->log, PERSEUS_PROTOCOL,
                "PE %d sent a malformed staging slot (kind %u, %llu bytes): give every PE "
                "the same files and environment",
                pe, arrival.slot->kind, (unsigned long long)span);
        }
        if (span > tail - in->head) {
            break; /* its rest is still on the way */
        }
        enum perseus_status status = take_one(&arrival);
        if (status != PERSEUS_OK) {
            return status;
        }
        if (arrival.wait) {
            break;
        }
        in->head += arrival.span;
        prs_marks_add(&in->marks, in->head, arrival.ticket, stage->in.recorded);
        stage->moves++;
        *did = true;
    }
    return PERSEUS_OK;
}
