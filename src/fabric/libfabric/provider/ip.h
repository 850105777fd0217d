/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ip.h: the address that IP providers are to sit on. libfabric's own choice is an outside
 * interface, and it takes any source address at first; so ours is checked before and after.
 */
#ifndef PRS_LIBFABRIC_PROVIDER_IP_H
#define PRS_LIBFABRIC_PROVIDER_IP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "base/log.h"

/* OK if `text` is a numeric address of this host. */
enum perseus_status prs_lf_ip_check(const char *text, const struct prs_log *log);

/* Whether `address` has the host part that `text` spells. */
bool prs_lf_ip_is(const struct sockaddr_storage *address, const char *text);

/* Whether `text` is an address that only means something on its own host. */
bool prs_lf_ip_is_loopback(const char *text);

/* Makes the address of an IP provider's endpoint on another host one of this host's, whose
 * endpoints sit on `bind`: see zones in base/local_address.h. */
void prs_lf_ip_from_peer(void *address, size_t bytes, const char *bind);

#endif
