/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <string.h>

#include "fabric/op.h"
#include "fabric/verbs/internal.h"

#define WORD_BYTES 8u

static enum perseus_status check(const struct prs_verbs_endpoint *endpoint, const struct prs_op *op)
{
    const struct prs_log *log = prs_verbs_of(endpoint)->log;
    if (op->peer >= endpoint->peer_count) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "an operation to peer %u: this endpoint is connected to %u", op->peer,
                        endpoint->peer_count);
    }
    enum perseus_status status = prs_op_check(&endpoint->base, op, log);
    if (status == PERSEUS_OK && op->remote->endpoint != &endpoint->base) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "an operation to peer %u: its remote was imported at another endpoint",
                        op->peer);
    }
    return status;
}

/* Where the caller's bytes lie, for as long as it takes. */
static void use_region(struct prs_verbs_slot *slot, const struct prs_op *op, uint32_t bytes)
{
    const struct prs_verbs_region *region = (const struct prs_verbs_region *)op->local;
    slot->sge.addr = (uintptr_t)region->base.base + op->local_offset;
    slot->sge.length = bytes;
    slot->sge.lkey = region->key;
}

/* The slot's copy of bytes that may be gone when post returns. */
static void use_copy(const struct prs_verbs_queue *queue, struct prs_verbs_slot *slot,
                     uint32_t bytes)
{
    slot->sge.addr = (uintptr_t)slot->copied;
    slot->sge.length = bytes;
    slot->sge.lkey = queue->mr->lkey;
    if (bytes <= queue->inline_max) {
        slot->wr.send_flags |= IBV_SEND_INLINE;
    }
}

static void fill_transfer(const struct prs_verbs_queue *queue, struct prs_verbs_slot *slot,
                          const struct prs_op *op)
{
    struct ibv_send_wr *wr = &slot->wr;
    bool tells = (op->flags & PRS_OP_IMMEDIATE) != 0;
    wr->opcode = op->kind == PRS_OP_GET ? IBV_WR_RDMA_READ
                 : tells                ? IBV_WR_RDMA_WRITE_WITH_IMM
                                        : IBV_WR_RDMA_WRITE;
    if (tells) {
        wr->imm_data = htonl((uint32_t)op->immediate);
    }
    if (op->bytes == 0) {
        wr->num_sge = 0;
    } else if ((op->flags & PRS_OP_INLINE) != 0) {
        memcpy(slot->copied, op->inline_source, op->bytes);
        use_copy(queue, slot, (uint32_t)op->bytes);
    } else {
        use_region(slot, op, (uint32_t)op->bytes);
    }
}

/* The device's atomics are big-endian on the wire and native at both ends. */
static void fill_atomic(const struct prs_verbs_endpoint *endpoint, struct prs_verbs_slot *slot,
                        const struct prs_op *op)
{
    const struct prs_verbs_remote *remote = (const struct prs_verbs_remote *)op->remote;
    struct ibv_send_wr *wr = &slot->wr;
    bool swaps = op->atomic == PERSEUS_ATOMIC_COMPARE_SWAP;
    wr->opcode = swaps ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr->wr.atomic.remote_addr = remote->address + op->remote_offset;
    wr->wr.atomic.rkey = remote->key;
    wr->wr.atomic.compare_add = swaps ? op->compare : op->value;
    wr->wr.atomic.swap = op->value;
    if (op->kind == PRS_OP_ATOMIC_FETCH) {
        use_region(slot, op, WORD_BYTES);
    } else {
        slot->sge = (struct ibv_sge){.addr = (uintptr_t)&endpoint->scratch,
                                     .length = WORD_BYTES,
                                     .lkey = endpoint->scratch_mr->lkey};
    }
}

static void aim(struct prs_verbs_slot *slot, const struct prs_op *op)
{
    const struct prs_verbs_remote *remote = (const struct prs_verbs_remote *)op->remote;
    slot->wr.wr.rdma.remote_addr = remote->address + op->remote_offset;
    slot->wr.wr.rdma.rkey = remote->key;
}

static void fill_set(const struct prs_verbs_queue *queue, struct prs_verbs_slot *slot,
                     const struct prs_op *op)
{
    slot->wr.opcode = IBV_WR_RDMA_WRITE;
    memcpy(slot->copied, &op->value, WORD_BYTES);
    use_copy(queue, slot, WORD_BYTES);
}

static void wait_for_doorbell(struct prs_verbs_endpoint *endpoint, struct prs_verbs_queue *queue)
{
    if (!queue->unrung_listed) {
        queue->unrung_listed = true;
        queue->next_unrung = endpoint->unrung_first;
        endpoint->unrung_first = queue;
    }
}

