/* foreign.c: a transport that is not ours, for the profiler to wrap: PEs are threads of one process, a fence takes
 * its time, what it need not offer it does not. Built once for each interface; the build names the
 * transport object's type. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/export.h"
#include "foreign.h"

#if FOREIGN_INTERFACE == 3
#include "abi3.h"
#else
#include "abi4.h"
#endif

static void take_time(void)
{
    const struct timespec pause = {.tv_nsec = FOREIGN_FENCE_NS};
    nanosleep(&pause, NULL);
}

static int can_reach_peer(int *access, struct prs_abi_pe_info *peer, struct FOREIGN_TRANSPORT *t)
{
    (void)peer;
    (void)t;
    *access = PRS_ABI_CAP_CPU_WRITE | PRS_ABI_CAP_CPU_READ | PRS_ABI_CAP_CPU_ATOMICS;
    return 0;
}

static int get_mem_handle(unsigned char *handle, void *buffer, size_t bytes,
                          struct FOREIGN_TRANSPORT *t, bool local_only)
{
    (void)buffer;
    (void)bytes;
    (void)t;
    (void)local_only;
    handle[0] = 1;
    return 0;
}

static int release_mem_handle(unsigned char *handle, struct FOREIGN_TRANSPORT *t)
{
    (void)t;
    return handle[0] != 1;
}

static int finalize(struct FOREIGN_TRANSPORT *t)
{
    free(t);
    return 0;
}

/* No threads run while words move: the harness's kernels signal, then quiet, then meet at a barrier. */
static int rma(struct FOREIGN_TRANSPORT *t, int pe, struct prs_abi_rma_verb verb,
               struct prs_abi_rma_memory *remote, struct prs_abi_rma_memory *local,
               struct prs_abi_rma_bytes bytes, int channel)
{
    (void)t;
    (void)pe;
    (void)channel;
    bool get = verb.desc == PRS_ABI_GET || verb.desc == PRS_ABI_G;
    memmove(get ? local->pointer : remote->pointer, get ? remote->pointer : local->pointer,
            bytes.elements * (size_t)bytes.element_bytes);
    return 0;
}

static int amo(struct FOREIGN_TRANSPORT *t, int pe, void *unused, struct prs_abi_amo_verb verb,
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

static int quiet(struct FOREIGN_TRANSPORT *t, int pe, int channel)
{
    (void)t;
    (void)pe;
    (void)channel;
    return 0;
}

static int progress(struct FOREIGN_TRANSPORT *t)
{
    (void)t;
    return 0;
}

#if FOREIGN_INTERFACE == 3

static int connect_endpoints(struct FOREIGN_TRANSPORT *t, int *devices, int n_devices)
{
    (void)devices;
    (void)n_devices;
    return t->bootstrap->barrier(t->bootstrap);
}

static int fence(struct FOREIGN_TRANSPORT *t, int pe, int is_proxy)
{
    take_time();
    return quiet(t, pe, is_proxy);
}

#else

static int connect_endpoints(struct FOREIGN_TRANSPORT *t, int *devices, int n_devices, int *out_qps,
                             int n_qps)
{
    (void)devices;
    (void)n_devices;
    (void)out_qps;
    (void)n_qps;
    return t->bootstrap->barrier(t->bootstrap);
}

static int fence(struct FOREIGN_TRANSPORT *t, int pe, int qp, int is_multi)
{
    (void)is_multi;
    take_time();
    return quiet(t, pe, qp);
}

static int put_signal(struct FOREIGN_TRANSPORT *t, int pe, struct prs_abi_rma_verb verb,
                      struct prs_abi_vector *remote, struct prs_abi_vector *local,
                      struct prs_abi_vector *bytes, struct prs_abi_amo_verb signal_verb,
                      struct prs_abi_amo_memory *signal, struct prs_abi_amo_bytes signal_bytes,
                      int qp)
{
    struct prs_abi_rma_bytes *piece = bytes->begin;
    for (size_t i = 0; piece + i < (struct prs_abi_rma_bytes *)bytes->end; i++) {
        rma(t, pe, verb, (struct prs_abi_rma_memory *)remote->begin + i,
            (struct prs_abi_rma_memory *)local->begin + i, piece[i], qp);
    }
    return fence(t, pe, qp, 0) + amo(t, pe, NULL, signal_verb, signal, signal_bytes, qp);
}

#endif

PRS_PUBLIC int nvshmemt_init(struct FOREIGN_TRANSPORT **out, const struct prs_abi_cuda_table *cuda,
                             int api_version);

int nvshmemt_init(struct FOREIGN_TRANSPORT **out, const struct prs_abi_cuda_table *cuda,
                  int api_version)
{
    (void)cuda;
    if (api_version / 10000 != FOREIGN_INTERFACE) {
        return PRS_ABI_INVALID_VALUE;
    }
    struct FOREIGN_TRANSPORT *t = calloc(1, sizeof *t);
    if (t == NULL) {
        return PRS_ABI_OUT_OF_MEMORY;
    }
    *t = (struct FOREIGN_TRANSPORT){
        .api_version = api_version,
        .attr = PRS_ABI_ATTR_CONNECTED,
        .atomics_complete_on_quiet = true,
        .is_successfully_initialized = true,
        .ops =
            {
                .can_reach_peer = can_reach_peer,
                .connect_endpoints = connect_endpoints,
                .get_mem_handle = get_mem_handle,
                .release_mem_handle = release_mem_handle,
                .finalize = finalize,
                .progress = progress,
                .rma = rma,
                .amo = amo,
                .fence = fence,
                .quiet = quiet,
#if FOREIGN_INTERFACE == 4
                .put_signal = put_signal,
#endif
            },
    };
    *out = t;
    return PRS_ABI_SUCCESS;
}
