/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_fabric.h: a fabric that does nothing by itself. It records what was posted; the test says
 * what completes, what arrives and what is refused. For unit tests of state machines without a
 * network.
 */
#ifndef TESTS_SUPPORT_FAKE_FABRIC_H
#define TESTS_SUPPORT_FAKE_FABRIC_H

#include "fabric/fabric.h"

#define FAKE_POSTS_MAX  4096
#define FAKE_EVENTS_MAX 4096

struct fake_post {
    struct prs_op op;
    unsigned char data[1024]; /* of inline and staged puts up to this size */
    bool completed;
};

struct fake_fabric {
    struct prs_fabric fabric;
    struct prs_endpoint endpoint;
    struct fake_post posts[FAKE_POSTS_MAX];
    uint32_t posts_count;
    struct prs_event events[FAKE_EVENTS_MAX];
    uint32_t events_count;
    uint32_t peers_count;
    uint32_t refuse;                          /* this many posts are refused with AGAIN */
    bool (*refuses)(const struct prs_op *op); /* those for which it is true, too */
    enum perseus_status fail;                 /* the next post fails with it, if not OK */
    uint64_t now_ns;
    bool closed;
};

/* Everything granted; change fake->fabric.caps before an orderer is created. */
struct fake_fabric *fake_fabric_create(void);
void fake_fabric_destroy(struct fake_fabric *fake);
/* The index-th post completes. */
void fake_complete(struct fake_fabric *fake, uint32_t index, enum perseus_status status);
/* Every post not completed yet does. */
void fake_complete_all(struct fake_fabric *fake);
void fake_arrive(struct fake_fabric *fake, uint64_t immediate);
struct prs_clock fake_clock(struct fake_fabric *fake);

#endif