/* Why a right operation is not taken. */
static __attribute__((noinline)) enum perseus_status turn_away(struct prs_verbs_endpoint *endpoint,
                                                               struct prs_verbs_peer *peer)
{
    if (peer->ended) {
        prs_verbs_peer_lose(endpoint, peer, "it has closed its endpoint");
    }
    return peer->state == PRS_VERBS_LOST ? PERSEUS_PEER_LOST : PERSEUS_AGAIN;
}

static bool has_room(const struct prs_verbs_endpoint *endpoint, const struct prs_verbs_queue *queue)
{
    return queue->posted < queue->limit && endpoint->in_flight != endpoint->in_flight_max;
}

static struct prs_verbs_slot *take_slot(struct prs_verbs_endpoint *endpoint,
                                        struct prs_verbs_queue *queue, const struct prs_op *op)
{
    struct prs_verbs_slot *slot = queue->free;
    queue->free = (struct prs_verbs_slot *)slot->wr.next;
    queue->posted++;
    endpoint->in_flight++;
    slot->cookie = op->cookie;
    slot->flags = op->flags;
    slot->wr.num_sge = 1;
    slot->wr.send_flags = slot->own_flags;
    return slot;
}

static __attribute__((noinline)) enum perseus_status ring(struct prs_verbs_endpoint *endpoint,
                                                          struct prs_verbs_queue *queue)
{
    prs_verbs_queue_ring(endpoint, queue);
    return PERSEUS_OK;
}

static enum perseus_status leave(struct prs_verbs_endpoint *endpoint, struct prs_verbs_queue *queue,
                                 uint8_t flags)
{
    if ((flags & PRS_OP_MORE) == 0) {
        return ring(endpoint, queue);
    }
    wait_for_doorbell(endpoint, queue);
    return PERSEUS_OK;
}

/* Any operation. Apart, as are other calls, so that plain ones save no registers for it. */
static __attribute__((noinline)) enum perseus_status post_any(struct prs_verbs_endpoint *endpoint,
                                                              const struct prs_op *op)
{
    enum perseus_status status = check(endpoint, op);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_verbs_peer *peer = endpoint->peers[op->peer];
    struct prs_verbs_queue *queue = peer->queues[op->lane];
    if (!has_room(endpoint, queue)) {
        return turn_away(endpoint, peer);
    }
    struct prs_verbs_slot *slot = take_slot(endpoint, queue, op);
    if ((op->flags & PRS_OP_FENCE) != 0) {
        slot->wr.send_flags |= IBV_SEND_FENCE;
    }
    if (op->kind == PRS_OP_ATOMIC || op->kind == PRS_OP_ATOMIC_FETCH) {
        fill_atomic(endpoint, slot, op);
    } else if (op->kind == PRS_OP_SIGNAL_SET) {
        aim(slot, op);
        fill_set(queue, slot, op);
    } else {
        aim(slot, op);
        fill_transfer(queue, slot, op);
    }
    return leave(endpoint, queue, op->flags);
}

enum perseus_status prs_verbs_post(struct prs_endpoint *base, const struct prs_op *op)
{
    struct prs_verbs_endpoint *endpoint = (struct prs_verbs_endpoint *)base;
    if (!prs_op_is_plain(&base->fabric->caps, op) || op->remote->endpoint != base) {
        return post_any(endpoint, op);
    }
    struct prs_verbs_peer *peer = ((const struct prs_verbs_remote *)op->remote)->peer;
    struct prs_verbs_queue *queue = peer->queues[op->lane];
    if (!has_room(endpoint, queue)) {
        return turn_away(endpoint, peer);
    }
    struct prs_verbs_slot *slot = take_slot(endpoint, queue, op);
    aim(slot, op);
    if (op->kind == PRS_OP_PUT) {
        slot->wr.opcode = IBV_WR_RDMA_WRITE;
        use_region(slot, op, (uint32_t)op->bytes);
    } else {
        fill_set(queue, slot, op);
    }
    return leave(endpoint, queue, op->flags);
}

enum perseus_status prs_verbs_flush(struct prs_endpoint *base)
{
    struct prs_verbs_endpoint *endpoint = (struct prs_verbs_endpoint *)base;
    while (endpoint->unrung_first != NULL) {
        struct prs_verbs_queue *queue = endpoint->unrung_first;
        endpoint->unrung_first = queue->next_unrung;
        queue->unrung_listed = false;
        if (queue->posted > queue->rung) {
            prs_verbs_queue_ring(endpoint, queue);
        }
    }
    return PERSEUS_OK;
}
