/* SPDX-License-Identifier: Apache-2.0 */
/* abi4.h: the transport object of interface 4.0 (NVSHMEM 3.5). */
#ifndef PRS_NVSHMEM_ABI4_H
#define PRS_NVSHMEM_ABI4_H

#include "host/abi.h"

struct prs_abi4_transport {
    int api_version;
    int type;
    int *cap; /* host */
    struct prs_abi_fields fields;
    struct prs_abi_ops_head head;
    /* vectors of struct prs_abi_rma_memory (two) and struct prs_abi_rma_bytes, of one length */
    int (*put_signal)(void *t, int pe, struct prs_abi_rma_verb verb, struct prs_abi_vector *remote,
                      struct prs_abi_vector *local, struct prs_abi_vector *bytes,
                      struct prs_abi_amo_verb signal_verb, struct prs_abi_amo_memory *signal,
                      struct prs_abi_amo_bytes signal_bytes, int channel);
    struct prs_abi_ops_tail tail;
};
static_assert(sizeof(struct prs_abi4_transport) == 248, "4.0 transport");
static_assert(offsetof(struct prs_abi4_transport, cap) == 8, "4.0 transport");
static_assert(offsetof(struct prs_abi4_transport, fields) == 16, "4.0 transport");
static_assert(offsetof(struct prs_abi4_transport, head) == 128, "4.0 transport");
static_assert(offsetof(struct prs_abi4_transport, put_signal) == 128 + 88, "4.0 transport");
static_assert(offsetof(struct prs_abi4_transport, tail) == 128 + 96, "4.0 transport");

static inline struct prs_abi_parts prs_abi4_parts(struct prs_abi4_transport *t)
{
    return (struct prs_abi_parts){&t->cap, &t->fields, &t->head, &t->tail};
}

#endif
