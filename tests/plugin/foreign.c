/* SPDX-License-Identifier: Apache-2.0 */
/* foreign.c: a transport that is not ours, for the profiler to wrap: PEs are threads of one process, a fence takes
 * its time, what it need not offer it does not. */
#include "foreign.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host/abi3.h"
#include "host/abi4.h"
#include "base/export.h"

union object {
    struct prs_abi3_transport v3;
    struct prs_abi4_transport v4;
};

static void take_time(void)
{
    const struct timespec pause = {.tv_nsec = FOREIGN_FENCE_NS};
    nanosleep(&pause, NULL);
}

static int can_reach_peer(int *access, struct prs_abi_pe_info *peer, void *t)
{
    (void)peer;
    (void)t;
    *access = PRS_ABI_CAP_CPU_WRITE | PRS_ABI_CAP_CPU_READ | PRS_ABI_CAP_CPU_ATOMICS;
    return 0;
}

static int get_mem_handle(unsigned char *handle, void *buffer, size_t bytes, void *t,
                          bool local_only)
{
    (void)buffer;
    (void)bytes;
    (void)t;
    (void)local_only;
    handle[0] = 1;
    return 0;
}

static int release_mem_handle(unsigned char *handle, void *t)
{
    (void)t;
    return handle[0] != 1;
}

static int finalize(void *t)
{
    free(t);
    return 0;
}

/* No threads run while words move: the harness's kernels signal, then quiet, then meet at a barrier. */
static int rma(void *t, int pe, struct prs_abi_rma_verb verb, struct prs_abi_rma_memory *remote,
               struct prs_abi_rma_memory *local, struct prs_abi_rma_bytes bytes, int channel)
{
    (void)t;
    (void)pe;
    (void)channel;
    bool get = verb.desc == PRS_ABI_GET || verb.desc == PRS_ABI_G;
    memmove(get ? local->pointer : remote->pointer, get ? remote->pointer : local->pointer,
            bytes.elements * (size_t)bytes.element_bytes);
    return 0;
}

static int amo(void *t, int pe, void *unused, struct prs_abi_amo_verb verb,
               struct prs_abi_amo_memory *target, struct prs_abi_amo_bytes bytes, int channel)
{
    (void)t;
    (void)pe;
    (void)unused;
    (void)channel;
    if (verb.desc != PRS_ABI_AMO_SIGNAL_SET || bytes.element_bytes != 8) {
        return 1;
    }
    /* Release pairs with the harness's acquire loads. */
    __atomic_store_n((uint64_t *)target->remote.pointer, target->value, __ATOMIC_RELEASE);
    return 0;
}

static int quiet(void *t, int pe, int channel)
{
    (void)t;
    (void)pe;
    (void)channel;
    return 0;
}

static int progress(void *t)
{
    (void)t;
    return 0;
}

static int connect3(void *t, int *devices, int n_devices)
{
    (void)devices;
    (void)n_devices;
    struct prs_abi_bootstrap *bootstrap = ((union object *)t)->v3.fields.bootstrap;
    return bootstrap->barrier(bootstrap);
}

static int fence3(void *t, int pe, int is_proxy)
{
    take_time();
    return quiet(t, pe, is_proxy);
}

static int connect4(void *t, int *devices, int n_devices, int *out_qps, int n_qps)
{
    (void)devices;
    (void)n_devices;
    (void)out_qps;
    (void)n_qps;
    struct prs_abi_bootstrap *bootstrap = ((union object *)t)->v4.fields.bootstrap;
    return bootstrap->barrier(bootstrap);
}

static int fence4(void *t, int pe, int qp, int is_multi)
{
    (void)is_multi;
    return fence3(t, pe, qp);
}

static int put_signal(void *t, int pe, struct prs_abi_rma_verb verb, struct prs_abi_vector *remote,
                      struct prs_abi_vector *local, struct prs_abi_vector *bytes,
                      struct prs_abi_amo_verb signal_verb, struct prs_abi_amo_memory *signal,
                      struct prs_abi_amo_bytes signal_bytes, int qp)
{
    const struct prs_abi_rma_bytes *piece = bytes->begin;
    for (size_t i = 0; piece + i < (const struct prs_abi_rma_bytes *)bytes->end; i++) {
        rma(t, pe, verb, (struct prs_abi_rma_memory *)remote->begin + i,
            (struct prs_abi_rma_memory *)local->begin + i, piece[i], qp);
    }
    return fence4(t, pe, qp, 0) + amo(t, pe, NULL, signal_verb, signal, signal_bytes, qp);
}

PRS_PUBLIC int nvshmemt_init(void **out, const struct prs_abi_cuda_table *cuda, int api_version);

int nvshmemt_init(void **out, const struct prs_abi_cuda_table *cuda, int api_version)
{
    (void)cuda;
    union object *t = calloc(1, sizeof *t);
    if (t == NULL) {
        return PRS_ABI_OUT_OF_MEMORY;
    }
    bool is_4 = api_version / 10000 == 4;
    const struct prs_abi_parts parts = is_4 ? prs_abi4_parts(&t->v4) : prs_abi3_parts(&t->v3);
    t->v3.api_version = api_version;
    *parts.fields = (struct prs_abi_fields){.attr = PRS_ABI_ATTR_CONNECTED,
                                            .atomics_complete_on_quiet = true,
                                            .is_successfully_initialized = true};
    *parts.head = (struct prs_abi_ops_head){
        .can_reach_peer = can_reach_peer,
        .get_mem_handle = get_mem_handle,
        .release_mem_handle = release_mem_handle,
        .finalize = finalize,
        .progress = progress,
        .rma = rma,
        .amo = amo,
        .quiet = quiet,
    };
    if (is_4) {
        parts.head->connect_endpoints.v4 = connect4;
        parts.head->fence.v4 = fence4;
        t->v4.put_signal = put_signal;
    } else {
        parts.head->connect_endpoints.v3 = connect3;
        parts.head->fence.v3 = fence3;
    }
    *out = t;
    return PRS_ABI_SUCCESS;
}
