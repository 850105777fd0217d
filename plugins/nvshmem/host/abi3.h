/* SPDX-License-Identifier: Apache-2.0 */
/* abi3.h: the transport object of interface 3.0 (NVSHMEM 3.4). */
#ifndef PRS_NVSHMEM_ABI3_H
#define PRS_NVSHMEM_ABI3_H

#include "host/abi.h"

struct prs_abi3_transport {
    int api_version;
    int type;
    int *cap; /* host */
    struct prs_abi_ops_head head;
    struct prs_abi_ops_tail tail;
    struct prs_abi_fields fields;
};
static_assert(sizeof(struct prs_abi3_transport) == 240, "3.0 transport");
static_assert(offsetof(struct prs_abi3_transport, cap) == 8, "3.0 transport");
static_assert(offsetof(struct prs_abi3_transport, head) == 16, "3.0 transport");
static_assert(offsetof(struct prs_abi3_transport, tail) == 16 + 88, "3.0 transport");
static_assert(offsetof(struct prs_abi3_transport, fields) == 128, "3.0 transport");

static inline struct prs_abi_parts prs_abi3_parts(struct prs_abi3_transport *t)
{
    return (struct prs_abi_parts){&t->cap, &t->fields, &t->head, &t->tail};
}

#endif
