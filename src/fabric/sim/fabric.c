/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/sim/internal.h"

#define ATOMICS_ALL ((2u << PERSEUS_ATOMIC_COMPARE_SWAP) - 1)

_Static_assert(sizeof(struct prs_sim_endpoint) <= PRS_SIM_ENDPOINT_MAX, "an endpoint is small");
_Static_assert(sizeof(struct prs_sim_blob) <= PRS_BLOB_MAX, "blobs fit");
_Static_assert(sizeof(struct prs_sim_address) <= PRS_ADDRESS_MAX, "addresses fit");

static struct prs_caps caps_of(const struct prs_sim_model *model)
{
    uint32_t atomics = model->atomics ? ATOMICS_ALL : 0;
    uint32_t lanes = prs_sim_lanes(model);
    struct prs_caps caps = {
        .order = model->ordered ? PRS_ORDER_EVERY_PAIR : 0,
        .fence_scope = !model->fence ? PRS_FENCE_NONE
                       : lanes > 1   ? PRS_FENCE_LANE
                                     : PRS_FENCE_PEER,
        .completion = PRS_COMPLETION_DELIVERED,
        .completion_per_operation = true,
        .immediate_bits = (uint32_t)model->immediate_bits,
        .atomics = atomics,
        .atomics_fetch = atomics,
        .inline_bytes = PRS_SIM_INLINE_BYTES,
        .message_bytes_max = PRS_SIM_MESSAGE_BYTES_MAX,
        .inflight_max = (uint32_t)model->inflight,
        .memory_kinds = PRS_MEMORY_HOST,
        .source_needs_region = true,
        .lanes_max = lanes,
        .lanes_useful = lanes,
        .numa_node = -1,
    };
    snprintf(caps.provider, sizeof caps.provider, "virtual time");
    snprintf(caps.order_word, sizeof caps.order_word, "ordered=%s",
             model->ordered ? "true" : "false");
    snprintf(caps.fence_word, sizeof caps.fence_word, "fence=%s, queues=%u",
             model->fence ? "true" : "false", (unsigned)model->queues);
    snprintf(caps.completion_word, sizeof caps.completion_word, "delivered");
    snprintf(caps.immediate_word, sizeof caps.immediate_word, "immediate_bits=%u",
             caps.immediate_bits);
    return caps;
}

enum perseus_status prs_sim_fabric_open(struct prs_sim_net *net,
                                        const struct prs_fabric_config *config,
                                        struct prs_fabric **out)
{
    struct prs_sim_fabric *self = calloc(1, sizeof *self);
    if (self == NULL || !prs_sim_net_add_lines(net, self->lines)) {
        free(self);
        return prs_fail(config->log, PERSEUS_OUT_OF_MEMORY, "no memory for a virtual fabric");
    }
    self->base.ops = &prs_sim_ops;
    self->base.caps = caps_of(&net->model);
    self->net = net;
    self->log = config->log;
    self->clock = config->clock;
    self->first = PRS_SIM_NONE;
    *out = &self->base;
    return PERSEUS_OK;
}

static enum perseus_status open_without_net(const struct prs_fabric_config *config,
                                            struct prs_fabric **out)
{
    (void)out;
    return prs_fail(config->log, PERSEUS_NOT_SUPPORTED,
                    "a virtual fabric is opened on a network, by the simulator");
}

static void close_fabric(struct prs_fabric *fabric)
{
    free(fabric);
}

/* ---- regions ---- */

static enum perseus_status region_register(struct prs_fabric *fabric, void *base, size_t bytes,
                                           enum prs_memory_kind kind, struct prs_region **out)
{
    struct prs_sim_fabric *self = (struct prs_sim_fabric *)fabric;
    if (kind != PRS_MEMORY_HOST) {
        return prs_fail(self->log, PERSEUS_NOT_SUPPORTED,
                        "the virtual fabric moves host memory only");
    }
    if (base == NULL || bytes == 0) {
        return prs_fail(self->log, PERSEUS_INVALID_ARGUMENT,
                        "a region needs memory: %zu bytes at %p", bytes, base);
    }
    struct prs_sim_region *region = calloc(1, sizeof *region);
    if (region == NULL || prs_sim_net_add_region(self->net, region) != PERSEUS_OK) {
        free(region);
        return prs_fail(self->log, PERSEUS_OUT_OF_MEMORY, "no memory for one more region");
    }
    region->base =
        (struct prs_region){.fabric = fabric, .base = base, .bytes = bytes, .kind = kind};
    region->backed = bytes;
    *out = &region->base;
    return PERSEUS_OK;
}

static void region_close(struct prs_region *region)
{
    if (region == NULL) {
        return;
    }
    struct prs_sim_region *self = (struct prs_sim_region *)region;
    ((struct prs_sim_fabric *)region->fabric)->net->regions[self->number] = NULL;
    free(self);
}

static enum perseus_status region_export(struct prs_region *region, void *blob, size_t *bytes)
{
    const struct prs_sim_fabric *fabric = (const struct prs_sim_fabric *)region->fabric;
    struct prs_sim_blob content = {.magic = PRS_SIM_BLOB_MAGIC,
                                   .region = ((struct prs_sim_region *)region)->number,
                                   .endpoint = fabric->first,
                                   .bytes = region->bytes,
                                   .is_word_aligned = (uintptr_t)region->base % 8 == 0};
    if (*bytes < sizeof content) {
        return prs_fail(fabric->log, PERSEUS_INVALID_ARGUMENT,
                        "a region blob needs %zu bytes, not %zu", sizeof content, *bytes);
    }
    memcpy(blob, &content, sizeof content);
    *bytes = sizeof content;
    return PERSEUS_OK;
}

void prs_sim_region_set_backed(struct prs_region *region, size_t bytes)
{
    ((struct prs_sim_region *)region)->backed = bytes;
}

void prs_sim_region_on_written(struct prs_region *region, prs_sim_written_fn written, void *context)
{
    struct prs_sim_region *self = (struct prs_sim_region *)region;
    self->written = written;
    self->context = context;
}

const struct prs_fabric_ops prs_sim_ops = {
    .name = "sim",
    .open = open_without_net,
    .close = close_fabric,
    .endpoint_open = prs_sim_endpoint_open,
    .endpoint_close = prs_sim_endpoint_close,
    .endpoint_address = prs_sim_endpoint_address,
    .connect = prs_sim_connect,
    .region_register = region_register,
    .region_close = region_close,
    .region_export = region_export,
    .remote_import = prs_sim_import,
    .remote_close = prs_sim_remote_close,
    .post = prs_sim_post,
    .flush = prs_sim_flush,
    .poll = prs_sim_poll,
};
