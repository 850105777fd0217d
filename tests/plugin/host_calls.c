/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_calls.c: the host's side of every callback. Where a form changed between interfaces it is
 * written down here again, from the sizes that were measured, so that a wrong one in the transport
 * meets a right one.
 */
#include <string.h>

#include "host.h"

#define GARBAGE (-1) /* in fields that NVSHMEM never writes */
#define ALL_QPS 0x7fffffff

struct verb16 {
    int word[4];
};
struct verb20 {
    int word[5];
};

typedef int (*amo16_fn)(void *t, int pe, void *unused, struct verb16 verb, void *memory,
                        struct prs_abi_amo_bytes bytes, int channel);
typedef int (*amo20_fn)(void *t, int pe, void *unused, struct verb20 verb, void *memory,
                        struct prs_abi_amo_bytes bytes, int channel);
typedef int (*put_signal16_fn)(void *t, int pe, struct prs_abi_rma_verb verb, void *remote,
                               void *local, void *bytes, struct verb16 signal_verb, void *signal,
                               struct prs_abi_amo_bytes signal_bytes, int channel);
typedef int (*put_signal20_fn)(void *t, int pe, struct prs_abi_rma_verb verb, void *remote,
                               void *local, void *bytes, struct verb20 signal_verb, void *signal,
                               struct prs_abi_amo_bytes signal_bytes, int channel);
typedef void (*call_fn)(void); /* of any form */

static int major(const struct host_pe *pe)
{
    return pe->interface->major;
}

/* The callback at `offset` of the transport object. */
static call_fn callback(struct host_pe *pe, size_t offset)
{
    call_fn call;
    memcpy(&call, (const char *)pe->transport + offset, sizeof call);
    return call;
}

/* ---- the object ---- */

static void check_ops(struct host_pe *pe)
{
    CHECK(pe, pe->head->rma != NULL && pe->head->amo.to_5 != NULL && pe->head->quiet != NULL);
    CHECK(pe, prs_interface_tail(pe->interface, pe->transport)->enforce_cst_at_target == NULL);
    CHECK(pe, major(pe) < 4 || callback(pe, 216) != NULL); /* put_signal */
    CHECK(pe, major(pe) < 7 || (callback(pe, 248) == NULL && callback(pe, 256) == NULL));
    int mode = 0;
    if (major(pe) >= 6) {
        memcpy(&mode, (const char *)pe->transport + (major(pe) == 6 ? 248 : 264), sizeof mode);
    }
    CHECK(pe, mode == 0);
}

void host_adopt(struct host_pe *pe)
{
    const struct prs_abi_start *start = pe->transport;
    struct prs_abi_fields *fields = prs_interface_fields(pe->interface, pe->transport);
    pe->fields = fields;
    pe->head = prs_interface_head(pe->interface, pe->transport);
    CHECK(pe, start->api_version / 10000 == major(pe));
    CHECK(pe, start->api_version / 100 <= pe->spec->version / 100);
    CHECK(pe, start->type == 0 && fields->attr == PRS_ABI_ATTR_CONNECTED);
    CHECK(pe, fields->is_successfully_initialized && !fields->no_proxy &&
                  fields->atomics_complete_on_quiet);
    CHECK(pe, fields->n_devices == 0 && fields->device_pci_paths == NULL);
    CHECK(pe, fields->atomic_host_endian_min_bytes == 0);
    check_ops(pe);
    ((struct prs_abi_start *)pe->transport)->cap = pe->cap;
    fields->bootstrap = &pe->bootstrap;
    fields->my_pe = pe->rank;
    fields->n_pes = pe->n_pes;
    fields->heap_base = pe->heap;
    fields->max_op_bytes = fields->max_op_bytes != 0 ? fields->max_op_bytes : SIZE_MAX;
    fields->log2_cumem_granularity = 20;
    fields->index = 1;
}

/* With no devices of the transport's own, 7.0 passes no list, the others one of {-1}. */
int host_connect(struct host_pe *pe)
{
    int device = -1, *devices = major(pe) >= 7 ? NULL : &device, n = major(pe) >= 7 ? 0 : 1;
    if (major(pe) == 3) {
        return pe->head->connect_endpoints.to_3(pe->transport, devices, n);
    }
    int failed = pe->head->connect_endpoints.from_4(pe->transport, devices, n, NULL, 0);
    /* Later, for nvshmemx_qp_create: the handles hold the default and may stay that. */
    int handles[2] = {PRS_ABI_QP_DEFAULT, PRS_ABI_QP_DEFAULT};
    if (failed == 0) {
        failed = pe->head->connect_endpoints.from_4(pe->transport, NULL, 0, handles, 2);
    }
    CHECK(pe, failed != 0 || (handles[0] > PRS_ABI_QP_HOST && handles[1] > PRS_ABI_QP_HOST));
    return failed;
}

