/* SPDX-License-Identifier: Apache-2.0 */
/* identity.h: what every PE tells every other at start-up, before any fabric is open: who it is,
 * where its heap can be found, and what must be equal everywhere. */
#ifndef PRS_CORE_JOB_IDENTITY_H
#define PRS_CORE_JOB_IDENTITY_H

#include "core/memory/heap.h"
#include "core/job/settings.h"

#define PRS_HOST_BYTES       64
#define PRS_JOB_SECRET_BYTES 16

/* Sent as bytes; every PE has the same byte order and layout. Padding is zero. */
struct prs_identity {
    uint32_t version; /* first, so that other versions can be told apart */
    uint32_t pes_per_node;
    uint64_t heap_bytes; /* of the user's part */
    uint64_t memory;     /* of the heap, enum prs_memory_kind */
    uint64_t device, inode;
    int32_t pid, fd;
    uint64_t cpu_set;                           /* prs_limits.cpu_set */
    uint64_t heap;                              /* its address, for PEs of the same process */
    char host[PRS_HOST_BYTES];                  /* the host's boot id */
    unsigned char secret[PRS_JOB_SECRET_BYTES]; /* random; PE 0's is the job's */
};

_Static_assert(sizeof(struct prs_identity) == 144, "no padding in what is sent");

enum perseus_status prs_identity_fill(const struct prs_settings *settings, struct prs_heap *heap,
                                      const struct prs_log *log, struct prs_identity *out);
/* Whether all PEs agree on version, heap size and pes_per_node; the message names the PE that
 * differs from PE 0. */
enum perseus_status prs_identity_check(const struct prs_identity *all, int size,
                                       const struct prs_log *log);

#endif
