/* SPDX-License-Identifier: Apache-2.0 */
/* host4.c: what the host's side of interface 4.0 has of its own. */
#include "host/abi4.h"
#include "host.h"

#define ALL_QPS 0x7fffffff

static struct prs_abi_parts parts(struct host_pe *pe)
{
    const struct prs_abi4_transport *t = pe->transport;
    CHECK(pe, t->put_signal != NULL);
    return prs_abi4_parts(pe->transport);
}

static int connect_all(struct host_pe *pe)
{
    const struct prs_abi_ops_head *head = pe->parts.head;
    int device = -1;
    int failed = head->connect_endpoints.v4(pe->transport, &device, 1, NULL, 0);
    /* Later, for nvshmemx_qp_create: the handles hold the default and may stay that. */
    int handles[2] = {PRS_ABI_QP_DEFAULT, PRS_ABI_QP_DEFAULT};
    if (failed == 0) {
        failed = head->connect_endpoints.v4(pe->transport, NULL, 0, handles, 2);
    }
    CHECK(pe, failed != 0 || (handles[0] > PRS_ABI_QP_HOST && handles[1] > PRS_ABI_QP_HOST));
    return failed;
}

static int fence(struct host_pe *pe, bool proxy, int target)
{
    return pe->parts.head->fence.v4(pe->transport, target,
                                    proxy ? PRS_ABI_QP_DEFAULT : PRS_ABI_QP_HOST, 0);
}

static bool has_fence(struct host_pe *pe)
{
    return pe->parts.head->fence.v4 != NULL;
}

static int put_signal(struct host_pe *pe, int target, struct prs_abi_vector *remote,
                      struct prs_abi_vector *local, struct prs_abi_vector *bytes, int signal_desc,
                      struct prs_abi_amo_memory *signal)
{
    const struct prs_abi4_transport *t = pe->transport;
    const struct prs_abi_rma_verb verb = {.desc = PRS_ABI_PUT, .is_nbi = 1};
    const struct prs_abi_amo_verb signal_verb = {.desc = signal_desc, .is_fetch = -1};
    const struct prs_abi_amo_bytes signal_bytes = {.element_bytes = 8};
    return t->put_signal(pe->transport, target, verb, remote, local, bytes, signal_verb, signal,
                         signal_bytes, PRS_ABI_QP_DEFAULT);
}

const struct host_interface host_interface4 = {
    .major = 4,
    .all_channels = ALL_QPS,
    .parts = parts,
    .connect = connect_all,
    .fence = fence,
    .has_fence = has_fence,
    .put_signal = put_signal,
};
