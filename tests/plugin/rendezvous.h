/* SPDX-License-Identifier: Apache-2.0 */
/* rendezvous.h: the bootstrap of the harness: PEs (threads or forked processes) meet in shared
 * memory. Every call has a deadline; once a PE is missing, all calls fail. */
#ifndef RENDEZVOUS_H
#define RENDEZVOUS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define RENDEZVOUS_BLOCK_MAX 16384

struct rendezvous {
    int n_pes, timeout_ms;
    _Atomic unsigned arrived, round;
    _Atomic bool broken;
    unsigned char *slots; /* n_pes blocks, behind this object */
};

struct rendezvous *rendezvous_create(int n_pes, int timeout_ms);
void rendezvous_destroy(struct rendezvous *meeting);

/* 0, or non-zero when some PE did not come in time. */
int rendezvous_barrier(struct rendezvous *meeting);
int rendezvous_allgather(struct rendezvous *meeting, int pe, const void *send, void *receive,
                         int bytes);

#endif
