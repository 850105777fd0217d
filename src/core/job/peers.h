/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers.h: every PE of the job as this one sees it: its node, and its heap if that could be mapped
 * here (a local peer, reached by plain loads and stores).
 *
 * Two PEs may share memory when they belong to one node and one host. Whether they do is found out,
 * not assumed: a heap is opened through /proc/PID/fd, and a container or a hardened kernel may
 * refuse; then the peer is reached through the fabric like one of another node.
 *
 * PEs of one process share the mapping itself, so that sanitizers see one memory.
 *
 * Memory: 32 bytes per PE of the job, and address space (no memory) for each local heap.
 */
#ifndef PRS_CORE_JOB_PEERS_H
#define PRS_CORE_JOB_PEERS_H

#include <stdatomic.h>

#include "core/job/identity.h"

struct prs_peer {
    unsigned char *base;     /* its heap here, NULL if it is not local */
    struct prs_heap *shared; /* what base belongs to, if it is of this process */
    int node;
    _Atomic uint64_t local_ops;
};

struct prs_peers {
    int self, size;
    int on_cpus; /* PEs of this host that may run on the same CPUs, this one too */
    bool all_local;
    size_t heap_bytes; /* of every mapping */
    struct prs_peer peer[];
};

/* Every PE keeps its heap and its fd until all have done this. */
enum perseus_status prs_peers_create(const struct prs_identity *all, int self, int size,
                                     size_t heap_bytes, const struct prs_log *log,
                                     struct prs_peers **out);
void prs_peers_destroy(struct prs_peers *peers); /* NULL allowed */

#endif
