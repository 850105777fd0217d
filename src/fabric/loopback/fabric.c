/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fabric/loopback/loopback.h"

_Static_assert(sizeof(struct prs_loopback_endpoint) <= PRS_LOOPBACK_ENDPOINT_MAX,
               "an endpoint is small");

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

static const struct prs_inprocess_kind loopback_kind = {.ops = &prs_loopback_ops,
                                                        .magic = 0x70726c62u, /* "prlb" */
                                                        .peer_bytes =
                                                            sizeof(struct prs_loopback_peer)};

/* ---- fabrics ---- */

static void loopback_close(struct prs_fabric *fabric)
{
    if (fabric != NULL) {
        prs_inprocess_close((struct prs_inprocess_fabric *)fabric);
        free(fabric);
    }
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
    struct prs_inprocess_fabric *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return prs_fail(config->log, PERSEUS_OUT_OF_MEMORY, "no memory for a loopback fabric");
    }
    self->base.caps = loopback_caps(config);
    enum perseus_status status = prs_inprocess_open(self, &loopback_kind, config->log);
    if (status != PERSEUS_OK) {
        free(self);
        return status;
    }
    *out = &self->base;
    return PERSEUS_OK;
}

/* ---- regions ---- */

static enum perseus_status loopback_region_register(struct prs_fabric *fabric, void *base,
                                                    size_t bytes, enum prs_memory_kind kind,
                                                    struct prs_region **out)
{
    struct prs_inprocess_fabric *self = (struct prs_inprocess_fabric *)fabric;
    if (kind != PRS_MEMORY_HOST) {
        return prs_fail(self->log, PERSEUS_NOT_SUPPORTED,
                        "the loopback fabric moves host memory only");
    }
    if (base == NULL || bytes == 0) {
        return prs_fail(self->log, PERSEUS_INVALID_ARGUMENT,
                        "a region needs memory: %zu bytes at %p", bytes, base);
    }
    struct prs_inprocess_region *region = calloc(1, sizeof *region);
    if (region != NULL) {
        region->base =
            (struct prs_region){.fabric = fabric, .base = base, .bytes = bytes, .kind = kind};
    }
    if (region == NULL || prs_inprocess_region_add(region) != PERSEUS_OK) {
        free(region);
        return prs_fail(self->log, PERSEUS_OUT_OF_MEMORY, "no memory for one more region");
    }
    *out = &region->base;
    return PERSEUS_OK;
}

static void loopback_region_close(struct prs_region *region)
{
    if (region != NULL) {
        prs_inprocess_region_remove((struct prs_inprocess_region *)region);
        free(region);
    }
}

/* ---- endpoints ---- */

static enum perseus_status loopback_endpoint_open(struct prs_fabric *fabric,
                                                  struct prs_endpoint **out)
{
    struct prs_inprocess_fabric *owner = (struct prs_inprocess_fabric *)fabric;
    struct prs_loopback_endpoint *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return prs_fail(owner->log, PERSEUS_OUT_OF_MEMORY, "no memory for a loopback endpoint");
    }
    self->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->bell < 0) {
        free(self);
        return prs_fail(owner->log, PERSEUS_LIMIT,
                        "no file descriptor for a loopback endpoint: %s; allow more (ulimit -n)",
                        strerror(errno));
    }
    prs_inprocess_endpoint_open(&self->common, owner);
    for (uint32_t i = PRS_LOOPBACK_INFLIGHT; i-- > 0;) {
        self->pool[i].next = self->free;
        self->free = &self->pool[i];
    }
    *out = &self->common.base;
    return PERSEUS_OK;
}

/* What is still queued is not executed: it counts as canceled. */
static void loopback_endpoint_close(struct prs_endpoint *endpoint)
{
    if (endpoint != NULL) {
        struct prs_loopback_endpoint *self = (struct prs_loopback_endpoint *)endpoint;
        prs_inprocess_endpoint_close(&self->common);
        close(self->bell);
        free(self);
    }
}

const struct prs_fabric_ops prs_loopback_ops = {
    .name = "loopback",
    .open = loopback_open,
    .close = loopback_close,
    .endpoint_open = loopback_endpoint_open,
    .endpoint_close = loopback_endpoint_close,
    .endpoint_address = prs_inprocess_address,
    .connect = prs_inprocess_connect,
    .region_register = loopback_region_register,
    .region_close = loopback_region_close,
    .region_export = prs_inprocess_region_export,
    .remote_import = prs_inprocess_import,
    .remote_close = prs_inprocess_remote_close,
    .post = prs_loopback_post,
    .flush = prs_loopback_flush,
    .poll = prs_loopback_poll,
    .wait_fd = prs_loopback_wait_fd,
    .arm = prs_loopback_arm,
};
