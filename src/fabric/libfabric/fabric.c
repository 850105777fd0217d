/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "fabric/libfabric/provider/caps.h"
#include "fabric/libfabric/provider/choose.h"
#include "fabric/libfabric/internal.h"
#include "fabric/libfabric/provider/handlers.h"
#include "fabric/libfabric/provider/ip.h"
#include "fabric/libfabric/provider/library.h"
#include "fabric/libfabric/libfabric.h"
#include "fabric/libfabric/provider/process.h"
#include "fabric/libfabric/provider/shm.h"
#include "fabric/libfabric/status.h"
#include "fabric/libfabric/provider/traits.h"

static void fabric_close(struct prs_fabric *base)
{
    if (base == NULL) {
        return;
    }
    struct prs_lf_fabric *fabric = prs_lf_fabric_of(base);
    if (fabric->domain != NULL) {
        fi_close(&fabric->domain->fid);
    }
    if (fabric->fabric != NULL) {
        fi_close(&fabric->fabric->fid);
    }
    if (fabric->info != NULL) {
        prs_lf_library()->freeinfo(fabric->info);
    }
    pthread_mutex_destroy(&fabric->lock);
    free(fabric);
}

/* Everything that can fail. What is there of it afterwards, fabric_close takes down. */
static enum perseus_status fabric_fill(struct prs_lf_fabric *fabric,
                                       const struct prs_fabric_config *config)
{
    enum perseus_status status =
        prs_lf_choose(config, &fabric->info, fabric->bind, sizeof fabric->bind);
    if (status != PERSEUS_OK) {
        return status;
    }
    prs_lf_caps_fill(fabric->info, &fabric->base.caps);
    if (prs_lf_shm_is(fabric->info)) {
        prs_lf_shm_sweep();
        fabric->base.caps.scope = fabric->process_space;
    } else if (prs_lf_ip_is_loopback(fabric->bind)) {
        fabric->base.caps.scope = prs_lf_network_space();
    }
    fabric->traits = prs_lf_traits(fabric->base.caps.provider);
    if (fabric->traits & PRS_LF_PEEKS) {
        prs_log(config->log, PERSEUS_LOG_WARN,
                "provider '%s' stands still now and then under steady traffic, and is never chosen "
                "unless it is named: tcp does the same work many times as fast",
                fabric->base.caps.provider);
    }
    struct prs_lf_handlers handlers;
    prs_lf_handlers_keep(&handlers);
    int error = prs_lf_library()->fabric(fabric->info->fabric_attr, &fabric->fabric, NULL);
    error = error == 0 ? fi_domain(fabric->fabric, fabric->info, &fabric->domain, NULL) : error;
    prs_lf_handlers_give_back(&handlers);
    if (error != 0) {
        status = prs_lf_status(error);
        return prs_fail(config->log, status, "libfabric provider '%s' cannot be opened: %s; %s",
                        fabric->base.caps.provider, prs_lf_error_text(error),
                        prs_lf_advice(status));
    }
    if ((config->memory_kinds & PRS_MEMORY_CUDA) &&
        !prs_lf_memory_is_known(fabric, PRS_MEMORY_CUDA)) {
        return prs_fail(config->log, PERSEUS_NOT_SUPPORTED,
                        "this libfabric was built without CUDA, which provider '%s' needs to take "
                        "GPU memory: use host memory",
                        fabric->base.caps.provider);
    }
    prs_lf_caps_atomics(fabric->info, fabric->domain, &fabric->base.caps);
    prs_lf_wake_find(fabric);
    return PERSEUS_OK;
}

static enum perseus_status fabric_open(const struct prs_fabric_config *config,
                                       struct prs_fabric **out)
{
    struct prs_lf_fabric *fabric = calloc(1, sizeof *fabric);
    if (fabric == NULL) {
        return prs_fail(config->log, PERSEUS_OUT_OF_MEMORY, "no memory for a fabric");
    }
    fabric->base.ops = &prs_libfabric_ops;
    fabric->log = config->log;
    fabric->loss_level = config->loss_level;
    fabric->clock = config->clock.now_ns != NULL ? config->clock : prs_clock_monotonic();
    fabric->process_space = prs_lf_process_space();
    pthread_mutex_init(&fabric->lock, NULL);
    enum perseus_status status = fabric_fill(fabric, config);
    if (status != PERSEUS_OK) {
        fabric_close(&fabric->base);
        return status;
    }
    *out = &fabric->base;
    return PERSEUS_OK;
}

const struct prs_fabric_ops prs_libfabric_ops = {
    .name = "libfabric",
    .open = fabric_open,
    .close = fabric_close,
    .endpoint_open = prs_lf_endpoint_open,
    .endpoint_close = prs_lf_endpoint_close,
    .endpoint_address = prs_lf_endpoint_address,
    .connect = prs_lf_connect,
    .region_register = prs_lf_region_register,
    .region_close = prs_lf_region_close,
    .region_export = prs_lf_region_export,
    .remote_import = prs_lf_remote_import,
    .remote_close = prs_lf_remote_close,
    .post = prs_lf_post,
    .flush = prs_lf_flush,
    .poll = prs_lf_poll,
    .wait_fd = prs_lf_wait_fd,
    .arm = prs_lf_arm,
};
