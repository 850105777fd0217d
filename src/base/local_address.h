/* SPDX-License-Identifier: Apache-2.0 */
/*
 * local_address.h: which of this host's addresses the user means.
 *
 * One value must do for all hosts of a job, as launchers hand the same environment to every PE: so
 * besides an address it may be an interface ("eth0") or a subnet ("10.1.0.0/16").
 */
#ifndef PRS_BASE_LOCAL_ADDRESS_H
#define PRS_BASE_LOCAL_ADDRESS_H

#include <stddef.h>

#include "base/log.h"

#define PRS_LOCAL_ADDRESS_BYTES 64

/* Writes the numeric address that `text` stands for: itself, if it is one (whether this host has it
 * shows when it is bound); the first address within the subnet; or the first one of the interface,
 * IPv4 before IPv6, link-local ones never. INVALID_ARGUMENT, with what there is, if nothing fits. */
enum perseus_status prs_local_address(const char *text, const struct prs_log *log,
                                      char out[PRS_LOCAL_ADDRESS_BYTES]);

#endif
