/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/inprocess/port.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#define PRS_INBOX_ROOM     64
#define PRS_INBOX_ROOM_MAX 65536 /* then senders wait: memory stays bounded, events are kept */

struct prs_port_region {
    unsigned char *base; /* NULL: the place is free */
    size_t bytes;
    uint32_t generation;
};

struct prs_port {
    atomic_uint refs;
    uint64_t id;

    /* Held for reading while data moves, for writing by the owner. */
    pthread_rwlock_t memory_lock;
    bool is_open;
    struct prs_port_region *regions;
    uint32_t regions_room;

    pthread_mutex_t inbox_lock;
    struct prs_port_event *inbox; /* a ring; the room is a power of two */
    uint32_t inbox_room, inbox_head, inbox_used;
    int bell; /* of an owner that sleeps, -1: it does not. Under the inbox lock, too */

    pthread_mutex_t words_lock;

    pthread_mutex_t visitors_lock;
    struct prs_port_visitor *visitors;
};

/* Writers go first: an owner that closes must not wait for as long as others keep sending. */
static int rwlock_init(pthread_rwlock_t *lock)
{
    pthread_rwlockattr_t attr;
    int error = pthread_rwlockattr_init(&attr);
    if (error != 0) {
        return error;
    }
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    error = pthread_rwlock_init(lock, &attr);
    pthread_rwlockattr_destroy(&attr);
    return error;
}

enum perseus_status prs_port_create(uint64_t id, struct prs_port **out)
{
    struct prs_port *port = calloc(1, sizeof *port);
    if (port == NULL) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    port->id = id;
    port->bell = -1;
    if (rwlock_init(&port->memory_lock) != 0) {
        goto fail;
    }
    if (pthread_mutex_init(&port->inbox_lock, NULL) != 0) {
        goto fail_inbox;
    }
    if (pthread_mutex_init(&port->words_lock, NULL) != 0) {
        goto fail_words;
    }
    if (pthread_mutex_init(&port->visitors_lock, NULL) != 0) {
        goto fail_visitors;
    }
    /* Pairs with the acquire in prs_port_ref of a thread that found the port through its door. */
    atomic_store_explicit(&port->refs, 1, memory_order_release);
    *out = port;
    return PERSEUS_OK;

fail_visitors:
    pthread_mutex_destroy(&port->words_lock);
fail_words:
    pthread_mutex_destroy(&port->inbox_lock);
fail_inbox:
    pthread_rwlock_destroy(&port->memory_lock);
fail:
    free(port);
    return PERSEUS_OUT_OF_MEMORY;
}

void prs_port_ref(struct prs_port *port)
{
    /* Acquire pairs with the release in prs_port_create. */
    atomic_fetch_add_explicit(&port->refs, 1, memory_order_acquire);
}

