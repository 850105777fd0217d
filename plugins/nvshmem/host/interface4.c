/* SPDX-License-Identifier: Apache-2.0 */
/* interface4.c: what interface 4.0 has of its own. */
#include "host/interface.h"
#include "host/status.h"

/* Called again for more queue pairs: `out_qps` holds the default one, which serves every request. */
static int connect_endpoints(void *t, int *devices, int n_devices, int *out_qps, int n_qps)
{
    (void)devices;
    (void)n_devices;
    (void)out_qps;
    (void)n_qps;
    const struct prs_abi_fields *fields = &((struct prs_abi4_transport *)t)->fields;
    return (int)prs_abi_status(prs_plugin_connect(prs_interface_plugin(t), fields->my_pe,
                                                  fields->n_pes, fields->bootstrap));
}

static int fence(void *t, int pe, int qp, int is_multi)
{
    (void)is_multi;
    return (int)prs_abi_status(
        prs_plugin_fence(prs_interface_plugin(t), prs_interface_side(qp), pe));
}

static int put_signal(void *t, int pe, struct prs_abi_rma_verb verb, struct prs_abi_vector *remote,
                      struct prs_abi_vector *local, struct prs_abi_vector *bytes,
                      struct prs_abi_amo_verb signal_verb, struct prs_abi_amo_memory *signal,
                      struct prs_abi_amo_bytes signal_bytes, int qp)
{
    (void)verb;
    (void)signal_bytes; /* signals are 8 bytes */
    return (int)prs_abi_status(prs_plugin_put_signal(prs_interface_plugin(t),
                                                     prs_interface_side(qp), pe, remote, local,
                                                     bytes, signal_verb.desc, signal));
}

void prs_interface4_complete(struct prs_abi4_transport *t, bool offers_fence)
{
    t->head.connect_endpoints.v4 = connect_endpoints;
    t->head.fence.v4 = offers_fence ? fence : NULL;
    t->put_signal = put_signal;
}
