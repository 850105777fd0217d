/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block.h: the transport object that the host gets, for whichever interface it speaks. The host
 * calls it in that interface's form; whoever made it is called in one form, with every argument
 * that any interface has.
 */
#ifndef PRS_NVSHMEM_BLOCK_H
#define PRS_NVSHMEM_BLOCK_H

#include "host/interface.h"

struct prs_block;

/* What a transport does. Return values are enum prs_abi_status. A NULL here is a NULL for the host,
 * which goes by that; rma, amo, quiet, connect, can_reach_peer and finalize are never NULL. */
struct prs_calls {
    int (*can_reach_peer)(struct prs_block *block, int *access, struct prs_abi_pe_info *peer);
    /* `devices` may be NULL. out_qps is NULL but for a later call, for more queue pairs. */
    int (*connect)(struct prs_block *block, int *devices, int n_devices, int *out_qps, int n_qps);
    int (*get_mem_handle)(struct prs_block *block, unsigned char *handle, void *buffer,
                          size_t bytes, bool local_only);
    int (*release_mem_handle)(struct prs_block *block, unsigned char *handle);
    int (*finalize)(struct prs_block *block); /* the block is freed after it */
    int (*show_info)(struct prs_block *block, int style);
    int (*progress)(struct prs_block *block);
    /* `hints` is NULL but for rma_with_hints, which only a 7.0 host calls, and which is offered if
     * region_flush is. */
    int (*rma)(struct prs_block *block, int pe, const struct prs_abi_rma_verb *verb,
               struct prs_abi_rma_memory *remote, struct prs_abi_rma_memory *local,
               const struct prs_abi_rma_bytes *bytes, int channel,
               const struct prs_abi_hints *hints);
    /* is_float is 0 before 6.0. */
    int (*amo)(struct prs_block *block, int pe, const struct prs_abi_amo_verb *verb,
               struct prs_abi_amo_memory *target, const struct prs_abi_amo_bytes *bytes,
               int channel);
    int (*fence)(struct prs_block *block, int pe, int channel, int is_multi);
    int (*quiet)(struct prs_block *block, int pe, int channel);
    int (*put_signal)(struct prs_block *block, int pe, const struct prs_abi_rma_verb *verb,
                      struct prs_abi_vector *remote, struct prs_abi_vector *local,
                      struct prs_abi_vector *bytes, const struct prs_abi_amo_verb *signal_verb,
                      struct prs_abi_amo_memory *signal,
                      const struct prs_abi_amo_bytes *signal_bytes, int channel);
    int (*enforce_cst)(struct prs_block *block);
    int (*enforce_cst_at_target)(struct prs_block *block);
    int (*add_device_handles)(struct prs_block *block, int stride, unsigned char *handles,
                              uint64_t heap_offset, size_t bytes);
    int (*region_flush)(struct prs_block *block, int role, uint64_t issuer, uint64_t region);
};

struct prs_block {
    const struct prs_interface *interface;
    struct prs_calls calls;
    void *owner; /* of the calls' implementer */
    struct prs_abi_fields *fields;
    _Alignas(16) unsigned char host[PRS_INTERFACE_BYTES_MAX]; /* the host knows its address */
};

/* NULL: no memory. The host's object is block->host; its fields are the caller's to fill in. */
struct prs_block *prs_block_create(const struct prs_interface *interface, int version,
                                   const struct prs_calls *calls, void *owner);

#endif
