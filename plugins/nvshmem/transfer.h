/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.h: one contiguous piece of data to move, checked, whichever way it goes. */
#ifndef PRS_NVSHMEM_TRANSFER_H
#define PRS_NVSHMEM_TRANSFER_H

#include "plugin.h"

struct prs_transfer {
    struct prs_handle handle;
    uint64_t offset; /* in the remote chunk */
    void *remote;    /* in the peer's address space */
    void *local;
    size_t bytes;
};

enum perseus_status prs_transfer_check(struct prs_plugin *plugin, int pe, const char *what,
                                       const struct prs_abi_rma_memory *remote,
                                       const struct prs_abi_rma_memory *local,
                                       const struct prs_abi_rma_bytes *bytes,
                                       struct prs_transfer *out);
/* Reports local memory that nobody registered. */
enum perseus_status prs_transfer_stray(struct prs_plugin *plugin, int pe, const void *local,
                                       size_t bytes);
/* Whether it goes through pinned memory: the fabric cannot reach one of its sides. */
bool prs_transfer_is_staged(struct prs_plugin *plugin, enum prs_side side,
                            const struct prs_transfer *piece);
/* `desc` is PUT, P, GET or G. */
enum perseus_status prs_transfer_move(struct prs_plugin *plugin, enum prs_side side, int pe,
                                      int desc, const struct prs_transfer *piece, bool is_blocking);
/* A request of `kind` for the piece, both of its sides filled in. With the route's lock held. */
enum perseus_status prs_transfer_request(struct prs_route *route, int pe,
                                         const struct prs_transfer *piece,
                                         enum prs_request_kind kind, struct prs_request *out);

#endif
