/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake.h: a verbs library whose one device does what a test says. Datagrams arrive at once, or are
 * lost. Work requests on reliable connections are taken, moved nowhere, and completed by the test.
 */
#ifndef TESTS_VERBS_FAKE_H
#define TESTS_VERBS_FAKE_H

#include <stdbool.h>

#include "fabric/verbs/library.h"

#define FAKE_POSTS_MAX 4096

struct fake_qp {
    struct ibv_qp qp;
    struct ibv_cq *send_cq, *recv_cq;
    enum ibv_qp_type type;
    struct ibv_recv_wr receives[64];
    struct ibv_sge places[64];
    uint32_t receives_first, receives_end;
    struct ibv_send_wr posts[FAKE_POSTS_MAX];
    uint32_t posted, completed, doorbells;
};

/* Forgets all that was before. */
const struct prs_verbs_library *fake_library(void);
void fake_lose_datagrams(uint32_t n); /* the next so many */
/* The next list of work requests on a reliable connection is taken up to its n-th only. */
void fake_refuse_at(uint32_t n);
uint32_t fake_qps_made(void);
/* Registrations that are there now, and all that were made. */
uint32_t fake_registered(void);
uint32_t fake_registrations_made(void);
/* The device takes no dmabuf. */
void fake_refuse_dmabuf(void);
/* Of the last registration by dmabuf. */
struct fake_dmabuf {
    uint64_t offset, iova, dmabuf_bytes;
    size_t bytes;
};
struct fake_dmabuf fake_dmabuf(void);
struct fake_qp *fake_qp(uint32_t number);
/* Completes posts of this queue pair up to the n-th, in order: of the signaled ones it tells. */
void fake_complete(struct fake_qp *qp, uint32_t n);
/* The next one fails so, and those behind it are flushed. */
void fake_fail(struct fake_qp *qp, enum ibv_wc_status status, uint32_t vendor);
/* Somebody who is not of the job sends these bytes to a queue pair of datagrams. */
void fake_datagram(uint32_t to, const void *bytes, uint32_t n);

#endif
