/* SPDX-License-Identifier: Apache-2.0 */
/*
 * local_address.h: which of this host's addresses the user means.
 *
 * One value must do for all hosts of a job, as launchers hand the same environment to every PE: so
 * besides an address it may be an interface ("eth0") or a subnet ("10.1.0.0/16").
 *
 * Zones. A link-local IPv6 address (fe80::/10) is one of an interface, and means nothing without
 * it: its zone, "%eth0" in text, the interface's number in a sockaddr. The number is this host's
 * alone, so who gets such an address from another host puts in the one by which it gets there
 * itself.
 */
#ifndef PRS_BASE_LOCAL_ADDRESS_H
#define PRS_BASE_LOCAL_ADDRESS_H

#include <stddef.h>
#include <stdint.h>

#include "base/log.h"

#define PRS_LOCAL_ADDRESS_BYTES 64

struct sockaddr;
struct sockaddr_storage;

/* Writes the numeric address that `text` stands for: itself, if it is one (whether this host has it
 * shows when it is bound); the first address within the subnet; or the first one of the interface.
 * IPv4 before IPv6, and link-local addresses, with their zone, last. INVALID_ARGUMENT, with what
 * there is, if nothing fits. */
enum perseus_status prs_local_address(const char *text, const struct prs_log *log,
                                      char out[PRS_LOCAL_ADDRESS_BYTES]);

/* A numeric address, with a zone if it has one, and port 0. Returns its length, 0: it is none. */
size_t prs_address_parse(const char *text, struct sockaddr_storage *out);

/* The zone of the interface that `text`, as above, names or lies in; 0: none. */
uint32_t prs_local_zone(const char *text);

/* Makes another host's address one of ours: a link-local one gets our zone, unless that is 0. */
void prs_address_enter_zone(struct sockaddr *address, uint32_t zone);

#endif
