/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "fabric/staged/internal.h"

#define MESSAGE_BYTES_MAX (UINT64_C(1) << 40)

static void staged_close(struct prs_fabric *fabric)
{
    if (fabric == NULL) {
        return;
    }
    struct prs_staged_fabric *self = (struct prs_staged_fabric *)fabric;
    self->inside->ops->close(self->inside);
    prs_gpu_device_close(&self->device);
    prs_gpu_close(self->cuda);
    pthread_mutex_destroy(&self->lock);
    free(self->regions);
    free(self);
}

/* Decorators are made by prs_staged_wrap only. */
static enum perseus_status staged_open(const struct prs_fabric_config *config,
                                       struct prs_fabric **out)
{
    (void)out;
    return prs_fail(config->log, PERSEUS_NOT_SUPPORTED,
                    "staged wraps an open fabric; open that one first");
}

/* Poll moves everything. */
static enum perseus_status staged_flush(struct prs_endpoint *endpoint)
{
    (void)endpoint;
    return PERSEUS_OK;
}

static const struct prs_fabric_ops prs_staged_ops = {
    .name = "staged",
    .open = staged_open,
    .close = staged_close,
    .endpoint_open = prs_staged_endpoint_open,
    .endpoint_close = prs_staged_endpoint_close,
    .endpoint_address = prs_staged_address,
    .connect = prs_staged_connect,
    .region_register = prs_staged_region_register,
    .region_close = prs_staged_region_close,
    .region_export = prs_staged_region_export,
    .remote_import = prs_staged_remote_import,
    .remote_close = prs_staged_remote_close,
    .post = prs_staged_post,
    .flush = staged_flush,
    .poll = prs_staged_poll,
};

static struct prs_caps staged_caps(const struct prs_caps *inside)
{
    struct prs_caps caps = {
        .order = PRS_ORDER_PUT_PUT | PRS_ORDER_PUT_SET | PRS_ORDER_SET_SET,
        .fence_scope = PRS_FENCE_NONE,
        .completion = PRS_COMPLETION_DELIVERED,
        .completion_per_operation = true,
        .immediate_bits = 64,
        .inline_bytes = PRS_STAGED_INLINE_BYTES,
        .message_bytes_max = MESSAGE_BYTES_MAX,
        .inflight_max = PRS_STAGED_OPS,
        .batching = true,
        .memory_kinds = PRS_MEMORY_HOST | PRS_MEMORY_CUDA,
        .target_must_progress = true,
        .source_needs_region = true,
        .lanes_max = 1,
        .numa_node = inside->numa_node,
        .scope = inside->scope,
    };
    snprintf(caps.provider, sizeof caps.provider, "staged %.56s", inside->provider);
    snprintf(caps.order_word, sizeof caps.order_word, "a ring to each PE, emptied in order");
    snprintf(caps.fence_word, sizeof caps.fence_word, "none: all is in order");
    snprintf(caps.completion_word, sizeof caps.completion_word,
             "counted by the target when copied");
    snprintf(caps.immediate_word, sizeof caps.immediate_word, "64 bits, behind the copies");
    snprintf(caps.wake_word, sizeof caps.wake_word, "nothing (the GPU's events are looked at)");
    return caps;
}

/* A count is put behind the slots that it counts, by order or by completion. */
static enum perseus_status check(const struct prs_fabric *inside, const struct prs_log *log)
{
    const struct prs_caps *caps = &inside->caps;
    bool follows = caps->order & PRS_ORDER_PUT_PUT || caps->completion == PRS_COMPLETION_DELIVERED;
    if (follows && caps->inline_bytes >= sizeof(struct prs_staged_count)) {
        return PERSEUS_OK;
    }
    return prs_fail(log, PERSEUS_NOT_SUPPORTED,
                    "%s %s cannot carry a GPU's memory by way of the host's: it %s; choose another "
                    "provider (perseus info)",
                    inside->ops->name, caps->provider,
                    follows ? "takes no inline puts" : "grants neither order nor delivery");
}

enum perseus_status prs_staged_wrap(struct prs_fabric *inside,
                                    const struct prs_staged_config *config, struct prs_fabric **out)
{
    struct prs_staged_fabric *self = calloc(1, sizeof *self);
    if (self == NULL) {
        inside->ops->close(inside);
        return prs_fail(config->log, PERSEUS_OUT_OF_MEMORY, "no memory for the staged decorator");
    }
    self->base.ops = &prs_staged_ops;
    self->base.caps = staged_caps(&inside->caps);
    self->inside = inside;
    self->config = *config;
    self->n_pes = 1;
    self->is_ordered = inside->caps.order & PRS_ORDER_PUT_PUT;
    pthread_mutex_init(&self->lock, NULL);
    enum perseus_status status = check(inside, config->log);
    if (status == PERSEUS_OK) {
        status = prs_gpu_open(config->log, &self->cuda);
    }
    if (status == PERSEUS_OK) {
        status = prs_gpu_device_open(self->cuda, config->gpu, &self->device);
    }
    if (status != PERSEUS_OK) {
        staged_close(&self->base);
        return status;
    }
    *out = &self->base;
    return PERSEUS_OK;
}

void prs_staged_place(struct prs_fabric *staged, uint32_t self, uint32_t n_pes)
{
    struct prs_staged_fabric *fabric = (struct prs_staged_fabric *)staged;
    fabric->self = self;
    fabric->n_pes = n_pes;
}
