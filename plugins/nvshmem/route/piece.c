/* SPDX-License-Identifier: Apache-2.0 */
#include "route/piece.h"

enum perseus_status prs_piece_address(struct prs_route *route, int pe,
                                      const struct prs_piece *piece, enum prs_request_kind kind,
                                      struct prs_request *out)
{
    *out = (struct prs_request){
        .kind = (uint8_t)kind,
        .peer = (uint32_t)pe,
        .token = PRS_ORDER_NO_TOKEN,
        .remote_offset = piece->offset,
        .bytes = piece->bytes,
    };
    return prs_route_remote(route, (uint32_t)pe, &piece->handle, &out->remote);
}

enum perseus_status prs_piece_request(struct prs_route *route, const struct prs_memory *memory,
                                      int pe, const struct prs_piece *piece,
                                      enum prs_request_kind kind, struct prs_request *out)
{
    enum perseus_status status = prs_piece_address(route, pe, piece, kind, out);
    if (status != PERSEUS_OK) {
        return status;
    }
    const struct prs_chunk *chunk = prs_memory_find(memory, piece->local, piece->bytes);
    if (chunk == NULL) {
        return prs_memory_stray(memory, pe, piece->local, piece->bytes);
    }
    out->local = chunk->regions[route->side];
    out->local_offset = (uintptr_t)piece->local - chunk->base;
    return PERSEUS_OK;
}
