/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "fabric/loopback/loopback.h"

#define PRS_MESSAGE_BYTES_MAX (1ull << 30)
#define PRS_ATOMICS_ALL       ((2u << PERSEUS_ATOMIC_COMPARE_SWAP) - 1)

static void word_of_order(uint32_t order, char *word, size_t bytes)
{
    snprintf(word, bytes, "lane queue, granted:%s%s%s%s%s",
             order & PRS_ORDER_PUT_PUT ? " put-put" : "",
             order & PRS_ORDER_PUT_SET ? " put-set" : "",
             order & PRS_ORDER_PUT_ATOMIC ? " put-atomic" : "",
             order & PRS_ORDER_SET_SET ? " set-set" : "", order == 0 ? " none" : "");
}

/* All that a loopback can do, less what the configuration does not want granted. */
static struct prs_caps loopback_caps(const struct prs_fabric_config *config)
{
    uint64_t without = config->ungranted_mask;
    uint32_t atomics = without & PRS_UNGRANT_ATOMICS ? 0 : PRS_ATOMICS_ALL;
    uint32_t bits = without & PRS_UNGRANT_IMMEDIATE        ? 0
                    : without & PRS_UNGRANT_WIDE_IMMEDIATE ? 32
                                                           : 64;
    bool has_fence = (without & PRS_UNGRANT_FENCE) == 0;
    bool delivers = (without & PRS_UNGRANT_DELIVERED) == 0;
    struct prs_caps caps = {
        .order = PRS_ORDER_EVERY_PAIR & ~(uint32_t)config->unordered_mask,
        .fence_scope = has_fence ? PRS_FENCE_LANE : PRS_FENCE_NONE,
        .completion = delivers ? PRS_COMPLETION_DELIVERED : PRS_COMPLETION_TRANSMITTED,
        .completion_per_operation = true,
        .completes_early = delivers, /* the decorator does it; here all complete when delivered */
        .signals_tear = without & PRS_UNGRANT_WHOLE_SIGNALS,
        .immediate_bits = bits,
        .atomics = atomics,
        .atomics_fetch = atomics,
        .atomics_cpu_coherent = atomics != 0 && (without & PRS_UNGRANT_COHERENT) == 0,
        .inline_bytes = PRS_LOOPBACK_INLINE_BYTES,
        .message_bytes_max = PRS_MESSAGE_BYTES_MAX,
        .inflight_max = PRS_LOOPBACK_INFLIGHT,
        .batching = true,
        .memory_kinds = PRS_MEMORY_HOST,
        .wakes = true,
        .source_needs_region = true,
        .lanes_max = PRS_LOOPBACK_LANES,
        .numa_node = -1,
        .provider = "loopback",
    };
    word_of_order(caps.order, caps.order_word, sizeof caps.order_word);
    snprintf(caps.fence_word, sizeof caps.fence_word, "%s", has_fence ? "lane queue" : "none");
    snprintf(caps.completion_word, sizeof caps.completion_word, "%s",
             delivers ? "delivered" : "transmitted");
    snprintf(caps.wake_word, sizeof caps.wake_word, "whoever moves data here");
    snprintf(caps.immediate_word, sizeof caps.immediate_word, "%u bits", bits);
    return caps;
}

static void loopback_close(struct prs_fabric *fabric)
{
    if (fabric == NULL) {
        return;
    }
    struct prs_loopback_fabric *self = (struct prs_loopback_fabric *)fabric;
    prs_door_destroy(self->door); /* first: nobody may take a new reference to the port */
    prs_port_unref(self->port);
    free(self);
}

