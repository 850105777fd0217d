/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "fabric/libfabric/provider/caps.h"
#include "fabric/libfabric/internal.h"
#include "fabric/libfabric/status.h"
#include "fabric/libfabric/provider/traits.h"
#include "fabric/op.h"

#define PRS_LF_WORD_BYTES 8

const char *prs_lf_op_name(uint8_t kind)
{
    static const char *const names[PRS_OP_KIND_COUNT] = {
        [PRS_OP_PUT] = "put",
        [PRS_OP_GET] = "get",
        [PRS_OP_SIGNAL_SET] = "signal",
        [PRS_OP_ATOMIC] = "atomic",
        [PRS_OP_ATOMIC_FETCH] = "fetching atomic",
    };
    return names[kind];
}

uint64_t prs_lf_op_bytes(const struct prs_op *op)
{
    return op->kind == PRS_OP_PUT || op->kind == PRS_OP_GET ? op->bytes : PRS_LF_WORD_BYTES;
}

static bool op_uses_local(const struct prs_op *op)
{
    return op->kind == PRS_OP_GET || op->kind == PRS_OP_ATOMIC_FETCH ||
           (op->kind == PRS_OP_PUT && !(op->flags & PRS_OP_INLINE) && op->bytes > 0);
}

static enum perseus_status op_check(struct prs_lf_endpoint *endpoint, const struct prs_op *op)
{
    const struct prs_log *log = prs_lf_log(endpoint);
    if (op->peer >= endpoint->peer_count) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "an operation to peer %u: this endpoint is connected to %u", op->peer,
                        endpoint->peer_count);
    }
    if (prs_lf_peer_is_lost(endpoint, op->peer)) {
        return PERSEUS_PEER_LOST;
    }
    enum perseus_status status = prs_op_check(&endpoint->base, op, log);
    if (status != PERSEUS_OK) {
        return status;
    }
    if (op->remote->endpoint != &endpoint->base ||
        (op_uses_local(op) && op->local->fabric != endpoint->base.fabric)) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "%s to peer %u: a region of another endpoint or fabric; import the remote "
                        "and register the local one here",
                        prs_lf_op_name(op->kind), op->peer);
    }
    return PERSEUS_OK;
}

static uint64_t provider_flags(const struct prs_caps *caps, const struct prs_op *op)
{
    /* The ...msg calls take these from their argument alone, not from the endpoint's op_flags. */
    uint64_t flags = FI_COMPLETION;
    if (op->flags & PRS_OP_EARLY) {
        /* fi_cq(3): the source is reusable. TRANSMIT_COMPLETE would ask for the same message back
         * from the target as DELIVERY_COMPLETE does: the transport's acknowledgement. */
        flags |= FI_INJECT_COMPLETE;
    } else if (caps->completion == PRS_COMPLETION_DELIVERED) {
        flags |= FI_DELIVERY_COMPLETE;
    } else {
        flags |= FI_TRANSMIT_COMPLETE;
    }
    if (op->flags & PRS_OP_FENCE) {
        flags |= FI_FENCE;
    }
    if (op->flags & PRS_OP_IMMEDIATE) {
        flags |= FI_REMOTE_CQ_DATA;
    }
    return flags;
}

/* Where the operation's own side lies: the caller's region, or the context's slot. */
static void *local_side(struct prs_lf_context *context, void **out_descriptor)
{
    const struct prs_op *op = &context->op;
    if (op_uses_local(op)) {
        const struct prs_lf_region *region = (const struct prs_lf_region *)op->local;
        *out_descriptor = fi_mr_desc(region->mr);
        return region->base.base + op->local_offset;
    }
    *out_descriptor = context->slot_descriptor;
    return context->slot;
}

/* Of the operation and those joined to it: delivered, if one of them wants that. */
static uint64_t message_flags(const struct prs_caps *caps, const struct prs_lf_context *context)
{
    uint64_t flags = 0;
    for (; context != NULL; context = context->joined) {
        flags |= provider_flags(caps, &context->op);
    }
    return flags & FI_DELIVERY_COMPLETE ? flags & ~FI_INJECT_COMPLETE : flags;
}

