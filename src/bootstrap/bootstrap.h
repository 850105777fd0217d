/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bootstrap/bootstrap.h: who are my peers, and the one collective that start-up needs.
 *
 * Calls are collective, in the same order on every PE, from one thread. Every call has the deadline
 * given at open. A PE that dies is told to the others: their next call, or prs_bootstrap_health,
 * gives PEER_LOST. Cost: star over rank 0, O(PEs) messages and O(PEs) memory there per call.
 */
#ifndef PRS_BOOTSTRAP_BOOTSTRAP_H
#define PRS_BOOTSTRAP_BOOTSTRAP_H

#include <perseus/perseus.h>

#include "base/log.h"

struct prs_bootstrap;

struct prs_bootstrap_ops {
    const char *name;
    /* recv holds size * bytes, in rank order. bytes <= 1 MiB. send and recv do not overlap. */
    enum perseus_status (*allgather)(struct prs_bootstrap *bootstrap, const void *send, void *recv,
                                     size_t bytes);
    /* Never blocks. PEER_LOST, with *out_rank (or -1), once some PE is known to be gone. May be
     * called from any thread, but not during allgather. */
    enum perseus_status (*health)(struct prs_bootstrap *bootstrap, int *out_rank);
    /* Says goodbye, so that it is no loss to the others. Waits only for results that rank 0 of a
     * tcp job still owes them, at most the deadline. */
    void (*close)(struct prs_bootstrap *bootstrap);
    /* Closes without goodbye, for error paths: the others get PEER_LOST with this rank. Never
     * waits. */
    void (*abandon)(struct prs_bootstrap *bootstrap);
};

struct prs_bootstrap {
    const struct prs_bootstrap_ops *ops;
    int rank, size;
};

/* By attr->bootstrap, or what the environment shows (prs_env BOOTSTRAP_FD, UNIQUE_ID, then PMIx,
 * then one PE alone). The caller closes it through ops. */
enum perseus_status prs_bootstrap_open(const struct perseus_attr *attr, const struct prs_log *log,
                                       struct prs_bootstrap **out);

enum perseus_status prs_bootstrap_open_single(struct prs_bootstrap **out);
/* One end of a socket pair to the launcher's hub (bootstrap/hub.h). The descriptor is owned on
 * success. */
enum perseus_status prs_bootstrap_open_local(int fd, int rank, int size, uint32_t timeout_ms,
                                             const struct prs_log *log, struct prs_bootstrap **out);
enum perseus_status prs_bootstrap_open_tcp(const struct perseus_unique_id *id, int rank, int size,
                                           uint32_t timeout_ms, const struct prs_log *log,
                                           struct prs_bootstrap **out);
enum perseus_status prs_bootstrap_open_pmix(uint32_t timeout_ms, const struct prs_log *log,
                                            struct prs_bootstrap **out);

#endif
