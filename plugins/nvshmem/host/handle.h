/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handle.h: the 512 bytes by which NVSHMEM carries a registered chunk of memory between PEs.
 *
 * The host copies them, gathers them from every PE, and gives them back at any address and
 * alignment; so they hold everything by value. All-zero bytes mean "no handle", hence the magic.
 */
#ifndef PRS_NVSHMEM_HANDLE_H
#define PRS_NVSHMEM_HANDLE_H

#include "host/abi.h"

#define PRS_HANDLE_MAGIC       0x7073656873726570u
#define PRS_HANDLE_BLOBS_BYTES (PRS_ABI_HANDLE_BYTES - 48)

enum prs_side { PRS_SIDE_HOST, PRS_SIDE_PROXY, PRS_SIDE_COUNT };

enum prs_handle_kind {
    PRS_HANDLE_WINDOW = 1, /* remote memory that the fabric reaches */
    PRS_HANDLE_STAGED,     /* memory behind its owner's staging agent */
    PRS_HANDLE_LOCAL       /* a user buffer: source and destination on its owner only */
};

struct prs_handle {
    uint64_t magic;
    uint64_t base, bytes; /* in the owner's address space */
    uint32_t owner;       /* PE */
    uint32_t number;      /* of this chunk at its owner, never used twice */
    uint32_t kind;        /* enum prs_handle_kind */
    uint16_t blob_bytes[PRS_SIDE_COUNT];
    uint32_t reserved[2];
    unsigned char blobs[PRS_HANDLE_BLOBS_BYTES]; /* window blobs, host's then proxy's */
};
static_assert(sizeof(struct prs_handle) == PRS_ABI_HANDLE_BYTES, "handle fills the blob");
static_assert(offsetof(struct prs_handle, blobs) == 48, "handle head");

/* The window blob of one side, inside `handle`. */
static inline const unsigned char *prs_handle_blob(const struct prs_handle *handle,
                                                   enum prs_side side)
{
    return handle->blobs + (side == PRS_SIDE_PROXY ? handle->blob_bytes[PRS_SIDE_HOST] : 0);
}

/* Copies a blob of any alignment out; false when it is not one of ours or not sound. */
bool prs_handle_read(const unsigned char *blob, struct prs_handle *out);

#endif
