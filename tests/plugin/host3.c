/* host3.c: the host's side of interface 3.0. */
#include "abi3.h"
#include "host.h"

static struct prs_abi3_transport *of(struct host_pe *pe)
{
    return pe->transport;
}

static void adopt(struct host_pe *pe)
{
    struct prs_abi3_transport *t = of(pe);
    CHECK(pe, t->api_version > 0 && t->api_version / 100 <= pe->spec->version / 100);
    CHECK(pe, t->type == 0 && t->attr == PRS_ABI_ATTR_CONNECTED);
    CHECK(pe, t->is_successfully_initialized && !t->no_proxy && t->atomics_complete_on_quiet);
    CHECK(pe, t->n_devices <= 1 && t->atomic_host_endian_min_bytes == 0);
    CHECK(pe, t->ops.rma != NULL && t->ops.amo != NULL && t->ops.quiet != NULL);
    CHECK(pe, t->ops.enforce_cst_at_target == NULL);
    t->cap = pe->cap;
    t->bootstrap = &pe->bootstrap;
    t->my_pe = pe->rank;
    t->n_pes = pe->n_pes;
    t->heap_base = pe->heap;
    t->max_op_bytes = t->max_op_bytes != 0 ? t->max_op_bytes : SIZE_MAX;
    t->log2_cumem_granularity = 20;
    t->index = 1;
}

static int can_reach_peer(struct host_pe *pe, int target, int *access)
{
    struct prs_abi_pe_info info = {.pe = target, .host_hash = 17};
    return of(pe)->ops.can_reach_peer(access, &info, of(pe));
}

static int connect_all(struct host_pe *pe)
{
    int device = -1;
    return of(pe)->ops.connect_endpoints(of(pe), &device, 1);
}

static int register_memory(struct host_pe *pe, void *buffer, size_t bytes, bool local_only,
                           unsigned char *blob)
{
    return of(pe)->ops.get_mem_handle(blob, buffer, bytes, of(pe), local_only);
}

static int release_memory(struct host_pe *pe, unsigned char *blob)
{
    return of(pe)->ops.release_mem_handle(blob, of(pe));
}

static int finalize(struct host_pe *pe)
{
    return of(pe)->ops.finalize(of(pe));
}

static int progress(struct host_pe *pe)
{
    return of(pe)->ops.progress(of(pe));
}

static int rma(struct host_pe *pe, bool proxy, int target, struct prs_abi_rma_verb verb,
               struct prs_abi_rma_memory *remote, struct prs_abi_rma_memory *local,
               struct prs_abi_rma_bytes bytes)
{
    return of(pe)->ops.rma(of(pe), target, verb, remote, local, bytes, proxy);
}

static int amo(struct host_pe *pe, int target, struct prs_abi_amo_verb verb,
               struct prs_abi_amo_memory *memory, struct prs_abi_amo_bytes bytes)
{
    return of(pe)->ops.amo(of(pe), target, NULL, verb, memory, bytes, 1);
}

static int fence(struct host_pe *pe, bool proxy, int target)
{
    return of(pe)->ops.fence(of(pe), target, proxy);
}

static bool has_fence(struct host_pe *pe)
{
    return of(pe)->ops.fence != NULL;
}

static int quiet(struct host_pe *pe, bool proxy, int target)
{
    return of(pe)->ops.quiet(of(pe), target, proxy);
}

static uint64_t op_bytes_max(struct host_pe *pe)
{
    return of(pe)->max_op_bytes;
}

const struct host_interface host_interface3 = {
    .major = 3,
    .adopt = adopt,
    .can_reach_peer = can_reach_peer,
    .connect = connect_all,
    .register_memory = register_memory,
    .release_memory = release_memory,
    .finalize = finalize,
    .progress = progress,
    .rma = rma,
    .amo = amo,
    .fence = fence,
    .has_fence = has_fence,
    .quiet = quiet,
    .op_bytes_max = op_bytes_max,
};
