/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/verbs/internal.h"
#include "fabric/verbs/verbs.h"

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void fill_atomics(const struct prs_verbs_fabric *fabric, struct prs_caps *caps)
{
    enum ibv_atomic_cap granted = fabric->device.attr.atomic_cap;
    if (!fabric->settings.atomics || granted == IBV_ATOMIC_NONE) {
        return;
    }
    caps->atomics = 1u << PERSEUS_ATOMIC_ADD | 1u << PERSEUS_ATOMIC_COMPARE_SWAP;
    caps->atomics_fetch = caps->atomics;
    /* IBV_ATOMIC_HCA: among those of this device only. */
    caps->atomics_cpu_coherent = granted == IBV_ATOMIC_GLOB;
}

static void fill_caps(const struct prs_verbs_fabric *fabric, struct prs_caps *caps)
{
    const struct prs_verbs_device *device = &fabric->device;
    *caps = (struct prs_caps){
        .order = PRS_ORDER_EVERY_PAIR,
        .fence_scope = PRS_FENCE_LANE,
        .completion = PRS_COMPLETION_DELIVERED,
        .completion_per_operation = true,
        .immediate_bits = 32,
        .inline_bytes = PRS_VERBS_INLINE_BYTES,
        .message_bytes_max = smaller(device->message_bytes_max, INT32_MAX),
        .inflight_max = smaller(PRS_VERBS_INFLIGHT, (uint32_t)device->attr.max_cqe),
        .batching = true,
        .memory_kinds = prs_verbs_registrations_kinds(&fabric->registrations),
        .wakes = true,
        .bytes_are_silent = true,
        .source_needs_region = true,
        .lanes_max = fabric->settings.lanes,
        .lanes_useful = fabric->settings.lanes,
        .numa_node = device->numa_node,
    };
    fill_atomics(fabric, caps);
    snprintf(caps->provider, sizeof caps->provider, "verbs;%s",
             device->is_ethernet ? "roce" : "infiniband");
    snprintf(caps->order_word, sizeof caps->order_word,
             "queue pairs, %u a peer, on %.40s:%u gid %u", caps->lanes_max, device->name,
             device->port, device->gid_index);
    snprintf(caps->fence_word, sizeof caps->fence_word,
             "IBV_SEND_FENCE covers earlier reads and atomics only; queue pairs order writes");
    snprintf(caps->completion_word, sizeof caps->completion_word, "reliable connection");
    snprintf(caps->immediate_word, sizeof caps->immediate_word, "write with immediate");
    snprintf(caps->wake_word, sizeof caps->wake_word, "completion channel: events, no plain bytes");
}

static void fabric_close(struct prs_fabric *base)
{
    if (base == NULL) {
        return;
    }
    struct prs_verbs_fabric *fabric = prs_verbs_fabric_of(base);
    if (fabric->pd != NULL) {
        prs_verbs_registrations_finish(&fabric->registrations);
        fabric->library->dealloc_pd(fabric->pd);
    }
    if (fabric->device.context != NULL) {
        fabric->library->close_device(fabric->device.context);
    }
    free(fabric);
}

enum perseus_status prs_verbs_open_with(const struct prs_fabric_config *config,
                                        const struct prs_verbs_library *library,
                                        struct prs_fabric **out)
{
    struct prs_verbs_fabric *fabric = calloc(1, sizeof *fabric);
    if (fabric == NULL) {
        return prs_fail(config->log, PERSEUS_OUT_OF_MEMORY, "no memory for a fabric");
    }
    fabric->base.ops = &prs_verbs_ops;
    fabric->log = config->log;
    fabric->loss_level = config->loss_level;
    fabric->clock = config->clock.now_ns != NULL ? config->clock : prs_clock_monotonic();
    fabric->library = library;
    enum perseus_status status = prs_verbs_settings_read(config->log, &fabric->settings);
    if (status == PERSEUS_OK) {
        status = prs_verbs_device_open(library, &fabric->settings, config->ordinal, config->log,
                                       &fabric->device);
    }
    if (status == PERSEUS_OK) {
        fabric->pd = library->alloc_pd(fabric->device.context);
        status = fabric->pd != NULL
                     ? PERSEUS_OK
                     : prs_fail(config->log, PERSEUS_IO, "%s gives no protection domain: %s",
                                fabric->device.name, strerror(errno));
    }
    if (status != PERSEUS_OK) {
        fabric_close(&fabric->base);
        return status;
    }
    prs_verbs_registrations_init(&fabric->registrations, library, fabric->log, fabric->device.name,
                                 fabric->pd);
    fill_caps(fabric, &fabric->base.caps);
    *out = &fabric->base;
    return PERSEUS_OK;
}

static enum perseus_status fabric_open(const struct prs_fabric_config *config,
                                       struct prs_fabric **out)
{
    const struct prs_verbs_library *library = prs_verbs_library();
    if (library == NULL) {
        return prs_fail(config->log, PERSEUS_NOT_FOUND,
                        "libibverbs cannot be loaded (%s): install libibverbs1 and "
                        "ibverbs-providers",
                        prs_verbs_library_error());
    }
    return prs_verbs_open_with(config, library, out);
}

const struct prs_fabric_ops prs_verbs_ops = {
    .name = "verbs",
    .open = fabric_open,
    .close = fabric_close,
    .endpoint_open = prs_verbs_endpoint_open,
    .endpoint_close = prs_verbs_endpoint_close,
    .endpoint_address = prs_verbs_endpoint_address,
    .connect = prs_verbs_connect,
    .region_register = prs_verbs_region_register,
    .region_close = prs_verbs_region_close,
    .region_export = prs_verbs_region_export,
    .remote_import = prs_verbs_import,
    .remote_close = prs_verbs_remote_close,
    .post = prs_verbs_post,
    .flush = prs_verbs_flush,
    .poll = prs_verbs_poll,
    .wait_fd = prs_verbs_wait_fd,
    .arm = prs_verbs_arm,
};
