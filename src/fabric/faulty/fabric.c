/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "fabric/faulty/state.h"

static void faulty_close(struct prs_fabric *fabric)
{
    if (fabric == NULL) {
        return;
    }
    struct prs_faulty_fabric *self = (struct prs_faulty_fabric *)fabric;
    self->inside->ops->close(self->inside);
    free(self);
}

/* Decorators are made by prs_faulty_wrap only. */
static enum perseus_status faulty_open(const struct prs_fabric_config *config,
                                       struct prs_fabric **out)
{
    (void)out;
    return prs_fail(config->log, PERSEUS_NOT_SUPPORTED,
                    "faulty wraps an open fabric; open that one first");
}

static enum perseus_status faulty_region_register(struct prs_fabric *fabric, void *base,
                                                  size_t bytes, enum prs_memory_kind kind,
                                                  struct prs_region **out)
{
    struct prs_fabric *inside = ((struct prs_faulty_fabric *)fabric)->inside;
    return inside->ops->region_register(inside, base, bytes, kind, out);
}

static void faulty_region_close(struct prs_region *region)
{
    if (region != NULL) {
        region->fabric->ops->region_close(region);
    }
}

static enum perseus_status faulty_region_export(struct prs_region *region, void *blob,
                                                size_t *bytes)
{
    return region->fabric->ops->region_export(region, blob, bytes);
}

static void faulty_remote_close(struct prs_remote *remote)
{
    if (remote != NULL) {
        remote->endpoint->ops->remote_close(remote);
    }
}

static const struct prs_fabric_ops prs_faulty_ops = {
    .name = "faulty",
    .open = faulty_open,
    .close = faulty_close,
    .endpoint_open = prs_faulty_endpoint_open,
    .endpoint_close = prs_faulty_endpoint_close,
    .endpoint_address = prs_faulty_endpoint_address,
    .connect = prs_faulty_connect,
    .region_register = faulty_region_register,
    .region_close = faulty_region_close,
    .region_export = faulty_region_export,
    .remote_import = prs_faulty_import,
    .remote_close = faulty_remote_close,
    .post = prs_faulty_post,
    .flush = prs_faulty_flush,
    .poll = prs_faulty_poll,
    .wait_fd = prs_faulty_wait_fd,
    .arm = prs_faulty_arm,
};

enum perseus_status prs_faulty_wrap(struct prs_fabric *inside,
                                    const struct prs_faulty_config *config,
                                    const struct prs_log *log, struct prs_clock clock,
                                    struct prs_fabric **out)
{
    struct prs_faulty_fabric *self = calloc(1, sizeof *self);
    if (self == NULL) {
        inside->ops->close(inside);
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "no memory for the faulty decorator");
    }
    self->base.ops = &prs_faulty_ops;
    self->base.caps = inside->caps;
    self->base.caps.order &= (uint32_t)~config->unordered_mask;
    if (self->base.caps.inline_bytes > PRS_FAULTY_INLINE_BYTES) {
        self->base.caps.inline_bytes = PRS_FAULTY_INLINE_BYTES;
    }
    /* Delayed operations wait here, not inside: the depth is the decorator's. */
    self->base.caps.inflight_max = PRS_FAULTY_INFLIGHT;
    self->inside = inside;
    self->config = *config;
    self->log = log;
    self->clock = clock;
    *out = &self->base;
    return PERSEUS_OK;
}

void prs_faulty_advance(struct prs_fabric *faulty, uint64_t stream)
{
    ((struct prs_faulty_fabric *)faulty)->config.seed += stream;
}
