/* interface4.c: interface 4.0's callbacks. They unpack and forward; nothing else. */
#include <stdlib.h>

#include "abi4.h"
#include "interface.h"
#include "status.h"

/* Every queue pair but the host's is driven by the proxy thread. */
static enum prs_side side_of(int qp)
{
    return qp != PRS_ABI_QP_HOST ? PRS_SIDE_PROXY : PRS_SIDE_HOST;
}

static int can_reach_peer(int *access, struct prs_abi_pe_info *peer, struct prs_abi4_transport *t)
{
    (void)peer;
    (void)t;
    *access = PRS_INTERFACE_ACCESS;
    return PRS_ABI_SUCCESS;
}

static int connect_endpoints(struct prs_abi4_transport *t, int *devices, int n_devices,
                             int *out_qps, int n_qps)
{
    (void)devices;
    (void)n_devices;
    (void)out_qps; /* holds the default queue pair, which serves every request */
    (void)n_qps;
    return (int)prs_abi_status(prs_plugin_connect(t->state, t->my_pe, t->n_pes, t->bootstrap));
}

static int get_mem_handle(unsigned char *handle, void *buffer, size_t bytes,
                          struct prs_abi4_transport *t, bool local_only)
{
    return (int)prs_abi_status(prs_memory_register(t->state, buffer, bytes, local_only, handle));
}

static int release_mem_handle(unsigned char *handle, struct prs_abi4_transport *t)
{
    return (int)prs_abi_status(prs_memory_release(t->state, handle));
}

static int finalize(struct prs_abi4_transport *t)
{
    prs_plugin_destroy(t->state);
    free(t);
    return PRS_ABI_SUCCESS;
}

static int show_info(struct prs_abi4_transport *t, int style)
{
    (void)t;
    (void)style;
    return PRS_ABI_SUCCESS;
}

static int progress(struct prs_abi4_transport *t)
{
    return (int)prs_abi_status(prs_plugin_progress(t->state));
}

static int rma(struct prs_abi4_transport *t, int pe, struct prs_abi_rma_verb verb,
               struct prs_abi_rma_memory *remote, struct prs_abi_rma_memory *local,
               struct prs_abi_rma_bytes bytes, int qp)
{
    return (int)prs_abi_status(
        prs_plugin_rma(t->state, side_of(qp), pe, &verb, remote, local, &bytes));
}

static int amo(struct prs_abi4_transport *t, int pe, void *unused, struct prs_abi_amo_verb verb,
               struct prs_abi_amo_memory *target, struct prs_abi_amo_bytes bytes, int qp)
{
    (void)unused;
    return (int)prs_abi_status(prs_plugin_amo(t->state, side_of(qp), pe, &verb, target, &bytes));
}

static int fence(struct prs_abi4_transport *t, int pe, int qp, int is_multi)
{
    (void)is_multi;
    return (int)prs_abi_status(prs_plugin_fence(t->state, side_of(qp), pe));
}

static int quiet(struct prs_abi4_transport *t, int pe, int qp)
{
    return (int)prs_abi_status(prs_plugin_quiet(t->state, side_of(qp), pe));
}

static int put_signal(struct prs_abi4_transport *t, int pe, struct prs_abi_rma_verb verb,
                      struct prs_abi_vector *remote, struct prs_abi_vector *local,
                      struct prs_abi_vector *bytes, struct prs_abi_amo_verb signal_verb,
                      struct prs_abi_amo_memory *signal, struct prs_abi_amo_bytes signal_bytes,
                      int qp)
{
    (void)verb;
    (void)signal_bytes; /* signals are 8 bytes */
    return (int)prs_abi_status(prs_plugin_put_signal(t->state, side_of(qp), pe, remote, local,
                                                     bytes, signal_verb.desc, signal));
}

static int enforce_cst(struct prs_abi4_transport *t)
{
    (void)t; /* what this transport wrote is visible before it completes */
    return PRS_ABI_SUCCESS;
}

void *prs_interface4_create(struct prs_plugin *plugin, int version)
{
    struct prs_abi4_transport *t = calloc(1, sizeof *t);
    if (t == NULL) {
        return NULL;
    }
    *t = (struct prs_abi4_transport){
        .api_version = version,
        .state = plugin,
        .attr = PRS_ABI_ATTR_CONNECTED,
        .atomics_complete_on_quiet = true,
        .is_successfully_initialized = true,
        .max_op_bytes = plugin->op_bytes_max,
        .ops = {.can_reach_peer = can_reach_peer,
                .connect_endpoints = connect_endpoints,
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
                .enforce_cst = enforce_cst},
    };
    return t;
}
