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
    slot->sge = (struct ibv_sge){.addr = (uintptr_t)(region->base.base + op->local_offset),
                                 .length = bytes,
                                 .lkey = region->mr->lkey};
}

/* Bytes that may be gone when post returns. */
static void use_copy(struct prs_verbs_queue *queue, struct prs_verbs_slot *slot, const void *source,
                     uint32_t bytes)
{
    unsigned char *copy = queue->copied[slot - queue->slots];
    memcpy(copy, source, bytes);
    slot->sge = (struct ibv_sge){.addr = (uintptr_t)copy, .length = bytes, .lkey = queue->mr->lkey};
    if (bytes <= queue->inline_max) {
        slot->wr.send_flags |= IBV_SEND_INLINE;
    }
}

static void fill_transfer(struct prs_verbs_queue *queue, struct prs_verbs_slot *slot,
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
        use_copy(queue, slot, op->inline_source, (uint32_t)op->bytes);
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

static void fill(const struct prs_verbs_endpoint *endpoint, struct prs_verbs_queue *queue,
                 struct prs_verbs_slot *slot, const struct prs_op *op)
{
    const struct prs_verbs_remote *remote = (const struct prs_verbs_remote *)op->remote;
    struct ibv_send_wr *wr = &slot->wr;
    slot->cookie = op->cookie;
    slot->untracked = (op->flags & PRS_OP_UNTRACKED) != 0;
    wr->num_sge = 1;
    wr->send_flags = (op->flags & PRS_OP_FENCE) != 0 ? IBV_SEND_FENCE : 0;
    if (queue->posted % PRS_VERBS_SIGNALED_EVERY == 0) {
        wr->send_flags |= IBV_SEND_SIGNALED;
    }
    if (op->kind == PRS_OP_ATOMIC || op->kind == PRS_OP_ATOMIC_FETCH) {
        fill_atomic(endpoint, slot, op);
        return;
    }
    wr->wr.rdma.remote_addr = remote->address + op->remote_offset;
    wr->wr.rdma.rkey = remote->key;
    if (op->kind == PRS_OP_SIGNAL_SET) {
        wr->opcode = IBV_WR_RDMA_WRITE;
        use_copy(queue, slot, &op->value, WORD_BYTES);
    } else {
        fill_transfer(queue, slot, op);
    }
}

static void wait_for_doorbell(struct prs_verbs_endpoint *endpoint, struct prs_verbs_queue *queue)
{
    if (!queue->unrung_listed) {
        queue->unrung_listed = true;
        queue->next_unrung = endpoint->unrung_first;
        endpoint->unrung_first = queue;
    }
}

enum perseus_status prs_verbs_post(struct prs_endpoint *base, const struct prs_op *op)
{
    struct prs_verbs_endpoint *endpoint = (struct prs_verbs_endpoint *)base;
    enum perseus_status status = check(endpoint, op);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_verbs_peer *peer = endpoint->peers[op->peer];
    if (peer->ended) {
        prs_verbs_peer_lose(endpoint, peer, "it has closed its endpoint");
    }
    if (peer->state == PRS_VERBS_LOST) {
        return PERSEUS_PEER_LOST;
    }
    struct prs_verbs_queue *queue = peer->queues[op->lane];
    if (peer->state == PRS_VERBS_CONNECTING || prs_verbs_queue_is_full(queue) ||
        endpoint->in_flight == endpoint->in_flight_max) {
        return PERSEUS_AGAIN;
    }
    struct prs_verbs_slot *slot = &queue->slots[queue->posted % PRS_VERBS_DEPTH];
    fill(endpoint, queue, slot, op);
    queue->posted++;
    endpoint->in_flight++;
    if ((op->flags & PRS_OP_MORE) != 0) {
        wait_for_doorbell(endpoint, queue);
    } else {
        prs_verbs_queue_ring(endpoint, queue);
    }
    return PERSEUS_OK;
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
