/* shim3.c: interface 3.0's callbacks around those of the wrapped transport. */
#include <stdlib.h>

#include "abi3.h"
#include "shim.h"

struct shim3 {
    struct prs_abi3_transport outer; /* the host's; its state is this */
    struct prs_shim *shim;
    struct prs_abi3_transport *inner;
};

static struct shim3 *of(struct prs_abi3_transport *t)
{
    return t->state;
}

/* What the host wrote into its object since. */
static void pass_on(struct shim3 *self)
{
    struct prs_abi3_transport *inner = self->inner;
    const struct prs_abi3_transport *outer = &self->outer;
    inner->cap = outer->cap;
    inner->bootstrap = outer->bootstrap;
    inner->heap_base = outer->heap_base;
    inner->log2_cumem_granularity = outer->log2_cumem_granularity;
    inner->index = outer->index;
    inner->my_pe = outer->my_pe;
    inner->n_pes = outer->n_pes;
    inner->alias_map = outer->alias_map;
    inner->egm_map = outer->egm_map;
}

static int can_reach_peer(int *access, struct prs_abi_pe_info *peer, struct prs_abi3_transport *t)
{
    pass_on(of(t));
    return of(t)->inner->ops.can_reach_peer(access, peer, of(t)->inner);
}

static int connect_endpoints(struct prs_abi3_transport *t, int *devices, int n_devices)
{
    struct shim3 *self = of(t);
    pass_on(self);
    int failed = self->inner->ops.connect_endpoints(self->inner, devices, n_devices);
    if (self->inner->max_op_bytes != 0) {
        t->max_op_bytes = self->inner->max_op_bytes;
    }
    prs_shim_start(self->shim, t->my_pe, t->n_pes, 3, t->ops.fence != NULL);
    return failed;
}

static int get_mem_handle(unsigned char *handle, void *buffer, size_t bytes,
                          struct prs_abi3_transport *t, bool local_only)
{
    pass_on(of(t));
    return of(t)->inner->ops.get_mem_handle(handle, buffer, bytes, of(t)->inner, local_only);
}

static int release_mem_handle(unsigned char *handle, struct prs_abi3_transport *t)
{
    return of(t)->inner->ops.release_mem_handle(handle, of(t)->inner);
}

static int finalize(struct prs_abi3_transport *t)
{
    struct shim3 *self = of(t);
    int failed = self->inner->ops.finalize(self->inner);
    prs_shim_destroy(self->shim);
    free(self);
    return failed;
}

static int show_info(struct prs_abi3_transport *t, int style)
{
    return of(t)->inner->ops.show_info(of(t)->inner, style);
}

static int progress(struct prs_abi3_transport *t)
{
    return of(t)->inner->ops.progress(of(t)->inner);
}

static int rma(struct prs_abi3_transport *t, int pe, struct prs_abi_rma_verb verb,
               struct prs_abi_rma_memory *remote, struct prs_abi_rma_memory *local,
               struct prs_abi_rma_bytes bytes, int is_proxy)
{
    uint64_t start_ns = prs_profile_now_ns();
    int failed = of(t)->inner->ops.rma(of(t)->inner, pe, verb, remote, local, bytes, is_proxy);
    prs_profile_add(&of(t)->shim->profile, prs_shim_kind(verb.desc), is_proxy, pe,
                    bytes.elements * (size_t)bytes.element_bytes, start_ns);
    return failed;
}

static int amo(struct prs_abi3_transport *t, int pe, void *unused, struct prs_abi_amo_verb verb,
               struct prs_abi_amo_memory *target, struct prs_abi_amo_bytes bytes, int is_proxy)
{
    uint64_t start_ns = prs_profile_now_ns();
    int failed = of(t)->inner->ops.amo(of(t)->inner, pe, unused, verb, target, bytes, is_proxy);
    prs_profile_add(&of(t)->shim->profile, PRS_PROFILE_AMO, is_proxy, pe,
                    (uint64_t)bytes.element_bytes, start_ns);
    return failed;
}

static int fence(struct prs_abi3_transport *t, int pe, int is_proxy)
{
    uint64_t start_ns = prs_profile_now_ns();
    int failed = of(t)->inner->ops.fence(of(t)->inner, pe, is_proxy);
    prs_profile_add(&of(t)->shim->profile, PRS_PROFILE_FENCE, is_proxy, pe, 0, start_ns);
    return failed;
}

static int quiet(struct prs_abi3_transport *t, int pe, int is_proxy)
{
    uint64_t start_ns = prs_profile_now_ns();
    int failed = of(t)->inner->ops.quiet(of(t)->inner, pe, is_proxy);
    prs_profile_add(&of(t)->shim->profile, PRS_PROFILE_QUIET, is_proxy, pe, 0, start_ns);
    return failed;
}

static int enforce_cst(struct prs_abi3_transport *t)
{
    return of(t)->inner->ops.enforce_cst(of(t)->inner);
}

static int enforce_cst_at_target(struct prs_abi3_transport *t)
{
    return of(t)->inner->ops.enforce_cst_at_target(of(t)->inner);
}

static int add_device_handles(struct prs_abi3_transport *t, int stride, unsigned char *handles,
                              uint64_t heap_offset, size_t bytes)
{
    return of(t)->inner->ops.add_device_remote_mem_handles(of(t)->inner, stride, handles,
                                                           heap_offset, bytes);
}

void *prs_shim3_create(struct prs_shim *shim)
{
    struct shim3 *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return NULL;
    }
    const struct prs_abi3_ops *ops = &((struct prs_abi3_transport *)shim->inner)->ops;
    self->shim = shim;
    self->inner = shim->inner;
    self->outer = *self->inner;
    self->outer.state = self;
    self->outer.ops = (struct prs_abi3_ops){
        .can_reach_peer = can_reach_peer,
        .connect_endpoints = connect_endpoints,
        .get_mem_handle = ops->get_mem_handle != NULL ? get_mem_handle : NULL,
        .release_mem_handle = ops->release_mem_handle != NULL ? release_mem_handle : NULL,
        .finalize = finalize,
        .show_info = ops->show_info != NULL ? show_info : NULL,
        .progress = ops->progress != NULL ? progress : NULL,
        .rma = rma,
        .amo = amo,
        .fence = ops->fence != NULL ? fence : NULL,
        .quiet = quiet,
        .enforce_cst = ops->enforce_cst != NULL ? enforce_cst : NULL,
        .enforce_cst_at_target = ops->enforce_cst_at_target != NULL ? enforce_cst_at_target : NULL,
        .add_device_remote_mem_handles =
            ops->add_device_remote_mem_handles != NULL ? add_device_handles : NULL,
    };
    return &self->outer;
}
