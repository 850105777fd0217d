/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gather.c: several writes to one peer as one message.
 *
 * Where every message costs a system call and an acknowledgement, and FI_MORE saves neither, writes
 * posted with MORE are gathered: up to the granted number of segments, each with its own local and
 * remote side, go as one fi_writemsg. The provider carries segments out in their order, so a signal
 * in a message is behind the puts before it as it is on the wire. Immediate data tells of the whole
 * message, so whoever carries it is the last. Each peer has a message in the making, since a batch
 * goes to many peers in turn; what must not be gathered sends its peer's on its way first.
 */
#include "fabric/libfabric/internal.h"
#include "fabric/libfabric/provider/traits.h"

/* Larger ones gain nothing, and their parts would wait for each other. */
#define PRS_LF_GATHER_BYTES (128u << 10)

void prs_lf_gather_init(struct prs_lf_endpoint *endpoint)
{
    const struct prs_lf_fabric *fabric = prs_lf_fabric_of(endpoint->base.fabric);
    endpoint->gather_first = PRS_LF_NO_PEER;
    if (fabric->traits & PRS_LF_GATHERS) {
        const struct fi_tx_attr *attr = fabric->info->tx_attr;
        size_t most = attr->iov_limit < attr->rma_iov_limit ? attr->iov_limit : attr->rma_iov_limit;
        endpoint->gather_max = most < PRS_LF_SEGMENTS_MAX ? (uint32_t)most : PRS_LF_SEGMENTS_MAX;
    }
}

static bool is_gatherable(const struct prs_op *op)
{
    return (op->kind == PRS_OP_PUT || op->kind == PRS_OP_SIGNAL_SET) &&
           (op->flags & PRS_OP_FENCE) == 0 && prs_lf_op_bytes(op) > 0 &&
           prs_lf_op_bytes(op) <= PRS_LF_GATHER_BYTES;
}

static bool has_room(const struct prs_lf_endpoint *endpoint, const struct prs_lf_message *message,
                     const struct prs_op *op)
{
    return message->count < endpoint->gather_max &&
           message->bytes + prs_lf_op_bytes(op) <= PRS_LF_GATHER_BYTES &&
           (message->last->op.flags & PRS_OP_IMMEDIATE) == 0;
}

static void unlist(struct prs_lf_endpoint *endpoint, uint32_t index)
{
    uint32_t *link = &endpoint->gather_first;
    while (*link != index) {
        link = &endpoint->peers[*link].message.next_peer;
    }
    *link = endpoint->peers[index].message.next_peer;
}

/* The peer's message in the making goes. AGAIN: it stays. Any other failure is an error completion
 * of its operations, whose posts have returned OK, and ends the peer: what is posted next must not
 * get through where these did not. */
static enum perseus_status send_message(struct prs_lf_endpoint *endpoint, uint32_t index)
{
    struct prs_lf_message *message = &endpoint->peers[index].message;
    struct prs_lf_context *first = message->first;
    enum perseus_status status = prs_lf_peer_is_lost(endpoint, index)
                                     ? PERSEUS_PEER_LOST
                                     : prs_lf_submit(endpoint, first, 0);
    if (status == PERSEUS_AGAIN) {
        return status;
    }
    unlist(endpoint, index);
    *message = (struct prs_lf_message){0};
    if (status == PERSEUS_OK) {
        return PERSEUS_OK;
    }
    while (first != NULL) {
        struct prs_lf_context *joined = first->joined;
        first->joined = NULL;
        prs_lf_settle(endpoint, first, status);
        first = joined;
    }
    prs_lf_peer_lose(endpoint, index, "operations that were gathered are refused");
    return PERSEUS_OK;
}

static void append(struct prs_lf_endpoint *endpoint, struct prs_lf_context *context)
{
    uint32_t index = context->op.peer;
    struct prs_lf_message *message = &endpoint->peers[index].message;
    if (message->first == NULL) {
        message->first = context;
        message->next_peer = endpoint->gather_first;
        endpoint->gather_first = index;
    } else {
        message->last->joined = context;
    }
    message->last = context;
    message->count++;
    message->bytes += prs_lf_op_bytes(&context->op);
}

enum perseus_status prs_lf_gather(struct prs_lf_endpoint *endpoint, struct prs_lf_context *context)
{
    const struct prs_op *op = &context->op;
    struct prs_lf_message *message = &endpoint->peers[op->peer].message;
    bool joins = is_gatherable(op);
    if (message->first != NULL && (!joins || !has_room(endpoint, message, op))) {
        enum perseus_status status = send_message(endpoint, op->peer);
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    if (prs_lf_peer_is_lost(endpoint, op->peer)) {
        return PERSEUS_PEER_LOST;
    }
    bool has_more = op->flags & PRS_OP_MORE;
    if (!joins || (message->first == NULL && !has_more)) {
        return prs_lf_submit(endpoint, context, 0);
    }
    append(endpoint, context);
    if (!has_more || message->count == endpoint->gather_max) {
        send_message(endpoint, op->peer); /* AGAIN: the next flush or poll tries again */
    }
    return PERSEUS_OK;
}

enum perseus_status prs_lf_gather_flush(struct prs_lf_endpoint *endpoint)
{
    enum perseus_status status = PERSEUS_OK;
    uint32_t next;
    for (uint32_t index = endpoint->gather_first; index != PRS_LF_NO_PEER; index = next) {
        next = endpoint->peers[index].message.next_peer; /* send_message may take it off the list */
        if (send_message(endpoint, index) == PERSEUS_AGAIN) {
            status = PERSEUS_AGAIN; /* the other peers go on */
        }
    }
    return status;
}