static ssize_t submit_rma(struct prs_lf_endpoint *endpoint, struct prs_lf_context *context,
                          uint64_t flags)
{
    const struct prs_lf_peer *peer = &endpoint->peers[context->op.peer];
    struct iovec local[PRS_LF_SEGMENTS_MAX];
    struct fi_rma_iov target[PRS_LF_SEGMENTS_MAX];
    void *descriptor[PRS_LF_SEGMENTS_MAX];
    uint64_t immediate = 0;
    size_t n = 0;
    for (struct prs_lf_context *part = context; part != NULL; part = part->joined, n++) {
        const struct prs_op *op = &part->op;
        const struct prs_lf_remote *remote = (const struct prs_lf_remote *)op->remote;
        uint64_t bytes = prs_lf_op_bytes(op);
        local[n] = (struct iovec){.iov_base = local_side(part, &descriptor[n]), .iov_len = bytes};
        target[n] = (struct fi_rma_iov){
            .addr = remote->address + op->remote_offset, .len = bytes, .key = remote->key};
        immediate = op->immediate; /* the last one's: gather.c */
    }
    if (local[0].iov_len == 0 && peer->sink.key != 0) { /* alone, then */
        local[0].iov_len = PRS_LF_WORD_BYTES;
        target[0] = (struct fi_rma_iov){
            .addr = peer->sink.address, .len = PRS_LF_WORD_BYTES, .key = peer->sink.key};
    }
    struct fi_msg_rma message = {
        .msg_iov = local,
        .desc = descriptor,
        .iov_count = n,
        .addr = peer->address,
        .rma_iov = target,
        .rma_iov_count = n,
        .context = context,
        .data = immediate,
    };
    if (context->op.kind == PRS_OP_GET) {
        return fi_readmsg(endpoint->ep, &message, flags);
    }
    return fi_writemsg(endpoint->ep, &message, flags);
}

static ssize_t submit_atomic(struct prs_lf_endpoint *endpoint, struct prs_lf_context *context,
                             uint64_t flags)
{
    const struct prs_op *op = &context->op;
    const struct prs_lf_remote *remote = (const struct prs_lf_remote *)op->remote;
    bool compares = op->atomic == PERSEUS_ATOMIC_COMPARE_SWAP;
    void *slot_descriptor = context->slot_descriptor;
    struct fi_ioc operand = {.addr = context->slot, .count = 1};
    struct fi_ioc compare = {.addr = context->slot + PRS_LF_WORD_BYTES, .count = 1};
    struct fi_rma_ioc target = {
        .addr = remote->address + op->remote_offset, .count = 1, .key = remote->key};
    struct fi_msg_atomic message = {
        .msg_iov = &operand,
        .desc = &slot_descriptor,
        .iov_count = 1,
        .addr = endpoint->peers[op->peer].address,
        .rma_iov = &target,
        .rma_iov_count = 1,
        .datatype = FI_UINT64,
        .op = prs_lf_atomic_op(op->atomic),
        .context = context,
    };
    bool has_result = op->kind == PRS_OP_ATOMIC_FETCH;
    bool fetches = prs_lf_fabric_of(endpoint->base.fabric)->traits & PRS_LF_SPOILS_ATOMICS;
    if (!has_result && !fetches) {
        return fi_atomicmsg(endpoint->ep, &message, flags);
    }
    void *result_descriptor = slot_descriptor;
    struct fi_ioc result = {.addr = context->slot + 2 * PRS_LF_WORD_BYTES, .count = 1};
    if (has_result) {
        result.addr = local_side(context, &result_descriptor);
    }
    if (compares) {
        return fi_compare_atomicmsg(endpoint->ep, &message, &compare, &slot_descriptor, 1, &result,
                                    &result_descriptor, 1, flags);
    }
    return fi_fetch_atomicmsg(endpoint->ep, &message, &result, &result_descriptor, 1, flags);
}

/* A post that failed. Either the operation is at fault, or the way to its peer. */
static enum perseus_status refusal(struct prs_lf_endpoint *endpoint, const struct prs_op *op,
                                   ssize_t error)
{
    enum perseus_status status = prs_lf_status(error);
    if (status == PERSEUS_INVALID_ARGUMENT || status == PERSEUS_NOT_SUPPORTED ||
        status == PERSEUS_OUT_OF_MEMORY || status == PERSEUS_LIMIT) {
        return prs_fail(prs_lf_log(endpoint), status,
                        "%s refuses a %s of %llu bytes to peer %u: %s; %s",
                        endpoint->base.fabric->caps.provider, prs_lf_op_name(op->kind),
                        (unsigned long long)prs_lf_op_bytes(op), op->peer, prs_lf_error_text(error),
                        prs_lf_advice(status));
    }
    char why[128];
    snprintf(why, sizeof why, "%s refused with %s", prs_lf_op_name(op->kind),
             prs_lf_error_text(error));
    prs_lf_peer_lose(endpoint, op->peer, why);
    return PERSEUS_PEER_LOST;
}

