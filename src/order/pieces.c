/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pieces.c: a large transfer that several lanes may carry. Each takes a piece, an operation like
 * any other: what must come after the transfer is after all of them, by its epoch or by the count
 * that its record tells, and its token ends with the last.
 */
#include "order/engine.h"

/* In multiples of the least piece, which keeps boundaries aligned; no more than fit the pools. */
static uint64_t piece_bytes(const struct prs_orderer *orderer, const struct prs_request *request)
{
    if (prs_pieces_is_one(orderer, request)) {
        return request->bytes;
    }
    uint64_t least = orderer->config.piece_bytes;
    uint64_t share = (request->bytes + orderer->pieces_max - 1) / orderer->pieces_max;
    return (share + least - 1) / least * least;
}

uint32_t prs_pieces_of(const struct prs_orderer *orderer, const struct prs_request *request)
{
    uint64_t each = piece_bytes(orderer, request);
    return request->bytes <= each ? 1 : (uint32_t)((request->bytes + each - 1) / each);
}

void prs_pieces_give_back(struct prs_orderer *orderer, struct prs_pending *first)
{
    for (uint32_t next; first != NULL;
         first = next == PRS_NONE ? NULL : &orderer->pools.pendings[next]) {
        next = first->next;
        prs_pending_give_back(orderer, first);
    }
}

enum perseus_status prs_pieces_take(struct prs_orderer *orderer, struct prs_order_peer *peer,
                                    const struct prs_request *request, uint32_t token,
                                    struct prs_pending **out_first)
{
    uint64_t each = piece_bytes(orderer, request);
    if (request->bytes <= each) {
        return prs_operation_transfer(orderer, peer, request, token, out_first);
    }
    struct prs_request piece = *request;
    struct prs_pending *first = NULL, *last = NULL;
    for (uint64_t at = 0; at < request->bytes; at += each) {
        struct prs_pending *pending;
        piece.local_offset = request->local_offset + at;
        piece.remote_offset = request->remote_offset + at;
        piece.bytes = request->bytes - at < each ? request->bytes - at : each;
        enum perseus_status status = prs_operation_transfer(orderer, peer, &piece, token, &pending);
        if (status != PERSEUS_OK) {
            prs_pieces_give_back(orderer, first);
            return status;
        }
        if (last != NULL) {
            last->next = prs_pending_index(orderer, pending);
        } else {
            first = pending;
        }
        last = pending;
    }
    *out_first = first;
    return PERSEUS_OK;
}
