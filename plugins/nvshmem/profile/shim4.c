/* SPDX-License-Identifier: Apache-2.0 */
/* shim4.c: the callbacks that interface 4.0 has of its own. */
#include "profile/shim.h"

static int connect_endpoints(void *t, int *devices, int n_devices, int *out_qps, int n_qps)
{
    struct prs_shim *shim = prs_shim_of(t);
    prs_shim_pass_on(shim);
    int failed =
        shim->parts.head->connect_endpoints.v4(shim->inner, devices, n_devices, out_qps, n_qps);
    if (out_qps == NULL || n_qps == 0) { /* else: more queue pairs, later */
        prs_shim_connected(shim);
    }
    return failed;
}

static int fence(void *t, int pe, int qp, int is_multi)
{
    struct prs_shim *shim = prs_shim_of(t);
    uint64_t start_ns = prs_profile_now_ns();
    int failed = shim->parts.head->fence.v4(shim->inner, pe, qp, is_multi);
    prs_shim_add(shim, PRS_PROFILE_FENCE, qp, pe, 0, start_ns);
    return failed;
}

static uint64_t bytes_of(const struct prs_abi_vector *vector)
{
    uint64_t sum = 0;
    for (const struct prs_abi_rma_bytes *at = vector->begin;
         at != (const struct prs_abi_rma_bytes *)vector->end; at++) {
        sum += at->elements * (size_t)at->element_bytes;
    }
    return sum;
}

static int put_signal(void *t, int pe, struct prs_abi_rma_verb verb, struct prs_abi_vector *remote,
                      struct prs_abi_vector *local, struct prs_abi_vector *bytes,
                      struct prs_abi_amo_verb signal_verb, struct prs_abi_amo_memory *signal,
                      struct prs_abi_amo_bytes signal_bytes, int qp)
{
    struct prs_shim *shim = prs_shim_of(t);
    const struct prs_abi4_transport *inner = shim->inner;
    uint64_t start_ns = prs_profile_now_ns();
    int failed = inner->put_signal(shim->inner, pe, verb, remote, local, bytes, signal_verb, signal,
                                   signal_bytes, qp);
    prs_shim_add(shim, PRS_PROFILE_PUT_SIGNAL, qp, pe, bytes_of(bytes), start_ns);
    return failed;
}

void prs_shim4_complete(struct prs_shim *shim)
{
    struct prs_abi_ops_head *head = &shim->outer.v4.head;
    head->connect_endpoints.v4 = connect_endpoints;
    head->fence.v4 = head->fence.v4 != NULL ? fence : NULL;
    shim->outer.v4.put_signal = put_signal;
}
