/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs.h: the back end on InfiniBand verbs: InfiniBand, RoCE, and Soft-RoCE.
 *
 *   library.c   libibverbs, loaded when it is asked for
 *   settings.c  PERSEUS_IB_*
 *   device.c    which device, port and GID
 *   fabric.c    open, close, the capability report, the ops table
 *   region.c    registered memory
 *   endpoint.c  completion queues, the shared receive queue, the queue pair of datagrams
 *   message.c   connection set-up as bytes
 *   connect.c   ... and as a handshake, driven by poll
 *   queue.c     a reliable connection: its queue pair, and what is in flight on it
 *   post.c      an operation as a work request
 *   poll.c      completions and target events
 *   wake.c      sleeping until there are any
 *
 * A peer is as many reliable connections as there are lanes (PERSEUS_IB_QPS). Each leads one way:
 * who connects posts on it, and the other side only receives, so that two PEs that connect to each
 * other at once do not meet half-way. The queue pair of a connection is made for its peer, so its
 * number is in no address: an address names a queue pair of datagrams, over which connections are
 * agreed on.
 *
 * How order is kept: writes and atomics of one queue pair take effect in the order in which they
 * are posted, in the memory of the target also, as no region is registered for relaxed ordering.
 */
#ifndef PRS_FABRIC_VERBS_VERBS_H
#define PRS_FABRIC_VERBS_VERBS_H

#include "fabric/fabric.h"

extern const struct prs_fabric_ops prs_verbs_ops;

#endif
