/* SPDX-License-Identifier: Apache-2.0 */
/* interface3.c: what interface 3.0 has of its own. */
#include "host/interface.h"
#include "host/status.h"

static int connect_endpoints(void *t, int *devices, int n_devices)
{
    (void)devices;
    (void)n_devices;
    const struct prs_abi_fields *fields = &((struct prs_abi3_transport *)t)->fields;
    return (int)prs_abi_status(prs_plugin_connect(prs_interface_plugin(t), fields->my_pe,
                                                  fields->n_pes, fields->bootstrap));
}

static int fence(void *t, int pe, int is_proxy)
{
    return (int)prs_abi_status(
        prs_plugin_fence(prs_interface_plugin(t), prs_interface_side(is_proxy), pe));
}

void prs_interface3_complete(struct prs_abi3_transport *t, bool offers_fence)
{
    t->head.connect_endpoints.v3 = connect_endpoints;
    t->head.fence.v3 = offers_fence ? fence : NULL;
}
