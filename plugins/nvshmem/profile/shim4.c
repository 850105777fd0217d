/* shim4.c: interface 4.0's callbacks around those of the wrapped transport. */
#include <stdlib.h>

#include "abi4.h"
#include "shim.h"

struct shim4 {
    struct prs_abi4_transport outer; /* the host's; its state is this */
    struct prs_shim *shim;
    struct prs_abi4_transport *inner;
};

static struct shim4 *of(struct prs_abi4_transport *t)
{
    return t->state;
}

/* What the host wrote into its object since. */
static void pass_on(struct shim4 *self)
{
    struct prs_abi4_transport *inner = self->inner;
    const struct prs_abi4_transport *outer = &self->outer;
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

static int can_reach_peer(int *access, struct prs_abi_pe_info *peer, struct prs_abi4_transport *t)
{
    pass_on(of(t));
    return of(t)->inner->ops.can_reach_peer(access, peer, of(t)->inner);
}

static int connect_endpoints(struct prs_abi4_transport *t, int *devices, int n_devices,
                             int *out_qps, int n_qps)
{
    struct shim4 *self = of(t);
    pass_on(self);
    int failed =
        self->inner->ops.connect_endpoints(self->inner, devices, n_devices, out_qps, n_qps);
    if (out_qps != NULL && n_qps > 0) {
        return failed; /* more queue pairs, later */
    }
    if (self->inner->max_op_bytes != 0) {
        t->max_op_bytes = self->inner->max_op_bytes;
    }
    prs_shim_start(self->shim, t->my_pe, t->n_pes, 4, t->ops.fence != NULL);
    return failed;
}

static int get_mem_handle(unsigned char *handle, void *buffer, size_t bytes,
                          struct prs_abi4_transport *t, bool local_only)
{
    pass_on(of(t));
    return of(t)->inner->ops.get_mem_handle(handle, buffer, bytes, of(t)->inner, local_only);
}

static int release_mem_handle(unsigned char *handle, struct prs_abi4_transport *t)
{
    return of(t)->inner->ops.release_mem_handle(handle, of(t)->inner);
}

static int finalize(struct prs_abi4_transport *t)
{
    struct shim4 *self = of(t);
    int failed = self->inner->ops.finalize(self->inner);
    prs_shim_destroy(self->shim);
    free(self);
    return failed;
}

static int show_info(struct prs_abi4_transport *t, int style)
{
    return of(t)->inner->ops.show_info(of(t)->inner, style);
}

static int progress(struct prs_abi4_transport *t)
{
    return of(t)->inner->ops.progress(of(t)->inner);
}

static int rma(struct prs_abi4_transport *t, int pe, struct prs_abi_rma_verb verb,
               struct prs_abi_rma_memory *remote, struct prs_abi_rma_memory *local,
               struct prs_abi_rma_bytes bytes, int qp)
{
    uint64_t start_ns = prs_profile_now_ns();
    int failed = of(t)->inner->ops.rma(of(t)->inner, pe, verb, remote, local, bytes, qp);
    prs_profile_add(&of(t)->shim->profile, prs_shim_kind(verb.desc), qp != PRS_ABI_QP_HOST, pe,
                    bytes.elements * (size_t)bytes.element_bytes, start_ns);
    return failed;
}

static int amo(struct prs_abi4_transport *t, int pe, void *unused, struct prs_abi_amo_verb verb,
               struct prs_abi_amo_memory *target, struct prs_abi_amo_bytes bytes, int qp)
{
    uint64_t start_ns = prs_profile_now_ns();
    int failed = of(t)->inner->ops.amo(of(t)->inner, pe, unused, verb, target, bytes, qp);
    prs_profile_add(&of(t)->shim->profile, PRS_PROFILE_AMO, qp != PRS_ABI_QP_HOST, pe,
                    (uint64_t)bytes.element_bytes, start_ns);
    return failed;
}

static int fence(struct prs_abi4_transport *t, int pe, int qp, int is_multi)
{
    uint64_t start_ns = prs_profile_now_ns();
    int failed = of(t)->inner->ops.fence(of(t)->inner, pe, qp, is_multi);
    prs_profile_add(&of(t)->shim->profile, PRS_PROFILE_FENCE, qp != PRS_ABI_QP_HOST, pe, 0,
                    start_ns);
    return failed;
}

static int quiet(struct prs_abi4_transport *t, int pe, int qp)
{
    uint64_t start_ns = prs_profile_now_ns();
    int failed = of(t)->inner->ops.quiet(of(t)->inner, pe, qp);
    prs_profile_add(&of(t)->shim->profile, PRS_PROFILE_QUIET, qp != PRS_ABI_QP_HOST, pe, 0,
                    start_ns);
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

static int put_signal(struct prs_abi4_transport *t, int pe, struct prs_abi_rma_verb verb,
                      struct prs_abi_vector *remote, struct prs_abi_vector *local,
                      struct prs_abi_vector *bytes, struct prs_abi_amo_verb signal_verb,
                      struct prs_abi_amo_memory *signal, struct prs_abi_amo_bytes signal_bytes,
                      int qp)
{
    uint64_t start_ns = prs_profile_now_ns();
    int failed = of(t)->inner->ops.put_signal(of(t)->inner, pe, verb, remote, local, bytes,
                                              signal_verb, signal, signal_bytes, qp);
    prs_profile_add(&of(t)->shim->profile, PRS_PROFILE_PUT_SIGNAL, qp != PRS_ABI_QP_HOST, pe,
                    bytes_of(bytes), start_ns);
    return failed;
}

static int enforce_cst(struct prs_abi4_transport *t)
{
    return of(t)->inner->ops.enforce_cst(of(t)->inner);
}

static int enforce_cst_at_target(struct prs_abi4_transport *t)
{
    return of(t)->inner->ops.enforce_cst_at_target(of(t)->inner);
}

static int add_device_handles(struct prs_abi4_transport *t, int stride, unsigned char *handles,
                              uint64_t heap_offset, size_t bytes)
{
    return of(t)->inner->ops.add_device_remote_mem_handles(of(t)->inner, stride, handles,
                                                           heap_offset, bytes);
}

void *prs_shim4_create(struct prs_shim *shim)
{
    struct shim4 *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return NULL;
    }
    const struct prs_abi4_ops *ops = &((struct prs_abi4_transport *)shim->inner)->ops;
    self->shim = shim;
    self->inner = shim->inner;
    self->outer = *self->inner;
    self->outer.state = self;
    self->outer.ops = (struct prs_abi4_ops){
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
        .put_signal = put_signal,
        .enforce_cst = ops->enforce_cst != NULL ? enforce_cst : NULL,
        .enforce_cst_at_target = ops->enforce_cst_at_target != NULL ? enforce_cst_at_target : NULL,
        .add_device_remote_mem_handles =
            ops->add_device_remote_mem_handles != NULL ? add_device_handles : NULL,
    };
    return &self->outer;
}
