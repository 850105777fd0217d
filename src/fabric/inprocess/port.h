/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port.h: what other endpoints of the process see of a fabric that stays within it (loopback,
 * cudadma).
 *
 * A port is shared by the fabric that made it and by every peer connected to it, and lives until
 * the last of them lets go. Data moves into its regions only between prs_port_enter and
 * prs_port_leave, which hold it open: once the owner's prs_port_shut or prs_port_remove has
 * returned, nobody touches that memory any more. Who only starts a transfer in between, for a copy
 * engine to finish, is a visitor: the owner settles them before it lets the memory go.
 */
#ifndef PRS_FABRIC_INPROCESS_PORT_H
#define PRS_FABRIC_INPROCESS_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <perseus/status.h>

/* Names a region within its port; never names a later region in the same place. */
struct prs_port_slot {
    uint32_t index, generation;
};

struct prs_port_event {
    uint64_t source; /* id of the sender's port */
    uint64_t immediate;
};

struct prs_port;

/* `id` is random: no two ports share one. The caller owns the first reference. */
enum perseus_status prs_port_create(uint64_t id, struct prs_port **out);
void prs_port_ref(struct prs_port *port);
void prs_port_unref(struct prs_port *port); /* NULL allowed */
uint64_t prs_port_id(const struct prs_port *port);

/* Peers can reach the port from prs_port_open to prs_port_shut. */
void prs_port_open(struct prs_port *port);
void prs_port_shut(struct prs_port *port);

enum perseus_status prs_port_add(struct prs_port *port, void *base, size_t bytes,
                                 struct prs_port_slot *out);
void prs_port_remove(struct prs_port *port, struct prs_port_slot slot);

/* Holds the port open and gives a region's memory. PEER_LOST: shut; IO: no such region (any more).
 * Only after OK: prs_port_leave. Not twice at once by one thread. */
enum perseus_status prs_port_enter(struct prs_port *port, struct prs_port_slot slot,
                                   unsigned char **out_base, size_t *out_bytes);
void prs_port_leave(struct prs_port *port);

/* Told by the owner's thread to finish what it has under way into the port. */
struct prs_port_visitor {
    void (*settle)(void *context);
    void *context;
    struct prs_port_visitor *next; /* the port's */
};
/* A visitor is the visitor's memory until prs_port_unvisit has returned. */
void prs_port_visit(struct prs_port *port, struct prs_port_visitor *visitor);
void prs_port_unvisit(struct prs_port *port, struct prs_port_visitor *visitor);
/* The owner, after prs_port_shut or prs_port_remove. */
void prs_port_settle(struct prs_port *port);

/* Puts an event into the inbox. AGAIN: it is full, the owner must poll. */
enum perseus_status prs_port_send(struct prs_port *port, struct prs_port_event event);
/* Takes up to n events, oldest first; returns how many. */
uint32_t prs_port_receive(struct prs_port *port, struct prs_port_event *events, uint32_t n);

/* The owner goes to sleep: the next arrival, of data or of an event, rings `bell` (an eventfd),
 * once. AGAIN: an event is there already. Opened or shut, the port rings nobody. */
enum perseus_status prs_port_arm(struct prs_port *port, int bell);
/* Something has arrived at the port; after the last prs_port_leave of it. */
void prs_port_ring(struct prs_port *port);

/* For fabrics whose atomics are not coherent with the CPU's: atomic among initiators only. */
void prs_port_lock_words(struct prs_port *port);
void prs_port_unlock_words(struct prs_port *port);

#endif
