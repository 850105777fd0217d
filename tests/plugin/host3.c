/* SPDX-License-Identifier: Apache-2.0 */
/* host3.c: what the host's side of interface 3.0 has of its own. */
#include "host/abi3.h"
#include "host.h"

static struct prs_abi_parts parts(struct host_pe *pe)
{
    return prs_abi3_parts(pe->transport);
}

static int connect_all(struct host_pe *pe)
{
    int device = -1;
    return pe->parts.head->connect_endpoints.v3(pe->transport, &device, 1);
}

static int fence(struct host_pe *pe, bool proxy, int target)
{
    return pe->parts.head->fence.v3(pe->transport, target, proxy);
}

static bool has_fence(struct host_pe *pe)
{
    return pe->parts.head->fence.v3 != NULL;
}

const struct host_interface host_interface3 = {
    .major = 3,
    .all_channels = 1,
    .parts = parts,
    .connect = connect_all,
    .fence = fence,
    .has_fence = has_fence,
};
