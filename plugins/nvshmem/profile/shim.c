/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim.c: a transport that hands every call to another one and takes the time. One object for every
 * file name that it goes under: the name of its own file says whose place it has taken.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/export.h"
#include "host/block.h"
#include "host/notice.h"
#include "profile/inner.h"
#include "profile/record.h"

struct shim {
    struct prs_log log;
    struct prs_profile profile;
    struct prs_inner inner;
};

static struct shim *shim_of(const struct prs_block *block)
{
    return block->owner;
}

/* What the host wrote into its object since goes to the wrapped one. */
static struct shim *pass_on(struct prs_block *block)
{
    struct shim *shim = shim_of(block);
    const struct prs_abi_fields *outer = block->fields;
    struct prs_abi_fields *inner = shim->inner.fields;
    prs_interface_start(shim->inner.object)->cap = prs_interface_start(block->host)->cap;
    inner->bootstrap = outer->bootstrap;
    inner->heap_base = outer->heap_base;
    inner->log2_cumem_granularity = outer->log2_cumem_granularity;
    inner->index = outer->index;
    inner->my_pe = outer->my_pe;
    inner->n_pes = outer->n_pes;
    inner->alias_map = outer->alias_map;
    inner->egm_map = outer->egm_map;
    return shim;
}

/* A call is over. Those of user threads are not recorded. */
static void add(struct shim *shim, enum prs_profile_kind kind, int channel, int pe, uint64_t bytes,
                uint64_t start_ns)
{
    prs_profile_add(&shim->profile, kind, channel != PRS_ABI_QP_HOST, pe, bytes, start_ns);
}

/* Once the PE's number is known. */
static void start_record(struct shim *shim, const struct prs_abi_fields *fields)
{
    shim->log.pe = fields->my_pe;
    const char *directory = prs_env_text(PRS_ENV_PROFILE_DIR);
    if (!prs_profile_open(&shim->profile, directory[0] != '\0' ? directory : ".", fields->my_pe,
                          fields->n_pes, shim->inner.interface->major,
                          prs_inner_has_fence(&shim->inner), shim->inner.path)) {
        prs_log(&shim->log, PERSEUS_LOG_WARN,
                "profile: cannot write to \"%s\": nothing is recorded", directory);
    }
}

/* ---- calls ---- */

static int can_reach_peer(struct prs_block *block, int *access, struct prs_abi_pe_info *peer)
{
    struct shim *shim = pass_on(block);
    return shim->inner.head->can_reach_peer(access, peer, shim->inner.object);
}

static int connect_pes(struct prs_block *block, int *devices, int n_devices, int *out_qps,
                       int n_qps)
{
    struct shim *shim = pass_on(block);
    int failed = prs_inner_connect(&shim->inner, devices, n_devices, out_qps, n_qps);
    if (out_qps != NULL && n_qps > 0) {
        return failed; /* more queue pairs, later */
    }
    if (shim->inner.fields->max_op_bytes != 0) {
        block->fields->max_op_bytes = shim->inner.fields->max_op_bytes;
    }
    start_record(shim, block->fields);
    return failed;
}

static int get_mem_handle(struct prs_block *block, unsigned char *handle, void *buffer,
                          size_t bytes, bool local_only)
{
    struct shim *shim = pass_on(block);
    return shim->inner.head->get_mem_handle(handle, buffer, bytes, shim->inner.object, local_only);
}

static int release_mem_handle(struct prs_block *block, unsigned char *handle)
{
    struct shim *shim = shim_of(block);
    return shim->inner.head->release_mem_handle(handle, shim->inner.object);
}

static void destroy(struct shim *shim)
{
    prs_profile_close(&shim->profile);
    prs_inner_close(&shim->inner);
    free(shim);
}

static int finalize(struct prs_block *block)
{
    struct shim *shim = shim_of(block);
    int failed = shim->inner.head->finalize(shim->inner.object);
    destroy(shim);
    return failed;
}

static int show_info(struct prs_block *block, int style)
{
    struct shim *shim = shim_of(block);
    return shim->inner.head->show_info(shim->inner.object, style);
}

