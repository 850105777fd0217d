/* SPDX-License-Identifier: Apache-2.0 */
#include "host/interface.h"

#include <stdlib.h>

#include "host/status.h"

static struct prs_interface *interface_of(void *t)
{
    return (struct prs_interface *)(void *)((char *)t - offsetof(struct prs_interface, host));
}

struct prs_plugin *prs_interface_plugin(void *t)
{
    return interface_of(t)->plugin;
}

enum prs_side prs_interface_side(int channel)
{
    return channel != PRS_ABI_QP_HOST ? PRS_SIDE_PROXY : PRS_SIDE_HOST;
}

/* The same for every PE: self and node neighbours' atomics come here too. */
static int can_reach_peer(int *access, struct prs_abi_pe_info *peer, void *t)
{
    (void)peer;
    (void)t;
    *access = PRS_ABI_CAP_CPU_WRITE | PRS_ABI_CAP_CPU_READ | PRS_ABI_CAP_CPU_ATOMICS;
    return PRS_ABI_SUCCESS;
}

static int get_mem_handle(unsigned char *handle, void *buffer, size_t bytes, void *t,
                          bool local_only)
{
    return (int)prs_abi_status(
        prs_memory_register(prs_interface_plugin(t), buffer, bytes, local_only, handle));
}

static int release_mem_handle(unsigned char *handle, void *t)
{
    return (int)prs_abi_status(prs_memory_release(prs_interface_plugin(t), handle));
}

static int finalize(void *t)
{
    prs_plugin_destroy(prs_interface_plugin(t));
    free(interface_of(t));
    return PRS_ABI_SUCCESS;
}

static int show_info(void *t, int style)
{
    (void)t;
    (void)style;
    return PRS_ABI_SUCCESS;
}

static int progress(void *t)
{
    return (int)prs_abi_status(prs_plugin_progress(prs_interface_plugin(t)));
}

static int rma(void *t, int pe, struct prs_abi_rma_verb verb, struct prs_abi_rma_memory *remote,
               struct prs_abi_rma_memory *local, struct prs_abi_rma_bytes bytes, int channel)
{
    return (int)prs_abi_status(prs_plugin_rma(prs_interface_plugin(t), prs_interface_side(channel),
                                              pe, &verb, remote, local, &bytes));
}

static int amo(void *t, int pe, void *unused, struct prs_abi_amo_verb verb,
               struct prs_abi_amo_memory *target, struct prs_abi_amo_bytes bytes, int channel)
{
    (void)unused;
    return (int)prs_abi_status(prs_plugin_amo(prs_interface_plugin(t), prs_interface_side(channel),
                                              pe, &verb, target, &bytes));
}

static int quiet(void *t, int pe, int channel)
{
    return (int)prs_abi_status(
        prs_plugin_quiet(prs_interface_plugin(t), prs_interface_side(channel), pe));
}

static int enforce_cst(void *t)
{
    (void)t; /* what this transport wrote is visible before it completes */
    return PRS_ABI_SUCCESS;
}

static void fill(const struct prs_abi_parts *parts, struct prs_plugin *plugin)
{
    *parts->fields = (struct prs_abi_fields){
        .state = plugin,
        .attr = PRS_ABI_ATTR_CONNECTED,
        .atomics_complete_on_quiet = true,
        .is_successfully_initialized = true,
        .max_op_bytes = plugin->op_bytes_max,
    };
    *parts->head = (struct prs_abi_ops_head){
        .can_reach_peer = can_reach_peer,
        .get_mem_handle = get_mem_handle,
        .release_mem_handle = release_mem_handle,
        .finalize = finalize,
        .show_info = show_info,
        .progress = progress,
        .rma = rma,
        .amo = amo,
        .quiet = quiet,
    };
    *parts->tail = (struct prs_abi_ops_tail){.enforce_cst = enforce_cst};
}

void *prs_interface_create(struct prs_plugin *plugin, int version)
{
    struct prs_interface *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return NULL;
    }
    self->plugin = plugin;
    struct prs_abi_parts parts;
    if (plugin->interface == 4) {
        self->host.v4.api_version = version;
        parts = prs_abi4_parts(&self->host.v4);
        fill(&parts, plugin);
        prs_interface4_complete(&self->host.v4, plugin->offers_fence);
    } else {
        self->host.v3.api_version = version;
        parts = prs_abi3_parts(&self->host.v3);
        fill(&parts, plugin);
        prs_interface3_complete(&self->host.v3, plugin->offers_fence);
    }
    return &self->host;
}
