/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interface.h: the interfaces that NVSHMEM's host library speaks to its transports, one row each:
 * where the parts of the transport object lie, and which form its callbacks have.
 *
 * Another interface is another row. A version is major * 10000 + minor * 100 + patch; layouts
 * change with the major only.
 */
#ifndef PRS_NVSHMEM_INTERFACE_H
#define PRS_NVSHMEM_INTERFACE_H

#include "base/log.h"
#include "host/abi.h"

#define PRS_INTERFACE_FIRST     3
#define PRS_INTERFACE_LAST      7
#define PRS_INTERFACE_BYTES_MAX 272

struct prs_interface {
    int major;
    const char *nvshmem; /* the releases that speak it */
    /* Of the transport object; places that it does not have are 0. */
    size_t bytes, fields_at, head_at, put_signal_at, tail_at, hints_at;
    /* An int that says how devices are given to PEs; 0 in it is right for us. */
    size_t device_mode_at;
    bool has_queue_pairs; /* connect and fence name them */
    bool has_floats;      /* the verb of 20 bytes, and half, float and double atomics */
    bool has_cuda_table;  /* init's second argument can be trusted to be laid out as abi.h says */
    bool passes_fences;   /* the host calls fence whenever its user does */
};

/* NULL: not one of them. */
const struct prs_interface *prs_interface_find(int major);

/* The interface of a host that speaks `host_version`, and the version to answer: the lesser of both
 * sides'. VERSION for any other, with a message that names both. */
enum perseus_status prs_interface_negotiate(int host_version, const struct prs_log *log,
                                            const struct prs_interface **out, int *out_version);

/* ---- the parts of transport object `t` ---- */

static inline struct prs_abi_start *prs_interface_start(void *t)
{
    return t;
}

static inline struct prs_abi_fields *prs_interface_fields(const struct prs_interface *interface,
                                                          void *t)
{
    return (struct prs_abi_fields *)(void *)((char *)t + interface->fields_at);
}

static inline struct prs_abi_ops_head *prs_interface_head(const struct prs_interface *interface,
                                                          void *t)
{
    return (struct prs_abi_ops_head *)(void *)((char *)t + interface->head_at);
}

/* NULL before 4.0. */
static inline union prs_abi_op_put_signal *
prs_interface_put_signal(const struct prs_interface *interface, void *t)
{
    return interface->put_signal_at == 0
               ? NULL
               : (union prs_abi_op_put_signal *)(void *)((char *)t + interface->put_signal_at);
}

static inline struct prs_abi_ops_tail *prs_interface_tail(const struct prs_interface *interface,
                                                          void *t)
{
    return (struct prs_abi_ops_tail *)(void *)((char *)t + interface->tail_at);
}

/* NULL before 7.0. */
static inline struct prs_abi_ops_hints *prs_interface_hints(const struct prs_interface *interface,
                                                            void *t)
{
    return interface->hints_at == 0
               ? NULL
               : (struct prs_abi_ops_hints *)(void *)((char *)t + interface->hints_at);
}

#endif