static int progress(struct prs_block *block)
{
    struct shim *shim = shim_of(block);
    return shim->inner.head->progress(shim->inner.object);
}

static enum prs_profile_kind kind_of(int rma_desc)
{
    return rma_desc == PRS_ABI_PUT ? PRS_PROFILE_PUT
           : rma_desc == PRS_ABI_P ? PRS_PROFILE_P
                                   : PRS_PROFILE_GET;
}

static int rma(struct prs_block *block, int pe, const struct prs_abi_rma_verb *verb,
               struct prs_abi_rma_memory *remote, struct prs_abi_rma_memory *local,
               const struct prs_abi_rma_bytes *bytes, int channel,
               const struct prs_abi_hints *hints)
{
    struct shim *shim = shim_of(block);
    const struct prs_inner *inner = &shim->inner;
    uint64_t start_ns = prs_profile_now_ns();
    int failed = hints != NULL && inner->hints->rma_with_hints != NULL
                     ? inner->hints->rma_with_hints(inner->object, pe, *verb, remote, local, *bytes,
                                                    channel, hints)
                     : inner->head->rma(inner->object, pe, *verb, remote, local, *bytes, channel);
    add(shim, kind_of(verb->desc), channel, pe, bytes->elements * (size_t)bytes->element_bytes,
        start_ns);
    return failed;
}

static int amo(struct prs_block *block, int pe, const struct prs_abi_amo_verb *verb,
               struct prs_abi_amo_memory *target, const struct prs_abi_amo_bytes *bytes,
               int channel)
{
    struct shim *shim = shim_of(block);
    uint64_t start_ns = prs_profile_now_ns();
    int failed = prs_inner_amo(&shim->inner, pe, verb, target, bytes, channel);
    add(shim, PRS_PROFILE_AMO, channel, pe, (uint64_t)bytes->element_bytes, start_ns);
    return failed;
}

static int fence(struct prs_block *block, int pe, int channel, int is_multi)
{
    struct shim *shim = shim_of(block);
    uint64_t start_ns = prs_profile_now_ns();
    int failed = prs_inner_fence(&shim->inner, pe, channel, is_multi);
    add(shim, PRS_PROFILE_FENCE, channel, pe, 0, start_ns);
    return failed;
}

