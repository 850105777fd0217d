/* SPDX-License-Identifier: Apache-2.0 */
/*
 * door.h: how an address finds a port of this process.
 *
 * An address travels as bytes and may be used long after its owner has closed, so the pointer in
 * it cannot simply be followed, and there are no global tables here to look it up in. What outlives
 * everybody and is looked up safely is the kernel's file table: a door is a page of anonymous file
 * memory that holds the port's pointer while the port exists. The address names the file
 * (descriptor and inode) and the process. Whoever knocks takes a reference to the file first, so
 * the page stays readable; and a file that is not the one meant is recognised by its inode and by
 * the port's random id in the page.
 */
#ifndef PRS_FABRIC_INPROCESS_DOOR_H
#define PRS_FABRIC_INPROCESS_DOOR_H

#include <stdint.h>

#include "base/log.h"
#include "fabric/inprocess/port.h"

struct prs_door_address {
    uint64_t id; /* of the port */
    uint64_t device, inode;
    int64_t process;
    int32_t file;
    uint32_t zero;
};

struct prs_door;

/* Not an owner of the port: the door must be destroyed before the port's last reference goes. */
enum perseus_status prs_door_create(struct prs_port *port, const struct prs_log *log,
                                    struct prs_door **out);
void prs_door_destroy(struct prs_door *door); /* NULL allowed */
struct prs_door_address prs_door_address(const struct prs_door *door);

/* The port behind an address, with a reference that the caller then owns. PEER_LOST: it is gone;
 * NOT_SUPPORTED: it is in another process. */
enum perseus_status prs_door_knock(const struct prs_door_address *address,
                                   const struct prs_log *log, struct prs_port **out);

#endif
