/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "fabric/cudadma/cudadma.h"

static const struct prs_inprocess_kind cudadma_kind = {.ops = &prs_cudadma_ops,
                                                       .magic = 0x70726364u, /* "prcd" */
                                                       .peer_bytes =
                                                           sizeof(struct prs_cudadma_peer)};

static void cudadma_close(struct prs_fabric *fabric)
{
    if (fabric == NULL) {
        return;
    }
    struct prs_cudadma_fabric *self = (struct prs_cudadma_fabric *)fabric;
    prs_inprocess_close(&self->common);
    prs_gpu_device_close(&self->device);
    prs_gpu_close(self->cuda);
    free(self);
}

static enum perseus_status open_gpu(struct prs_cudadma_fabric *self, const struct prs_log *log,
                                    int device)
{
    enum perseus_status status = prs_gpu_open(log, &self->cuda);
    return status == PERSEUS_OK ? prs_gpu_device_open(self->cuda, device, &self->device) : status;
}

static enum perseus_status cudadma_open(const struct prs_fabric_config *config,
                                        struct prs_fabric **out)
{
    int device = 0;
    struct prs_cudadma_fabric *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return prs_fail(config->log, PERSEUS_OUT_OF_MEMORY, "no memory for a cudadma fabric");
    }
    self->place = prs_cudadma_place;
    enum perseus_status status = prs_cudadma_caps(config, &self->common.base.caps, &device);
    if (status == PERSEUS_OK) {
        status = open_gpu(self, config->log, device);
    }
    if (status == PERSEUS_OK) {
        self->common.device = self->device.ordinal;
        status = prs_inprocess_open(&self->common, &cudadma_kind, config->log);
    }
    if (status != PERSEUS_OK) {
        cudadma_close(&self->common.base);
        return status;
    }
    *out = &self->common.base;
    return PERSEUS_OK;
}

static void unpin(struct prs_cudadma_fabric *self, struct prs_cudadma_region *region)
{
    if (region->is_pinned) {
        prs_gpu_unpin(&self->device, region->common.base.base);
    }
}

static enum perseus_status cudadma_region_register(struct prs_fabric *fabric, void *base,
                                                   size_t bytes, enum prs_memory_kind kind,
                                                   struct prs_region **out)
{
    struct prs_cudadma_fabric *self = (struct prs_cudadma_fabric *)fabric;
    if (base == NULL || bytes == 0) {
        return prs_fail(self->common.log, PERSEUS_INVALID_ARGUMENT,
                        "a region needs memory: %zu bytes at %p", bytes, base);
    }
    struct prs_cudadma_region *region = calloc(1, sizeof *region);
    if (region == NULL) {
        return prs_fail(self->common.log, PERSEUS_OUT_OF_MEMORY, "no memory for one more region");
    }
    region->common.base =
        (struct prs_region){.fabric = fabric, .base = base, .bytes = bytes, .kind = kind};
    enum perseus_status status = PERSEUS_OK;
    if (kind == PRS_MEMORY_HOST) {
        status = prs_gpu_pin(&self->device, base, bytes, &region->is_pinned);
    }
    if (status == PERSEUS_OK) {
        status = prs_inprocess_region_add(&region->common);
    }
    if (status != PERSEUS_OK) {
        unpin(self, region);
        free(region);
        return status;
    }
    *out = &region->common.base;
    return PERSEUS_OK;
}

static void cudadma_region_close(struct prs_region *region)
{
    if (region == NULL) {
        return;
    }
    struct prs_cudadma_fabric *fabric = (struct prs_cudadma_fabric *)region->fabric;
    struct prs_cudadma_region *self = (struct prs_cudadma_region *)region;
    prs_inprocess_region_remove(&self->common);
    prs_port_settle(fabric->common.port);
    unpin(fabric, self);
    free(self);
}

const struct prs_fabric_ops prs_cudadma_ops = {
    .name = "cudadma",
    .open = cudadma_open,
    .close = cudadma_close,
    .endpoint_open = prs_cudadma_endpoint_open,
    .endpoint_close = prs_cudadma_endpoint_close,
    .endpoint_address = prs_inprocess_address,
    .connect = prs_cudadma_connect,
    .region_register = cudadma_region_register,
    .region_close = cudadma_region_close,
    .region_export = prs_inprocess_region_export,
    .remote_import = prs_cudadma_import,
    .remote_close = prs_inprocess_remote_close,
    .post = prs_cudadma_post,
    .flush = prs_cudadma_flush,
    .poll = prs_cudadma_poll,
};
