/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libfabric.h: the back end that moves bytes through libfabric (1.17 and newer).
 *
 * A reliable-datagram endpoint with remote memory access per prs_endpoint, one lane. What the
 * provider grants is read from what fi_getinfo returned, never from its name and never from a post
 * that succeeded; caps.c says how each grant becomes a capability.
 */
#ifndef PRS_FABRIC_LIBFABRIC_H
#define PRS_FABRIC_LIBFABRIC_H

#include "fabric/fabric.h"

extern const struct prs_fabric_ops prs_libfabric_ops;

#endif
