/* SPDX-License-Identifier: Apache-2.0 */
/* traffic.h: what programs do over a transport, each with the check that would catch its failure.
 * All are bodies for host_run. */
#ifndef TRAFFIC_H
#define TRAFFIC_H

#include "host.h"

struct traffic {
    uint64_t seed;
    int rounds;
    bool keeps_puts; /* two large puts keep their order, whatever a fence between them does */
};

/* Puts with signals from everyone to everyone; payload is checked the moment its signal is seen. */
void traffic_storm(struct host_pe *pe, void *traffic);
/* Decoupled signaling: many puts, one fence, neighbouring signals. */
void traffic_groups(struct host_pe *pe, void *traffic);
/* Flags behind bulk data (P, small put, atomics): with the fences a program makes, which the host
 * may drop. */
void traffic_flags(struct host_pe *pe, void *traffic);
/* Operations of every kind with fences between them, watched all the time: none is seen before an
 * earlier one. */
void traffic_order(struct host_pe *pe, void *traffic);
/* SETs of a growing counter to one word, no fence: it never goes back. */
void traffic_growing(struct host_pe *pe, void *traffic);
/* Every atomic code and width against a model, concurrent counters, fetches, self included. */
void traffic_atomics(struct host_pe *pe, void *traffic);
/* Gets, P and G, user buffers, put_signal with no and with several chunks. */
void traffic_shapes(struct host_pe *pe, void *traffic);
/* User-thread puts and gets while the proxy thread works. */
void traffic_user(struct host_pe *pe, void *traffic);

#endif
