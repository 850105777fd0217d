/* SPDX-License-Identifier: Apache-2.0 */
/* piece.h: one contiguous piece of data to move, checked, whichever way it goes. */
#ifndef PRS_NVSHMEM_PIECE_H
#define PRS_NVSHMEM_PIECE_H

#include "route/memory.h"
#include "route/route.h"

struct prs_piece {
    struct prs_handle handle; /* of the remote chunk */
    uint64_t offset;          /* in it */
    void *remote;             /* in the peer's address space */
    void *local;
    size_t bytes;
};

/* A request of `kind` toward the piece's remote side; what is local is the caller's to fill in.
 * Under the route's lock, as all here. */
enum perseus_status prs_piece_address(struct prs_route *route, int pe,
                                      const struct prs_piece *piece, enum prs_request_kind kind,
                                      struct prs_request *out);
/* The same, with both sides filled in. */
enum perseus_status prs_piece_request(struct prs_route *route, const struct prs_memory *memory,
                                      int pe, const struct prs_piece *piece,
                                      enum prs_request_kind kind, struct prs_request *out);

#endif
