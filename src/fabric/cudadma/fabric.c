/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "fabric/cudadma/cudadma.h"

static void cudadma_close(struct prs_fabric *fabric)
{
    if (fabric == NULL) {
        return;
    }
    struct prs_cudadma_fabric *self = (struct prs_cudadma_fabric *)fabric;
    prs_door_destroy(self->door); /* first: nobody may take a new reference to the port */
    prs_port_unref(self->port);
    prs_gpu_device_close(&self->device);
    prs_gpu_close(self->cuda);
    free(self);
}

static enum perseus_status open_gpu(struct prs_cudadma_fabric *self, int device)
{
    enum perseus_status status = prs_gpu_open(self->log, &self->cuda);
    return status == PERSEUS_OK ? prs_gpu_device_open(self->cuda, device, &self->device) : status;
}

static enum perseus_status open_port(struct prs_cudadma_fabric *self)
{
    uint64_t id;
    if (getrandom(&id, sizeof id, 0) != sizeof id) {
        return prs_fail(self->log, PERSEUS_IO, "no random numbers from the kernel: %s",
                        strerror(errno));
    }
    if (prs_port_create(id, &self->port) != PERSEUS_OK) {
        return prs_fail(self->log, PERSEUS_OUT_OF_MEMORY, "no memory for a cudadma fabric");
    }
    return prs_door_create(self->port, self->log, &self->door);
}

static enum perseus_status cudadma_open(const struct prs_fabric_config *config,
                                        struct prs_fabric **out)
{
    int device = 0;
    struct prs_cudadma_fabric *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return prs_fail(config->log, PERSEUS_OUT_OF_MEMORY, "no memory for a cudadma fabric");
    }
    self->base.ops = &prs_cudadma_ops;
    self->log = config->log;
    self->place = prs_cudadma_place;
    enum perseus_status status = prs_cudadma_caps(config, &self->base.caps, &device);
    if (status == PERSEUS_OK) {
        status = open_gpu(self, device);
    }
    if (status == PERSEUS_OK) {
        status = open_port(self);
    }
    if (status != PERSEUS_OK) {
        cudadma_close(&self->base);
        return status;
    }
    *out = &self->base;
    return PERSEUS_OK;
}

/* Copies between a GPU and memory that is not pinned would not be asynchronous. */
static enum perseus_status pin(struct prs_cudadma_fabric *self, struct prs_cudadma_region *region)
{
    void *before = NULL;
    enum perseus_status status = prs_gpu_enter(&self->device, &before);
    if (status != PERSEUS_OK) {
        return status;
    }
    int error = self->cuda->call.host_register(region->base.base, region->base.bytes,
                                               PRS_CUDA_HOST_PORTABLE);
    prs_gpu_leave(&self->device, before);
    region->is_pinned = error == PRS_CUDA_SUCCESS;
    if (error == PRS_CUDA_HOST_REGISTERED) {
        return PERSEUS_OK; /* the program's, or a neighbour's pages */
    }
    return prs_gpu_check(self->cuda, error, "pinning memory (ulimit -l may be too low)");
}

static enum perseus_status cudadma_region_register(struct prs_fabric *fabric, void *base,
                                                   size_t bytes, enum prs_memory_kind kind,
                                                   struct prs_region **out)
{
    struct prs_cudadma_fabric *self = (struct prs_cudadma_fabric *)fabric;
    if (base == NULL || bytes == 0) {
        return prs_fail(self->log, PERSEUS_INVALID_ARGUMENT,
                        "a region needs memory: %zu bytes at %p", bytes, base);
    }
    struct prs_cudadma_region *region = calloc(1, sizeof *region);
    if (region == NULL) {
        return prs_fail(self->log, PERSEUS_OUT_OF_MEMORY, "no memory for one more region");
    }
    region->base =
        (struct prs_region){.fabric = fabric, .base = base, .bytes = bytes, .kind = kind};
    enum perseus_status status = kind == PRS_MEMORY_HOST ? pin(self, region) : PERSEUS_OK;
    if (status == PERSEUS_OK) {
        status = prs_port_add(self->port, base, bytes, &region->slot);
    }
    if (status != PERSEUS_OK) {
        free(region);
        return status;
    }
    *out = &region->base;
    return PERSEUS_OK;
}

static void cudadma_region_close(struct prs_region *region)
{
    if (region == NULL) {
        return;
    }
    struct prs_cudadma_fabric *fabric = (struct prs_cudadma_fabric *)region->fabric;
    struct prs_cudadma_region *self = (struct prs_cudadma_region *)region;
    void *before = NULL;
    prs_port_remove(fabric->port, self->slot);
    prs_port_settle(fabric->port);
    if (self->is_pinned && prs_gpu_enter(&fabric->device, &before) == PERSEUS_OK) {
        fabric->cuda->call.host_unregister(region->base);
        prs_gpu_leave(&fabric->device, before);
    }
    free(self);
}

static enum perseus_status cudadma_region_export(struct prs_region *region, void *blob,
                                                 size_t *bytes)
{
    struct prs_cudadma_fabric *fabric = (struct prs_cudadma_fabric *)region->fabric;
    struct prs_cudadma_blob content = {.magic = PRS_CUDADMA_BLOB_MAGIC,
                                       .device = fabric->device.ordinal,
                                       .slot = ((struct prs_cudadma_region *)region)->slot,
                                       .port = prs_port_id(fabric->port)};
    if (*bytes < sizeof content) {
        return prs_fail(fabric->log, PERSEUS_INVALID_ARGUMENT,
                        "a region blob needs %zu bytes, not %zu", sizeof content, *bytes);
    }
    memcpy(blob, &content, sizeof content);
    *bytes = sizeof content;
    return PERSEUS_OK;
}

const struct prs_fabric_ops prs_cudadma_ops = {
    .name = "cudadma",
    .open = cudadma_open,
    .close = cudadma_close,
    .endpoint_open = prs_cudadma_endpoint_open,
    .endpoint_close = prs_cudadma_endpoint_close,
    .endpoint_address = prs_cudadma_endpoint_address,
    .connect = prs_cudadma_connect,
    .region_register = cudadma_region_register,
    .region_close = cudadma_region_close,
    .region_export = cudadma_region_export,
    .remote_import = prs_cudadma_import,
    .remote_close = prs_cudadma_remote_close,
    .post = prs_cudadma_post,
    .flush = prs_cudadma_flush,
    .poll = prs_cudadma_poll,
};
