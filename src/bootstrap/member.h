/* SPDX-License-Identifier: Apache-2.0 */
/* bootstrap/member.h: a PE's side of the star, the same for local and tcp: one connected stream
 * socket to the hub. Begins the object of either, so that its ops can be in their tables. */
#ifndef PRS_BOOTSTRAP_MEMBER_H
#define PRS_BOOTSTRAP_MEMBER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/wire.h"

struct prs_member {
    struct prs_bootstrap bootstrap; /* first: ops get this address */
    struct prs_log log;
    struct prs_clock clock;
    int hub_rank; /* whose process the hub is in; -1: the launcher */
    uint32_t timeout_ms;
    pthread_mutex_t mutex; /* what follows, held during allgather */
    int fd;
    bool is_hub_gone; /* it said goodbye */
    struct prs_wire_reader reader;
    enum perseus_status failure; /* of this job, for good; OK: none */
    atomic_int lost;             /* the rank that health reports, or PRS_MEMBER_NONE_LOST */
};
enum { PRS_MEMBER_NONE_LOST = -2 };

enum perseus_status prs_member_init(struct prs_member *member, const struct prs_bootstrap_ops *ops,
                                    int rank, int size, int hub_rank, uint32_t timeout_ms,
                                    const struct prs_log *log);
/* Closes the socket, if there is one, with goodbye or without. */
void prs_member_finish(struct prs_member *member, bool says_goodbye);

/* Sees proof that the hub knows `secret`, proves the same, and waits until it lets this PE in, or
 * deadline_ns. The socket is the member's on success. AGAIN, not logged: the hub closed before it
 * answered. */
enum perseus_status prs_member_join(struct prs_member *member, int fd, const unsigned char *secret,
                                    uint64_t deadline_ns);
/* timeout_ms from now, UINT64_MAX for PERSEUS_NO_TIMEOUT. */
uint64_t prs_member_deadline_ns(const struct prs_member *member);

enum perseus_status prs_member_allgather(struct prs_bootstrap *bootstrap, const void *send,
                                         void *recv, size_t bytes);
enum perseus_status prs_member_health(struct prs_bootstrap *bootstrap, int *out_rank);

#endif