static enum perseus_status loopback_open(const struct prs_fabric_config *config,
                                         struct prs_fabric **out)
{
    const char *provider = config->provider;
    if (provider != NULL && *provider != '\0' && strcmp(provider, "loopback") != 0) {
        return prs_fail(config->log, PERSEUS_NOT_FOUND,
                        "fabric loopback has no provider \"%s\"; leave the provider empty, or "
                        "choose fabric libfabric",
                        provider);
    }
    uint64_t id;
    if (getrandom(&id, sizeof id, 0) != sizeof id) {
        return prs_fail(config->log, PERSEUS_IO, "no random numbers from the kernel: %s",
                        strerror(errno));
    }
    struct prs_loopback_fabric *self = calloc(1, sizeof *self);
    if (self == NULL || prs_port_create(id, &self->port) != PERSEUS_OK) {
        free(self);
        return prs_fail(config->log, PERSEUS_OUT_OF_MEMORY, "no memory for a loopback fabric");
    }
    self->base.ops = &prs_loopback_ops;
    self->base.caps = loopback_caps(config);
    self->log = config->log;
    enum perseus_status status = prs_door_create(self->port, self->log, &self->door);
    if (status != PERSEUS_OK) {
        loopback_close(&self->base);
        return status;
    }
    *out = &self->base;
    return PERSEUS_OK;
}

static enum perseus_status loopback_region_register(struct prs_fabric *fabric, void *base,
                                                    size_t bytes, enum prs_memory_kind kind,
                                                    struct prs_region **out)
{
    struct prs_loopback_fabric *self = (struct prs_loopback_fabric *)fabric;
    if (kind != PRS_MEMORY_HOST) {
        return prs_fail(self->log, PERSEUS_NOT_SUPPORTED,
                        "the loopback fabric moves host memory only");
    }
    if (base == NULL || bytes == 0) {
        return prs_fail(self->log, PERSEUS_INVALID_ARGUMENT,
                        "a region needs memory: %zu bytes at %p", bytes, base);
    }
    struct prs_loopback_region *region = calloc(1, sizeof *region);
    if (region == NULL || prs_port_add(self->port, base, bytes, &region->slot) != PERSEUS_OK) {
        free(region);
        return prs_fail(self->log, PERSEUS_OUT_OF_MEMORY, "no memory for one more region");
    }
    region->base =
        (struct prs_region){.fabric = fabric, .base = base, .bytes = bytes, .kind = kind};
    region->port = self->port;
    *out = &region->base;
    return PERSEUS_OK;
}

static void loopback_region_close(struct prs_region *region)
{
    if (region == NULL) {
        return;
    }
    struct prs_loopback_region *self = (struct prs_loopback_region *)region;
    prs_port_remove(self->port, self->slot);
    free(self);
}

static enum perseus_status loopback_region_export(struct prs_region *region, void *blob,
                                                  size_t *bytes)
{
    struct prs_loopback_region *self = (struct prs_loopback_region *)region;
    struct prs_loopback_blob content = {
        .magic = PRS_LOOPBACK_BLOB_MAGIC, .slot = self->slot, .port = prs_port_id(self->port)};
    if (*bytes < sizeof content) {
        struct prs_loopback_fabric *fabric = (struct prs_loopback_fabric *)region->fabric;
        return prs_fail(fabric->log, PERSEUS_INVALID_ARGUMENT,
                        "a region blob needs %zu bytes, not %zu", sizeof content, *bytes);
    }
    memcpy(blob, &content, sizeof content);
    *bytes = sizeof content;
    return PERSEUS_OK;
}

const struct prs_fabric_ops prs_loopback_ops = {
    .name = "loopback",
    .open = loopback_open,
    .close = loopback_close,
    .endpoint_open = prs_loopback_endpoint_open,
    .endpoint_close = prs_loopback_endpoint_close,
    .endpoint_address = prs_loopback_endpoint_address,
    .connect = prs_loopback_connect,
    .region_register = loopback_region_register,
    .region_close = loopback_region_close,
    .region_export = loopback_region_export,
    .remote_import = prs_loopback_import,
    .remote_close = prs_loopback_remote_close,
    .post = prs_loopback_post,
    .flush = prs_loopback_flush,
    .poll = prs_loopback_poll,
    .wait_fd = prs_loopback_wait_fd,
    .arm = prs_loopback_arm,
};
