/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.h: peers of this host are watched as processes.
 *
 * What a provider says when a peer dies ranges from a prompt error to nothing at all: shm and
 * ofi_rxd keep what is in flight for ever, and a post to a process that died before the first
 * contact is refused with "try again" by most. The kernel knows better. Costs one file descriptor
 * per peer of this host.
 */
#ifndef PRS_LIBFABRIC_PROVIDER_PROCESS_H
#define PRS_LIBFABRIC_PROVIDER_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Names the space of process ids we live in: this boot of this host, this container. Two processes
 * with the same number can look at each other. */
uint64_t prs_lf_process_space(void);

/* Names the network we live in, as far as loopback addresses go: 127.0.0.1 is the same here and
 * there only if this is. */
uint64_t prs_lf_network_space(void);

/* A descriptor that tells when `pid` ends; the caller closes it. -1: cannot be watched. *out_ended:
 * it has ended already. */
int prs_lf_process_watch(pid_t pid, bool *out_ended);

/* -1 has not ended, as far as we know. */
bool prs_lf_process_ended(int watch);

#endif
