/* SPDX-License-Identifier: Apache-2.0 */
#include "link/link.h"

#include "fabric/registry.h"

enum perseus_status prs_link_open(struct prs_link *link, const struct prs_link_settings *settings,
                                  enum perseus_log_level loss_level, const struct prs_log *log)
{
    *link = (struct prs_link){.log = log};
    const struct prs_fabric_ops *ops = NULL;
    enum perseus_status status = prs_fabric_find(settings->fabric, log, &ops);
    if (status != PERSEUS_OK) {
        return status;
    }
    const struct prs_fabric_config config = {
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
    struct prs_fabric *fabric = NULL;
    status = ops->open(&config, &fabric);
    if (status == PERSEUS_OK && (fabric->caps.memory_kinds & (uint32_t)settings->memory) == 0) {
        ops->close(fabric);
        return prs_fail(log, PERSEUS_NOT_SUPPORTED,
                        "the fabric %s does not reach a GPU's memory; choose %s for a heap there",
                        ops->name, prs_fabric_default(settings->memory));
    }
    if (status == PERSEUS_OK && settings->is_faulty) {
        status = prs_faulty_wrap(fabric, &settings->faulty, log, prs_clock_monotonic(), &fabric);
    }
    if (status == PERSEUS_OK) {
        link->fabric = fabric;
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
