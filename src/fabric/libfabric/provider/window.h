/* SPDX-License-Identifier: Apache-2.0 */
/*
 * window.h: room to receive for a provider that looks at headers without taking them.
 *
 * sockets of libfabric 1.17 peeks at a message's header until all of it is there, 24 bytes and
 * more. Linux counts a segment's whole memory against the receive buffer until its last byte is
 * taken: over loopback that is up to 100 KiB of the 128 KiB that a connection begins with. When the
 * first bytes of a header are the last ones of such a segment, the window stays shut, the rest of
 * the header is never sent, and the connection stands still for ever. A receive buffer that holds
 * several segments always has room for the rest. libfabric's own variable for it
 * (FI_SOCKETS_MAX_BUF_SZ) is read from the environment, which is not ours to change, so the
 * connections are found by their addresses.
 */
#ifndef PRS_LIBFABRIC_PROVIDER_WINDOW_H
#define PRS_LIBFABRIC_PROVIDER_WINDOW_H

#include <sys/socket.h>

/* Widens the receive buffer of every TCP socket of this process that has `address`, with its port,
 * at either end. A socket that listens there hands its buffer on to what it accepts. Never makes
 * one smaller. Returns how many were widened. */
int prs_lf_window_widen(const struct sockaddr_storage *address);

#endif