int host_can_reach_peer(struct host_pe *pe, int target, int *access)
{
    struct prs_abi_pe_info info = {.pe = target, .host_hash = 17};
    return pe->head->can_reach_peer(access, &info, pe->transport);
}

int host_register_memory(struct host_pe *pe, void *buffer, size_t bytes, bool local_only,
                         unsigned char *blob)
{
    return pe->head->get_mem_handle(blob, buffer, bytes, pe->transport, local_only);
}

int host_release_memory(struct host_pe *pe, unsigned char *blob)
{
    return pe->head->release_mem_handle(blob, pe->transport);
}

int host_finalize(struct host_pe *pe)
{
    return pe->head->finalize(pe->transport);
}

int host_progress(struct host_pe *pe)
{
    return pe->head->progress(pe->transport);
}

/* ---- work ---- */

int host_rma(struct host_pe *pe, bool proxy, int target, struct prs_abi_rma_verb verb,
             struct prs_abi_rma_memory *remote, struct prs_abi_rma_memory *local,
             struct prs_abi_rma_bytes bytes)
{
    return pe->head->rma(pe->transport, target, verb, remote, local, bytes,
                         proxy ? PRS_ABI_QP_DEFAULT : PRS_ABI_QP_HOST);
}

int host_amo(struct host_pe *pe, int target, int desc, bool is_float,
             struct prs_abi_amo_memory *memory, int bytes)
{
    const struct prs_abi_amo_bytes width = {.name_type = GARBAGE, .element_bytes = bytes};
    call_fn call = callback(pe, major(pe) == 3 ? 80 : 192);
    if (major(pe) >= 6) {
        const struct verb20 verb = {{desc, GARBAGE, GARBAGE, GARBAGE, is_float}};
        return ((amo20_fn)call)(pe->transport, target, NULL, verb, memory, width,
                                PRS_ABI_QP_DEFAULT);
    }
    const struct verb16 verb = {{desc, GARBAGE, GARBAGE, GARBAGE}};
    return ((amo16_fn)call)(pe->transport, target, NULL, verb, memory, width, PRS_ABI_QP_DEFAULT);
}

int host_put_signal(struct host_pe *pe, int target, struct prs_abi_vector *remote,
                    struct prs_abi_vector *local, struct prs_abi_vector *bytes, int signal_desc,
                    struct prs_abi_amo_memory *signal)
{
    const struct prs_abi_rma_verb put = {.desc = PRS_ABI_PUT, .is_nbi = 1};
    const struct prs_abi_amo_bytes width = {.name_type = GARBAGE, .element_bytes = 8};
    call_fn call = callback(pe, 216);
    if (major(pe) >= 6) { /* is_float is not written here */
        const struct verb20 verb = {{signal_desc, GARBAGE, GARBAGE, GARBAGE, GARBAGE}};
        return ((put_signal20_fn)call)(pe->transport, target, put, remote, local, bytes, verb,
                                       signal, width, PRS_ABI_QP_DEFAULT);
    }
    const struct verb16 verb = {{signal_desc, GARBAGE, GARBAGE, GARBAGE}};
    return ((put_signal16_fn)call)(pe->transport, target, put, remote, local, bytes, verb, signal,
                                   width, PRS_ABI_QP_DEFAULT);
}

bool host_has_fence(struct host_pe *pe)
{
    return major(pe) == 3 ? pe->head->fence.to_3 != NULL : pe->head->fence.from_4 != NULL;
}

int host_fence(struct host_pe *pe, bool proxy, int target)
{
    int channel = proxy ? PRS_ABI_QP_DEFAULT : PRS_ABI_QP_HOST;
    return major(pe) == 3 ? pe->head->fence.to_3(pe->transport, target, proxy)
                          : pe->head->fence.from_4(pe->transport, target, channel, 0);
}

int host_quiet(struct host_pe *pe, bool proxy, int target)
{
    int all = major(pe) == 3 ? 1 : ALL_QPS;
    return pe->head->quiet(pe->transport, target, proxy ? all : PRS_ABI_QP_HOST);
}
