/* SPDX-License-Identifier: Apache-2.0 */
/* wrap.c: the callbacks that both interface versions have, around those of the wrapped transport. */
#include "profile/shim.h"

struct prs_shim *prs_shim_of(void *t)
{
    return (struct prs_shim *)(void *)((char *)t - offsetof(struct prs_shim, outer));
}

static struct prs_abi_parts outer_parts(struct prs_shim *shim)
{
    return shim->interface == 4 ? prs_abi4_parts(&shim->outer.v4) : prs_abi3_parts(&shim->outer.v3);
}

void prs_shim_pass_on(struct prs_shim *shim)
{
    const struct prs_abi_parts parts = outer_parts(shim);
    const struct prs_abi_fields *outer = parts.fields;
    struct prs_abi_fields *inner = shim->parts.fields;
    *shim->parts.cap = *parts.cap;
    inner->bootstrap = outer->bootstrap;
    inner->heap_base = outer->heap_base;
    inner->log2_cumem_granularity = outer->log2_cumem_granularity;
    inner->index = outer->index;
    inner->my_pe = outer->my_pe;
    inner->n_pes = outer->n_pes;
    inner->alias_map = outer->alias_map;
    inner->egm_map = outer->egm_map;
}

void prs_shim_connected(struct prs_shim *shim)
{
    const struct prs_abi_parts parts = outer_parts(shim);
    if (shim->parts.fields->max_op_bytes != 0) {
        parts.fields->max_op_bytes = shim->parts.fields->max_op_bytes;
    }
    bool offers_fence =
        shim->interface == 4 ? parts.head->fence.v4 != NULL : parts.head->fence.v3 != NULL;
    prs_shim_start(shim, parts.fields->my_pe, parts.fields->n_pes, offers_fence);
}

void prs_shim_add(struct prs_shim *shim, enum prs_profile_kind kind, int channel, int pe,
                  uint64_t bytes, uint64_t start_ns)
{
    prs_profile_add(&shim->profile, kind, channel != PRS_ABI_QP_HOST, pe, bytes, start_ns);
}

static enum prs_profile_kind kind_of(int rma_desc)
{
    return rma_desc == PRS_ABI_PUT ? PRS_PROFILE_PUT
           : rma_desc == PRS_ABI_P ? PRS_PROFILE_P
                                   : PRS_PROFILE_GET;
}

/* ---- callbacks ---- */

static int can_reach_peer(int *access, struct prs_abi_pe_info *peer, void *t)
{
    struct prs_shim *shim = prs_shim_of(t);
    prs_shim_pass_on(shim);
    return shim->parts.head->can_reach_peer(access, peer, shim->inner);
}

static int get_mem_handle(unsigned char *handle, void *buffer, size_t bytes, void *t,
                          bool local_only)
{
    struct prs_shim *shim = prs_shim_of(t);
    prs_shim_pass_on(shim);
    return shim->parts.head->get_mem_handle(handle, buffer, bytes, shim->inner, local_only);
}

static int release_mem_handle(unsigned char *handle, void *t)
{
    struct prs_shim *shim = prs_shim_of(t);
    return shim->parts.head->release_mem_handle(handle, shim->inner);
}

static int finalize(void *t)
{
    struct prs_shim *shim = prs_shim_of(t);
    int failed = shim->parts.head->finalize(shim->inner);
    prs_shim_destroy(shim);
    return failed;
}

static int show_info(void *t, int style)
{
    struct prs_shim *shim = prs_shim_of(t);
    return shim->parts.head->show_info(shim->inner, style);
}

static int progress(void *t)
{
    struct prs_shim *shim = prs_shim_of(t);
    return shim->parts.head->progress(shim->inner);
}

static int rma(void *t, int pe, struct prs_abi_rma_verb verb, struct prs_abi_rma_memory *remote,
               struct prs_abi_rma_memory *local, struct prs_abi_rma_bytes bytes, int channel)
{
    struct prs_shim *shim = prs_shim_of(t);
    uint64_t start_ns = prs_profile_now_ns();
    int failed = shim->parts.head->rma(shim->inner, pe, verb, remote, local, bytes, channel);
    prs_shim_add(shim, kind_of(verb.desc), channel, pe,
                 bytes.elements * (size_t)bytes.element_bytes, start_ns);
    return failed;
}

static int amo(void *t, int pe, void *unused, struct prs_abi_amo_verb verb,
               struct prs_abi_amo_memory *target, struct prs_abi_amo_bytes bytes, int channel)
{
    struct prs_shim *shim = prs_shim_of(t);
    uint64_t start_ns = prs_profile_now_ns();
    int failed = shim->parts.head->amo(shim->inner, pe, unused, verb, target, bytes, channel);
    prs_shim_add(shim, PRS_PROFILE_AMO, channel, pe, (uint64_t)bytes.element_bytes, start_ns);
    return failed;
}

static int quiet(void *t, int pe, int channel)
{
    struct prs_shim *shim = prs_shim_of(t);
    uint64_t start_ns = prs_profile_now_ns();
    int failed = shim->parts.head->quiet(shim->inner, pe, channel);
    prs_shim_add(shim, PRS_PROFILE_QUIET, channel, pe, 0, start_ns);
    return failed;
}

static int enforce_cst(void *t)
{
    struct prs_shim *shim = prs_shim_of(t);
    return shim->parts.tail->enforce_cst(shim->inner);
}

static int enforce_cst_at_target(void *t)
{
    struct prs_shim *shim = prs_shim_of(t);
    return shim->parts.tail->enforce_cst_at_target(shim->inner);
}

static int add_device_handles(void *t, int stride, unsigned char *handles, uint64_t heap_offset,
                              size_t bytes)
{
    struct prs_shim *shim = prs_shim_of(t);
    return shim->parts.tail->add_device_remote_mem_handles(shim->inner, stride, handles,
                                                           heap_offset, bytes);
}

/* What the wrapped transport does not have stays NULL: the host goes by that. */
static void wrap(struct prs_abi_ops_head *head, struct prs_abi_ops_tail *tail)
{
    head->can_reach_peer = can_reach_peer;
    head->get_mem_handle = head->get_mem_handle != NULL ? get_mem_handle : NULL;
    head->release_mem_handle = head->release_mem_handle != NULL ? release_mem_handle : NULL;
    head->finalize = finalize;
    head->show_info = head->show_info != NULL ? show_info : NULL;
    head->progress = head->progress != NULL ? progress : NULL;
    head->rma = rma;
    head->amo = amo;
    head->quiet = quiet;
    tail->enforce_cst = tail->enforce_cst != NULL ? enforce_cst : NULL;
    tail->enforce_cst_at_target =
        tail->enforce_cst_at_target != NULL ? enforce_cst_at_target : NULL;
    tail->add_device_remote_mem_handles =
        tail->add_device_remote_mem_handles != NULL ? add_device_handles : NULL;
}

void *prs_shim_wrap(struct prs_shim *shim)
{
    bool is_4 = shim->interface == 4;
    if (is_4) {
        shim->parts = prs_abi4_parts(shim->inner);
        shim->outer.v4 = *(const struct prs_abi4_transport *)shim->inner;
    } else {
        shim->parts = prs_abi3_parts(shim->inner);
        shim->outer.v3 = *(const struct prs_abi3_transport *)shim->inner;
    }
    const struct prs_abi_parts parts = outer_parts(shim);
    parts.fields->state = shim;
    wrap(parts.head, parts.tail);
    if (is_4) {
        prs_shim4_complete(shim);
    } else {
        prs_shim3_complete(shim);
    }
    return &shim->outer;
}
