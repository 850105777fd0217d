/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inprocess.h: what is the same in every fabric that stays within its process (loopback, cudadma).
 *
 *   inprocess.c its objects: a fabric with one port, endpoints with their peers, regions, remotes
 *   port.[ch]   what the others see of a fabric: its regions and the inbox of its target events
 *   door.[ch]   how an address finds the port of another fabric of this process
 *
 * A back end's objects begin with these, and it puts these calls into its ops table, or its own
 * that call them. What it adds is how an operation is carried out, and in which order.
 */
#ifndef PRS_FABRIC_INPROCESS_INPROCESS_H
#define PRS_FABRIC_INPROCESS_INPROCESS_H

#include "fabric/fabric.h"
#include "fabric/inprocess/door.h"
#include "fabric/inprocess/port.h"

/* What a back end says of itself. */
struct prs_inprocess_kind {
    const struct prs_fabric_ops *ops;
    uint32_t magic;    /* of its region blobs */
    size_t peer_bytes; /* of its peers, which begin with a struct prs_inprocess_peer */
};

struct prs_inprocess_fabric {
    struct prs_fabric base;
    const struct prs_inprocess_kind *kind;
    const struct prs_log *log;
    int32_t device; /* told with each region; the back end's to understand */
    struct prs_port *port;
    struct prs_door *door;
    struct prs_inprocess_endpoint *first; /* the one that takes target events, or NULL */
    bool had_first;
};

struct prs_inprocess_peer {
    struct prs_port *port;
    bool is_lost;
};

struct prs_inprocess_endpoint {
    struct prs_endpoint base;
    struct prs_inprocess_fabric *fabric;
    struct prs_inprocess_peer **peers; /* they stay where they are */
    uint32_t n_peers, peers_room;
    bool events_first; /* alternates, so that neither kind of event starves the other */
};

struct prs_inprocess_region {
    struct prs_region base;
    struct prs_port_slot slot;
};

struct prs_inprocess_remote {
    struct prs_remote base;
    struct prs_port_slot slot;
    int32_t device;
    bool is_word_aligned; /* the region begins on an 8-byte boundary */
};

/* Of a fabric that is zero but for its caps. On an error it is what it was. */
enum perseus_status prs_inprocess_open(struct prs_inprocess_fabric *self,
                                       const struct prs_inprocess_kind *kind,
                                       const struct prs_log *log);
void prs_inprocess_close(struct prs_inprocess_fabric *self); /* zero allowed */

void prs_inprocess_endpoint_open(struct prs_inprocess_endpoint *self,
                                 struct prs_inprocess_fabric *fabric);
/* From here on nobody reaches it: the first half of closing. */
void prs_inprocess_endpoint_shut(struct prs_inprocess_endpoint *self);
void prs_inprocess_endpoint_close(struct prs_inprocess_endpoint *self);

/* INVALID_ARGUMENT with a message, or PEER_LOST; what every post asks first. */
enum perseus_status prs_inprocess_check(const struct prs_inprocess_endpoint *self,
                                        const struct prs_op *op);
/* Holds the target of an operation open (prs_port_enter), and gives the first byte that it names.
 * What fails ends the peer, with a message when it is first seen. */
enum perseus_status prs_inprocess_enter(struct prs_inprocess_endpoint *self,
                                        const struct prs_op *op, struct prs_port_slot slot,
                                        unsigned char **out_target);
/* Sends the operation's immediate, if it has one. AGAIN: the target's inbox is full. */
enum perseus_status prs_inprocess_tell(struct prs_inprocess_endpoint *self,
                                       const struct prs_op *op);

/* Fills in up to n completions; returns how many. */
typedef uint32_t (*prs_inprocess_complete_fn)(struct prs_inprocess_endpoint *self,
                                              struct prs_event *events, uint32_t n);
/* Completions and target events, in turn first. Returns how many. */
uint32_t prs_inprocess_poll(struct prs_inprocess_endpoint *self, prs_inprocess_complete_fn complete,
                            struct prs_event *events, uint32_t n);

/* As in struct prs_fabric_ops. */
enum perseus_status prs_inprocess_address(struct prs_endpoint *endpoint, void *out, size_t *bytes);
enum perseus_status prs_inprocess_connect(struct prs_endpoint *endpoint, const void *address,
                                          size_t bytes, uint32_t *out_peer);
/* The region's other members are the caller's. */
enum perseus_status prs_inprocess_region_add(struct prs_inprocess_region *region);
void prs_inprocess_region_remove(struct prs_inprocess_region *region);
enum perseus_status prs_inprocess_region_export(struct prs_region *region, void *blob,
                                                size_t *bytes);
enum perseus_status prs_inprocess_import(struct prs_endpoint *endpoint, uint32_t peer,
                                         const void *blob, size_t bytes, struct prs_remote **out);
void prs_inprocess_remote_close(struct prs_remote *remote);

#endif
