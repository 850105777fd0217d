/* SPDX-License-Identifier: Apache-2.0 */
/* shim3.c: the callbacks that interface 3.0 has of its own. */
#include "profile/shim.h"

static int connect_endpoints(void *t, int *devices, int n_devices)
{
    struct prs_shim *shim = prs_shim_of(t);
    prs_shim_pass_on(shim);
    int failed = shim->parts.head->connect_endpoints.v3(shim->inner, devices, n_devices);
    prs_shim_connected(shim);
    return failed;
}

static int fence(void *t, int pe, int is_proxy)
{
    struct prs_shim *shim = prs_shim_of(t);
    uint64_t start_ns = prs_profile_now_ns();
    int failed = shim->parts.head->fence.v3(shim->inner, pe, is_proxy);
    prs_shim_add(shim, PRS_PROFILE_FENCE, is_proxy, pe, 0, start_ns);
    return failed;
}

void prs_shim3_complete(struct prs_shim *shim)
{
    struct prs_abi_ops_head *head = &shim->outer.v3.head;
    head->connect_endpoints.v3 = connect_endpoints;
    head->fence.v3 = head->fence.v3 != NULL ? fence : NULL;
}
