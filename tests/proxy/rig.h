/* SPDX-License-Identifier: Apache-2.0 */
/* rig.h: a proxy between a ring and the fake orderer, and what it logs. */
#ifndef PRS_TESTS_PROXY_RIG_H
#define PRS_TESTS_PROXY_RIG_H

#include "base/log.h"
#include "proxy/fake_orderer.h"
#include "proxy/proxy.h"

#define RIG_WINDOWS 3
#define RIG_TICKETS 64

/* Windows 0 to RIG_WINDOWS-1 are known locally, peers 0 to FAKE_PEERS-1 remotely. */
struct rig {
    struct prs_ring *ring;
    struct prs_tickets *tickets;
    struct prs_sources *sources;
    struct prs_orderer *orderer;
    struct prs_proxy *proxy;
    struct prs_region regions[RIG_WINDOWS];
    enum perseus_status remote_answer;
    struct prs_log log;
    uint32_t errors_logged;
    char last_error[256];
};

/* Asserts inside. batch 0: the default. */
struct rig *rig_create(uint32_t slots, uint32_t batch);
void rig_destroy(struct rig *rig);

/* What the look-up of `peer` finds. */
struct prs_window_remote *rig_remote(struct rig *rig, uint32_t peer);
uint32_t rig_ticket(struct rig *rig);
void rig_push(struct rig *rig, struct prs_desc desc);
/* A vector and its n values v, v+1, ... in one call. False when the ring is full. */
bool rig_push_vector(struct rig *rig, uint32_t peer, uint32_t ticket, uint32_t n, uint64_t v);
/* One step that must succeed; returns whether it did anything. */
bool rig_step(struct rig *rig);
/* The ticket must be complete now: its status. */
enum perseus_status rig_status(struct rig *rig, uint32_t ticket);

#endif