void prs_port_unref(struct prs_port *port)
{
    /* Pairs with itself: what every holder did to the port is done before the last one frees it. */
    if (port == NULL || atomic_fetch_sub_explicit(&port->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    pthread_mutex_destroy(&port->visitors_lock);
    pthread_mutex_destroy(&port->words_lock);
    pthread_mutex_destroy(&port->inbox_lock);
    pthread_rwlock_destroy(&port->memory_lock);
    free(port->inbox);
    free(port->regions);
    free(port);
}

uint64_t prs_port_id(const struct prs_port *port)
{
    return port->id;
}

void prs_port_open(struct prs_port *port)
{
    pthread_rwlock_wrlock(&port->memory_lock);
    port->is_open = true;
    pthread_rwlock_unlock(&port->memory_lock);
}

void prs_port_shut(struct prs_port *port)
{
    pthread_rwlock_wrlock(&port->memory_lock);
    port->is_open = false;
    pthread_rwlock_unlock(&port->memory_lock);
    pthread_mutex_lock(&port->inbox_lock);
    port->bell = -1; /* its owner closes it */
    pthread_mutex_unlock(&port->inbox_lock);
}

/* Finds a free place, growing the table if there is none. The lock is held for writing. */
static enum perseus_status port_place(struct prs_port *port, uint32_t *out)
{
    uint32_t index = 0;
    while (index < port->regions_room && port->regions[index].base != NULL) {
        index++;
    }
    if (index == port->regions_room) {
        uint32_t room = port->regions_room == 0 ? 4 : 2 * port->regions_room;
        struct prs_port_region *regions = realloc(port->regions, room * sizeof *regions);
        if (regions == NULL) {
            return PERSEUS_OUT_OF_MEMORY;
        }
        for (uint32_t i = port->regions_room; i < room; i++) {
            regions[i] = (struct prs_port_region){0};
        }
        port->regions = regions;
        port->regions_room = room;
    }
    *out = index;
    return PERSEUS_OK;
}

enum perseus_status prs_port_add(struct prs_port *port, void *base, size_t bytes,
                                 struct prs_port_slot *out)
{
    uint32_t index;
    pthread_rwlock_wrlock(&port->memory_lock);
    enum perseus_status status = port_place(port, &index);
    if (status == PERSEUS_OK) {
        struct prs_port_region *region = &port->regions[index];
        region->base = base;
        region->bytes = bytes;
        region->generation++;
        *out = (struct prs_port_slot){.index = index, .generation = region->generation};
    }
    pthread_rwlock_unlock(&port->memory_lock);
    return status;
}

void prs_port_remove(struct prs_port *port, struct prs_port_slot slot)
{
    pthread_rwlock_wrlock(&port->memory_lock);
    port->regions[slot.index].base = NULL;
    pthread_rwlock_unlock(&port->memory_lock);
}

enum perseus_status prs_port_enter(struct prs_port *port, struct prs_port_slot slot,
                                   unsigned char **out_base, size_t *out_bytes)
{
    pthread_rwlock_rdlock(&port->memory_lock);
    enum perseus_status status = PERSEUS_OK;
    if (!port->is_open) {
        status = PERSEUS_PEER_LOST;
    } else if (slot.index >= port->regions_room || port->regions[slot.index].base == NULL ||
               port->regions[slot.index].generation != slot.generation) {
        status = PERSEUS_IO;
    } else {
        *out_base = port->regions[slot.index].base;
        *out_bytes = port->regions[slot.index].bytes;
        return PERSEUS_OK;
    }
    pthread_rwlock_unlock(&port->memory_lock);
    return status;
}

void prs_port_leave(struct prs_port *port)
{
    pthread_rwlock_unlock(&port->memory_lock);
}

/* Doubles the inbox and lays its events out from the beginning. The inbox lock is held. */
static enum perseus_status port_grow_inbox(struct prs_port *port)
{
    uint32_t room = port->inbox_room == 0 ? PRS_INBOX_ROOM : 2 * port->inbox_room;
    struct prs_port_event *inbox = room <= PRS_INBOX_ROOM_MAX ? malloc(room * sizeof *inbox) : NULL;
    if (inbox == NULL) {
        return PERSEUS_AGAIN;
    }
    for (uint32_t i = 0; i < port->inbox_used; i++) {
        inbox[i] = port->inbox[(port->inbox_head + i) % port->inbox_room];
    }
    free(port->inbox);
    port->inbox = inbox;
    port->inbox_room = room;
    port->inbox_head = 0;
    return PERSEUS_OK;
}

enum perseus_status prs_port_send(struct prs_port *port, struct prs_port_event event)
{
    enum perseus_status status = PERSEUS_OK;
    pthread_mutex_lock(&port->inbox_lock);
    if (port->inbox_used == port->inbox_room) {
        status = port_grow_inbox(port);
    }
    if (status == PERSEUS_OK) {
        port->inbox[(port->inbox_head + port->inbox_used) % port->inbox_room] = event;
        port->inbox_used++;
    }
    pthread_mutex_unlock(&port->inbox_lock);
    return status;
}

uint32_t prs_port_receive(struct prs_port *port, struct prs_port_event *events, uint32_t n)
{
    uint32_t taken = 0;
    pthread_mutex_lock(&port->inbox_lock);
    while (taken < n && port->inbox_used > 0) {
        events[taken++] = port->inbox[port->inbox_head];
        port->inbox_head = (port->inbox_head + 1) % port->inbox_room;
        port->inbox_used--;
    }
    pthread_mutex_unlock(&port->inbox_lock);
    return taken;
}

/* The lock makes it one or the other: an event is in the inbox before the owner looks there, or its
 * sender finds the bell. */
enum perseus_status prs_port_arm(struct prs_port *port, int bell)
{
    enum perseus_status status = PERSEUS_OK;
    pthread_mutex_lock(&port->inbox_lock);
    if (port->inbox_used > 0) {
        status = PERSEUS_AGAIN;
    } else {
        eventfd_t rings;
        eventfd_read(bell, &rings); /* of an earlier sleep; does not wait */
        port->bell = bell;
    }
    pthread_mutex_unlock(&port->inbox_lock);
    return status;
}

void prs_port_ring(struct prs_port *port)
{
    pthread_mutex_lock(&port->inbox_lock);
    if (port->bell >= 0) {
        eventfd_write(port->bell, 1);
        port->bell = -1;
    }
    pthread_mutex_unlock(&port->inbox_lock);
}

void prs_port_lock_words(struct prs_port *port)
{
    pthread_mutex_lock(&port->words_lock);
}

void prs_port_unlock_words(struct prs_port *port)
{
    pthread_mutex_unlock(&port->words_lock);
}

void prs_port_visit(struct prs_port *port, struct prs_port_visitor *visitor)
{
    pthread_mutex_lock(&port->visitors_lock);
    visitor->next = port->visitors;
    port->visitors = visitor;
    pthread_mutex_unlock(&port->visitors_lock);
}

void prs_port_unvisit(struct prs_port *port, struct prs_port_visitor *visitor)
{
    pthread_mutex_lock(&port->visitors_lock);
    struct prs_port_visitor **at = &port->visitors;
    while (*at != NULL && *at != visitor) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        *at = visitor->next;
    }
    pthread_mutex_unlock(&port->visitors_lock);
}

void prs_port_settle(struct prs_port *port)
{
    pthread_mutex_lock(&port->visitors_lock);
    for (struct prs_port_visitor *visitor = port->visitors; visitor != NULL;
         visitor = visitor->next) {
        visitor->settle(visitor->context);
    }
    pthread_mutex_unlock(&port->visitors_lock);
}
