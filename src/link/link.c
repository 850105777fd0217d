/* SPDX-License-Identifier: Apache-2.0 */
#include "link/link.h"

#include "fabric/registry.h"
#include "fabric/staged/staged.h"

/* Whether the fabric takes the heap's memory as it is. It may refuse, or open without. */
static bool reaches(const struct prs_fabric_ops *ops, const struct prs_fabric_config *config,
                    enum prs_memory_kind memory)
{
    static const struct prs_log no_log;
    struct prs_fabric_config quiet = *config;
    struct prs_fabric *fabric = NULL;
    quiet.log = &no_log;
    if (ops->open(&quiet, &fabric) != PERSEUS_OK) {
        return false;
    }
    bool does = fabric->caps.memory_kinds & (uint32_t)memory;
    ops->close(fabric);
    return does;
}

/* The fabric, and staging around it where the heap is memory that it does not reach. */
static enum perseus_status open_fabric(struct prs_link *link,
                                       const struct prs_link_settings *settings,
                                       struct prs_fabric_config *config)
{
    const struct prs_fabric_ops *ops = NULL;
    enum perseus_status status = prs_fabric_find(settings->fabric, link->log, &ops);
    if (status != PERSEUS_OK) {
        return status;
    }
    bool is_staged = settings->memory != PRS_MEMORY_HOST && !reaches(ops, config, settings->memory);
    if (is_staged) {
        config->memory_kinds = PRS_MEMORY_HOST;
    }
    status = ops->open(config, &link->fabric);
    if (status != PERSEUS_OK || !is_staged) {
        return status;
    }
    const struct prs_staged_config stage = {.gpu = settings->gpu,
                                            .ring_bytes = settings->stage_bytes,
                                            .log = link->log,
                                            .clock = config->clock};
    struct prs_fabric *inside = link->fabric;
    link->fabric = NULL;
    status = prs_staged_wrap(inside, &stage, &link->fabric);
    link->staged = link->fabric;
    return status;
}

enum perseus_status prs_link_open(struct prs_link *link, const struct prs_link_settings *settings,
                                  enum perseus_log_level loss_level, const struct prs_log *log)
{
    *link = (struct prs_link){.log = log};
    struct prs_fabric_config config = {
        .provider = settings->provider,
        .bind = settings->bind,
        .memory_kinds = PRS_MEMORY_HOST | (uint32_t)settings->memory,
        .gpu = settings->gpu,
        .ordinal = settings->ordinal,
        .want_atomics = settings->native_atomics,
        .loss_level = loss_level,
        .log = log,
        .clock = prs_clock_monotonic(),
    };
    enum perseus_status status = open_fabric(link, settings, &config);
    if (status == PERSEUS_OK && settings->is_faulty) {
        struct prs_fabric *inside = link->fabric;
        link->fabric = NULL;
        status =
            prs_faulty_wrap(inside, &settings->faulty, log, prs_clock_monotonic(), &link->fabric);
    }
    return status;
}

enum perseus_status prs_link_resolve(struct prs_link *link,
                                     const struct prs_link_settings *settings)
{
    return prs_ordering_resolve(settings->ordering, &link->fabric->caps, link->log, &link->ordering,
                                link->why, sizeof link->why);
}

enum perseus_status prs_link_start(struct prs_link *link, const struct prs_link_settings *settings,
                                   const struct prs_link_end *end)
{
    struct prs_endpoint *endpoint = NULL;
    if (settings->is_faulty) {
        prs_faulty_advance(link->fabric, end->stream);
    }
    if (link->staged != NULL) {
        prs_staged_place(link->staged, end->self, end->n_peers);
    }
    enum perseus_status status = link->fabric->ops->endpoint_open(link->fabric, &endpoint);
    if (status != PERSEUS_OK) {
        return status;
    }
    const struct prs_orderer_config config = {
        .endpoint = endpoint,
        .ordering = link->ordering,
        .self = end->self,
        .n_peers = end->n_peers,
        .parked_max = settings->parked_max,
        .secret = end->secret,
        .timeout_ns = settings->peer_timeout_ns,
        .immediate_signal = settings->immediate_signal,
        .native_atomics = settings->native_atomics,
        .torn_signals = !settings->whole_signals,
        .complete = end->complete,
        .apply = end->apply,
        .context = end->context,
        .log = link->log,
        .clock = prs_clock_monotonic(),
    };
    status = prs_orderer_create(&config, &link->orderer);
    if (status != PERSEUS_OK) {
        link->fabric->ops->endpoint_close(endpoint);
    }
    return status;
}

void prs_link_stop(struct prs_link *link)
{
    prs_orderer_destroy(link->orderer);
    link->orderer = NULL;
}

void prs_link_close(struct prs_link *link)
{
    if (link->fabric != NULL) {
        link->fabric->ops->close(link->fabric);
        link->fabric = NULL;
    }
}
