/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pacing.h: connections within this host are not paced.
 *
 * Where the host's congestion control is BBR, TCP sends at a rate that it has measured. Over
 * loopback it measures when the receiver's thread was last scheduled, and 96 writes of 64 KiB take
 * two to five times as long (docs/benchmarks.md). There is no network to be kind to; connections to
 * other hosts keep what their administrator chose. libfabric has no option for it, so the sockets
 * are found behind the descriptor that a completion queue gives its callers to sleep on.
 */
#ifndef PRS_LIBFABRIC_PROVIDER_PACING_H
#define PRS_LIBFABRIC_PROVIDER_PACING_H

/* Takes BBR from the TCP connections that `wait_fd` watches, an epoll descriptor or one of several
 * within each other, and whose two ends have one address. Leaves all others alone; where /proc
 * cannot be read, those too. Returns how many it changed. */
int prs_lf_pacing_lift(int wait_fd);

#endif