enum perseus_status prs_lf_submit(struct prs_lf_endpoint *endpoint, struct prs_lf_context *context,
                                  uint64_t more)
{
    const struct prs_op *op = &context->op;
    struct prs_lf_peer *peer = &endpoint->peers[op->peer];
    uint64_t flags = message_flags(&endpoint->base.fabric->caps, context) | more;
    ssize_t error = op->kind == PRS_OP_ATOMIC || op->kind == PRS_OP_ATOMIC_FETCH
                        ? submit_atomic(endpoint, context, flags)
                        : submit_rma(endpoint, context, flags);
    if (error == -FI_EAGAIN) {
        endpoint->was_refused = true;
        return prs_lf_peer_refused(endpoint, op->peer);
    }
    if (error != 0) {
        return refusal(endpoint, op, error);
    }
    for (struct prs_lf_context *part = context; part != NULL; part = part->joined) {
        part->with_provider = true;
        peer->in_flight++;
    }
    peer->refusing = false;
    peer->owed_ring = endpoint->owes_rings = true;
    if (!peer->contacted) {
        prs_lf_contacted(endpoint, peer);
    }
    return PERSEUS_OK;
}

static void fill_slot(struct prs_lf_context *context)
{
    const struct prs_op *op = &context->op;
    if (op->kind == PRS_OP_PUT) {
        if ((op->flags & PRS_OP_INLINE) && op->bytes > 0) {
            memcpy(context->slot, op->inline_source, op->bytes);
        }
    } else {
        memcpy(context->slot, &op->value, PRS_LF_WORD_BYTES);
        memcpy(context->slot + PRS_LF_WORD_BYTES, &op->compare, PRS_LF_WORD_BYTES);
    }
}

/*
 * Doorbells. libfabric has no call that rings one: FI_MORE promises that another operation follows
 * at once, and only an operation without it rings. The last operation posted with MORE is therefore
 * held here; the next one sends it on its way with FI_MORE, flush (or poll) without.
 */
static enum perseus_status release_held(struct prs_lf_endpoint *endpoint, uint64_t more)
{
    struct prs_lf_context *context = endpoint->held;
    if (context == NULL) {
        return PERSEUS_OK;
    }
    enum perseus_status status = prs_lf_peer_is_lost(endpoint, context->op.peer)
                                     ? PERSEUS_PEER_LOST
                                     : prs_lf_submit(endpoint, context, more);
    if (status == PERSEUS_AGAIN) {
        return status;
    }
    endpoint->held = NULL;
    if (status != PERSEUS_OK) {
        /* Its post has already returned OK, so this is an error completion, which ends its peer:
         * what is posted next must not get through where this did not. */
        prs_lf_settle(endpoint, context, status);
        prs_lf_peer_lose(endpoint, context->op.peer, "an operation that was held is refused");
    }
    return PERSEUS_OK;
}

enum perseus_status prs_lf_post(struct prs_endpoint *base, const struct prs_op *op)
{
    struct prs_lf_endpoint *endpoint = prs_lf_endpoint_of(base);
    enum perseus_status status = op_check(endpoint, op);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_lf_context *context;
    status = prs_lf_context_acquire(endpoint, &context);
    if (status != PERSEUS_OK) {
        return status;
    }
    context->op = *op;
    fill_slot(context);
    if (endpoint->gather_max > 1) {
        status = prs_lf_gather(endpoint, context);
        if (status != PERSEUS_OK) {
            prs_lf_context_release(&endpoint->pool, context);
        }
        return status;
    }
    bool follows_held = endpoint->held != NULL;
    status = release_held(endpoint, FI_MORE);
    if (status == PERSEUS_OK && prs_lf_peer_is_lost(endpoint, op->peer)) {
        status = PERSEUS_PEER_LOST;
    }
    if (status != PERSEUS_OK) {
        prs_lf_context_release(&endpoint->pool, context);
        return status;
    }
    if ((op->flags & PRS_OP_MORE) && base->fabric->caps.batching) {
        endpoint->held = context;
        return PERSEUS_OK;
    }
    status = prs_lf_submit(endpoint, context, 0);
    if (status == PERSEUS_AGAIN && follows_held) {
        endpoint->held = context; /* somebody has to ring for the one just sent with FI_MORE */
        return PERSEUS_OK;
    }
    if (status != PERSEUS_OK) {
        prs_lf_context_release(&endpoint->pool, context);
    }
    return status;
}

enum perseus_status prs_lf_flush(struct prs_endpoint *base)
{
    struct prs_lf_endpoint *endpoint = prs_lf_endpoint_of(base);
    return endpoint->gather_max > 1 ? prs_lf_gather_flush(endpoint) : release_held(endpoint, 0);
}
