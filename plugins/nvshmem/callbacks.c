/* SPDX-License-Identifier: Apache-2.0 */
/* callbacks.c: what the host calls, handed to the plugin. Unpacks and forwards; nothing else. */
#include "host/status.h"
#include "plugin.h"
#include "staging/cuda.h"

static struct prs_plugin *plugin_of(const struct prs_block *block)
{
    return block->owner;
}

static enum prs_side side_of(int channel)
{
    return channel != PRS_ABI_QP_HOST ? PRS_SIDE_PROXY : PRS_SIDE_HOST;
}

/* After a kernel of this process has failed, the program learns it from its own next CUDA call; an
 * error from the proxy's calls would end it in the middle of that. */
static int answer(const struct prs_block *block, int channel, enum perseus_status status)
{
    bool moot = side_of(channel) == PRS_SIDE_PROXY && prs_cuda_is_faulted(plugin_of(block)->cuda);
    return moot ? PRS_ABI_SUCCESS : (int)prs_abi_status(status);
}

/* The same for every PE: self and node neighbours' atomics come here too. */
static int can_reach_peer(struct prs_block *block, int *access, struct prs_abi_pe_info *peer)
{
    (void)block;
    (void)peer;
    *access = PRS_ABI_CAP_CPU_WRITE | PRS_ABI_CAP_CPU_READ | PRS_ABI_CAP_CPU_ATOMICS;
    return PRS_ABI_SUCCESS;
}

/* Called again for more queue pairs: `out_qps` holds the default one, which serves every
 * request. */
static int connect_pes(struct prs_block *block, int *devices, int n_devices, int *out_qps,
                       int n_qps)
{
    (void)devices;
    (void)n_devices;
    (void)out_qps;
    (void)n_qps;
    return (int)prs_abi_status(prs_plugin_connect(plugin_of(block), block->fields->my_pe,
                                                  block->fields->n_pes, block->fields->bootstrap));
}

static int get_mem_handle(struct prs_block *block, unsigned char *handle, void *buffer,
                          size_t bytes, bool local_only)
{
    return (int)prs_abi_status(
        prs_plugin_register(plugin_of(block), buffer, bytes, local_only, handle));
}

static int release_mem_handle(struct prs_block *block, unsigned char *handle)
{
    return (int)prs_abi_status(prs_plugin_release(plugin_of(block), handle));
}

static int finalize(struct prs_block *block)
{
    prs_plugin_destroy(plugin_of(block));
    return PRS_ABI_SUCCESS;
}

static int show_info(struct prs_block *block, int style)
{
    (void)block;
    (void)style;
    return PRS_ABI_SUCCESS;
}

static int progress(struct prs_block *block)
{
    return answer(block, PRS_ABI_QP_DEFAULT, prs_plugin_progress(plugin_of(block)));
}

static int rma(struct prs_block *block, int pe, const struct prs_abi_rma_verb *verb,
               struct prs_abi_rma_memory *remote, struct prs_abi_rma_memory *local,
               const struct prs_abi_rma_bytes *bytes, int channel,
               const struct prs_abi_hints *hints)
{
    (void)hints;
    return answer(
        block, channel,
        prs_plugin_rma(plugin_of(block), side_of(channel), pe, verb, remote, local, bytes));
}

static int amo(struct prs_block *block, int pe, const struct prs_abi_amo_verb *verb,
               struct prs_abi_amo_memory *target, const struct prs_abi_amo_bytes *bytes,
               int channel)
{
    return answer(block, channel,
                  prs_plugin_amo(plugin_of(block), side_of(channel), pe, verb, target, bytes));
}

static int fence(struct prs_block *block, int pe, int channel, int is_multi)
{
    (void)is_multi; /* of one request for several queue pairs: they are one to us */
    return answer(block, channel, prs_plugin_fence(plugin_of(block), side_of(channel), pe));
}

static int quiet(struct prs_block *block, int pe, int channel)
{
    return answer(block, channel, prs_plugin_quiet(plugin_of(block), side_of(channel), pe));
}

/* Signals are 8 bytes, integers. */
static int put_signal(struct prs_block *block, int pe, const struct prs_abi_rma_verb *verb,
                      struct prs_abi_vector *remote, struct prs_abi_vector *local,
                      struct prs_abi_vector *bytes, const struct prs_abi_amo_verb *signal_verb,
                      struct prs_abi_amo_memory *signal,
                      const struct prs_abi_amo_bytes *signal_bytes, int channel)
{
    (void)verb;
    (void)signal_bytes;
    return answer(block, channel,
                  prs_plugin_put_signal(plugin_of(block), side_of(channel), pe, remote, local,
                                        bytes, signal_verb->desc, signal));
}

static int enforce_cst(struct prs_block *block)
{
    (void)block; /* what this transport wrote is visible before it completes */
    return PRS_ABI_SUCCESS;
}

struct prs_calls prs_plugin_calls(const struct prs_plugin *plugin)
{
    return (struct prs_calls){
        .can_reach_peer = can_reach_peer,
        .connect = connect_pes,
        .get_mem_handle = get_mem_handle,
        .release_mem_handle = release_mem_handle,
        .finalize = finalize,
        .show_info = show_info,
        .progress = progress,
        .rma = rma,
        .amo = amo,
        .fence = plugin->offers_fence ? fence : NULL,
        .quiet = quiet,
        .put_signal = put_signal,
        .enforce_cst = enforce_cst,
    };
}
