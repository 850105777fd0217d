/* SPDX-License-Identifier: Apache-2.0 */
/* foreign.c: a transport that is not ours, for the profiler to wrap: PEs are threads of one
 * process, a fence takes its time, what it need not offer it does not. */
#include "foreign.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host/interface.h"
#include "base/export.h"

struct object {
    const struct prs_interface *interface;
    _Alignas(16) unsigned char host[PRS_INTERFACE_BYTES_MAX];
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

static struct object *object_of(void *t)
{
    return (struct object *)(void *)((char *)t - offsetof(struct object, host));
}

static int finalize(void *t)
{
    free(object_of(t));
    return 0;
}

/* No threads run while words move: the harness's kernels signal, then quiet, then meet at a
 * barrier. */
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

static int amo_from_6(void *t, int pe, void *unused, struct prs_abi_amo_verb verb,
                      struct prs_abi_amo_memory *target, struct prs_abi_amo_bytes bytes,
                      int channel)
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

static int amo_to_5(void *t, int pe, void *unused, struct prs_abi_amo_verb16 verb,
                    struct prs_abi_amo_memory *target, struct prs_abi_amo_bytes bytes, int channel)
{
    const struct prs_abi_amo_verb wide = {.desc = verb.desc};
    return amo_from_6(t, pe, unused, wide, target, bytes, channel);
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

static int meet(void *t)
{
    struct object *object = object_of(t);
    struct prs_abi_bootstrap *bootstrap = prs_interface_fields(object->interface, t)->bootstrap;
    return bootstrap->barrier(bootstrap);
}

static int connect_to_3(void *t, int *devices, int n_devices)
{
    (void)devices;
    (void)n_devices;
    return meet(t);
}

static int connect_from_4(void *t, int *devices, int n_devices, int *out_qps, int n_qps)
{
    (void)devices;
    (void)n_devices;
    (void)out_qps;
    (void)n_qps;
    return meet(t);
}

static int fence_to_3(void *t, int pe, int is_proxy)
{
    take_time();
    return quiet(t, pe, is_proxy);
}

static int fence_from_4(void *t, int pe, int qp, int is_multi)
{
    (void)is_multi;
    return fence_to_3(t, pe, qp);
}

static int put_signal_from_6(void *t, int pe, struct prs_abi_rma_verb verb,
                             struct prs_abi_vector *remote, struct prs_abi_vector *local,
                             struct prs_abi_vector *bytes, struct prs_abi_amo_verb signal_verb,
                             struct prs_abi_amo_memory *signal,
                             struct prs_abi_amo_bytes signal_bytes, int qp)
{
    const struct prs_abi_rma_bytes *piece = bytes->begin;
    for (size_t i = 0; piece + i < (const struct prs_abi_rma_bytes *)bytes->end; i++) {
        rma(t, pe, verb, (struct prs_abi_rma_memory *)remote->begin + i,
            (struct prs_abi_rma_memory *)local->begin + i, piece[i], qp);
    }
    return fence_from_4(t, pe, qp, 0) +
           amo_from_6(t, pe, NULL, signal_verb, signal, signal_bytes, qp);
}

static int put_signal_to_5(void *t, int pe, struct prs_abi_rma_verb verb,
                           struct prs_abi_vector *remote, struct prs_abi_vector *local,
                           struct prs_abi_vector *bytes, struct prs_abi_amo_verb16 signal_verb,
                           struct prs_abi_amo_memory *signal, struct prs_abi_amo_bytes signal_bytes,
                           int qp)
{
    const struct prs_abi_amo_verb wide = {.desc = signal_verb.desc};
    return put_signal_from_6(t, pe, verb, remote, local, bytes, wide, signal, signal_bytes, qp);
}

static void fill(struct object *object)
{
    const struct prs_interface *interface = object->interface;
    struct prs_abi_ops_head *head = prs_interface_head(interface, object->host);
    *prs_interface_fields(interface, object->host) =
        (struct prs_abi_fields){.attr = PRS_ABI_ATTR_CONNECTED,
                                .atomics_complete_on_quiet = true,
                                .is_successfully_initialized = true};
    *head = (struct prs_abi_ops_head){
        .can_reach_peer = can_reach_peer,
        .get_mem_handle = get_mem_handle,
        .release_mem_handle = release_mem_handle,
        .finalize = finalize,
        .progress = progress,
        .rma = rma,
        .quiet = quiet,
    };
    if (interface->major == 3) {
        head->connect_endpoints.to_3 = connect_to_3;
        head->fence.to_3 = fence_to_3;
    } else {
        head->connect_endpoints.from_4 = connect_from_4;
        head->fence.from_4 = fence_from_4;
    }
    union prs_abi_op_put_signal *signal = prs_interface_put_signal(interface, object->host);
    if (interface->major >= 6) {
        head->amo.from_6 = amo_from_6;
        signal->from_6 = put_signal_from_6;
    } else {
        head->amo.to_5 = amo_to_5;
        if (signal != NULL) {
            signal->to_5 = put_signal_to_5;
        }
    }
}

PRS_PUBLIC int nvshmemt_init(void **out, const void *cuda, int api_version);

int nvshmemt_init(void **out, const void *cuda, int api_version)
{
    (void)cuda;
    struct object *object = calloc(1, sizeof *object);
    if (object == NULL) {
        return PRS_ABI_OUT_OF_MEMORY;
    }
    object->interface = prs_interface_find(api_version / 10000);
    prs_interface_start(object->host)->api_version = api_version;
    fill(object);
    *out = object->host;
    return PRS_ABI_SUCCESS;
}