static int quiet(struct prs_block *block, int pe, int channel)
{
    struct shim *shim = shim_of(block);
    uint64_t start_ns = prs_profile_now_ns();
    int failed = shim->inner.head->quiet(shim->inner.object, pe, channel);
    add(shim, PRS_PROFILE_QUIET, channel, pe, 0, start_ns);
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

static int put_signal(struct prs_block *block, int pe, const struct prs_abi_rma_verb *verb,
                      struct prs_abi_vector *remote, struct prs_abi_vector *local,
                      struct prs_abi_vector *bytes, const struct prs_abi_amo_verb *signal_verb,
                      struct prs_abi_amo_memory *signal,
                      const struct prs_abi_amo_bytes *signal_bytes, int channel)
{
    struct shim *shim = shim_of(block);
    uint64_t start_ns = prs_profile_now_ns();
    int failed = prs_inner_put_signal(&shim->inner, pe, verb, remote, local, bytes, signal_verb,
                                      signal, signal_bytes, channel);
    add(shim, PRS_PROFILE_PUT_SIGNAL, channel, pe, bytes_of(bytes), start_ns);
    return failed;
}

static int enforce_cst(struct prs_block *block)
{
    struct shim *shim = shim_of(block);
    return shim->inner.tail->enforce_cst(shim->inner.object);
}

static int enforce_cst_at_target(struct prs_block *block)
{
    struct shim *shim = shim_of(block);
    return shim->inner.tail->enforce_cst_at_target(shim->inner.object);
}

static int add_device_handles(struct prs_block *block, int stride, unsigned char *handles,
                              uint64_t heap_offset, size_t bytes)
{
    struct shim *shim = shim_of(block);
    return shim->inner.tail->add_device_remote_mem_handles(shim->inner.object, stride, handles,
                                                           heap_offset, bytes);
}

static int region_flush(struct prs_block *block, int role, uint64_t issuer, uint64_t region)
{
    struct shim *shim = shim_of(block);
    return shim->inner.hints->region_flush(shim->inner.object, role, issuer, region);
}

/* What the wrapped transport does not have stays NULL: the host goes by that. */
static struct prs_calls calls_around(const struct prs_inner *inner)
{
    const struct prs_abi_ops_head *head = inner->head;
    const struct prs_abi_ops_tail *tail = inner->tail;
    bool has_signal = inner->put_signal != NULL && inner->put_signal->to_5 != NULL;
    bool has_flush = inner->hints != NULL && inner->hints->region_flush != NULL;
    return (struct prs_calls){
        .can_reach_peer = can_reach_peer,
        .connect = connect_pes,
        .get_mem_handle = head->get_mem_handle != NULL ? get_mem_handle : NULL,
        .release_mem_handle = head->release_mem_handle != NULL ? release_mem_handle : NULL,
        .finalize = finalize,
        .show_info = head->show_info != NULL ? show_info : NULL,
        .progress = head->progress != NULL ? progress : NULL,
        .rma = rma,
        .amo = amo,
        .fence = prs_inner_has_fence(inner) ? fence : NULL,
        .quiet = quiet,
        .put_signal = has_signal ? put_signal : NULL,
        .enforce_cst = tail->enforce_cst != NULL ? enforce_cst : NULL,
        .enforce_cst_at_target = tail->enforce_cst_at_target != NULL ? enforce_cst_at_target : NULL,
        .add_device_handles =
            tail->add_device_remote_mem_handles != NULL ? add_device_handles : NULL,
        .region_flush = has_flush ? region_flush : NULL,
    };
}

/* ---- start ---- */

static struct prs_block *wrap(struct shim *shim)
{
    const struct prs_inner *inner = &shim->inner;
    const struct prs_interface *interface = inner->interface;
    const struct prs_calls calls = calls_around(inner);
    const struct prs_abi_start *start = prs_interface_start(inner->object);
    struct prs_block *block = prs_block_create(interface, start->api_version, &calls, shim);
    if (block == NULL) {
        return NULL;
    }
    prs_interface_start(block->host)->type = start->type;
    *block->fields = *inner->fields;
    block->fields->state = shim;
    if (interface->device_mode_at != 0) {
        memcpy(block->host + interface->device_mode_at,
               (const char *)inner->object + interface->device_mode_at, sizeof(int));
    }
    return block;
}

PRS_PUBLIC int nvshmemt_init(void **out, const void *cuda, int api_version);

/* This file's own name. */
static const char *own_file(void)
{
    Dl_info here;
    void *symbol;
    int (*self)(void **, const void *, int) = nvshmemt_init;
    memcpy(&symbol, &self, sizeof symbol);
    if (dladdr(symbol, &here) == 0) {
        return "";
    }
    const char *slash = strrchr(here.dli_fname, '/');
    return slash != NULL ? slash + 1 : here.dli_fname;
}

int nvshmemt_init(void **out, const void *cuda, int api_version)
{
    struct shim *shim = calloc(1, sizeof *shim);
    if (shim == NULL) {
        return PRS_ABI_OUT_OF_MEMORY;
    }
    shim->log = prs_notice_log();
    const struct prs_interface *interface = prs_interface_find(api_version / 10000);
    int failed = PRS_ABI_INVALID_VALUE;
    if (interface == NULL) {
        prs_fail(&shim->log, PERSEUS_VERSION,
                 "profile: this NVSHMEM speaks transport interface %d.%d, the profiler 3.0 to 7.0",
                 api_version / 10000, api_version / 100 % 100);
    } else {
        failed = prs_inner_open(&shim->inner, interface, own_file(), cuda, api_version, &shim->log);
    }
    struct prs_block *block = failed == 0 ? wrap(shim) : NULL;
    if (block == NULL) {
        destroy(shim);
        return failed != 0 ? failed : PRS_ABI_OUT_OF_MEMORY;
    }
    *out = block->host;
    return PRS_ABI_SUCCESS;
}
