/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/exchange.h"

#include <stdlib.h>

#include "sim/cluster.h"

struct exchange;

struct exchange_pe {
    struct exchange *exchange;
    struct sim_pe *pe;
    uint32_t self, ticket;
    bool is_done;
};

struct exchange {
    const struct sim_exchange_config *config;
    struct sim_cluster cluster;
    struct exchange_pe *pes;
    uint32_t n_pes, n_senders, done;
    uint64_t quiet_ns, arrived_ns, checksum;
    enum perseus_status status;
};

static void *context_of(void *context, uint32_t pe)
{
    return &((struct exchange *)context)->pes[pe];
}

static void written(void *context, uint64_t offset, uint64_t bytes)
{
    struct exchange_pe *pe = context;
    struct exchange *exchange = pe->exchange;
    exchange->arrived_ns = prs_timeline_now_ns(exchange->cluster.timeline);
    uint64_t mixed = exchange->checksum ^ offset << 32 ^ bytes ^ exchange->arrived_ns;
    exchange->checksum = mixed * 0x9e3779b97f4a7c15u ^ mixed >> 31;
}

static void completed(void *context)
{
    struct exchange_pe *pe = context;
    struct exchange *exchange = pe->exchange;
    enum perseus_status status;
    if (!pe->is_done && sim_pe_poll_ticket(pe->pe, pe->ticket, &status)) {
        pe->is_done = true;
        exchange->done++;
        uint64_t at_ns = sim_pe_cpu_ns(pe->pe) + (uint64_t)sim_pe_sweep_ns(pe->pe);
        exchange->quiet_ns = at_ns > exchange->quiet_ns ? at_ns : exchange->quiet_ns;
        exchange->status = exchange->status == PERSEUS_OK ? status : exchange->status;
    }
}

/* ---- what a PE sends ---- */

/* The n-th PE that is not of this node, the next one first. */
static uint32_t target_of(const struct exchange_pe *pe, uint32_t n)
{
    const struct exchange *exchange = pe->exchange;
    uint32_t node_pes = exchange->config->platform->pes_per_node;
    uint32_t node = pe->self / node_pes;
    return ((node + 1) * node_pes + (pe->self + n) % (exchange->n_pes - node_pes)) %
           exchange->n_pes;
}

static uint64_t payload_at(const struct exchange *exchange)
{
    return (uint64_t)exchange->n_pes * exchange->config->transfers * 8;
}

static uint64_t signal_of(const struct exchange_pe *pe, uint32_t transfer)
{
    return ((uint64_t)pe->self * pe->exchange->config->transfers + transfer) * 8;
}

static void submit(struct exchange_pe *pe, const struct prs_desc *desc)
{
    enum perseus_status status = sim_pe_submit(pe->pe, desc, 1);
    if (pe->exchange->status == PERSEUS_OK) {
        pe->exchange->status = status;
    }
}

static void submit_signal(struct exchange_pe *pe, uint32_t target, uint32_t transfer)
{
    const struct prs_desc desc = {.kind = PRS_DESC_SIGNAL,
                                  .sub = PERSEUS_SIGNAL_SET,
                                  .peer = target_of(pe, target),
                                  .ticket = PRS_DESC_NO_TICKET,
                                  .remote = signal_of(pe, transfer),
                                  .value = 1};
    submit(pe, &desc);
}

static void send_transfers(struct exchange_pe *pe)
{
    const struct sim_exchange_config *config = pe->exchange->config;
    uint32_t n_remote = pe->exchange->n_pes - config->platform->pes_per_node;
    bool is_coupled = config->kind == SIM_EXCHANGE_COUPLED;
    for (uint32_t i = 0; i < config->transfers; i++) {
        const struct prs_desc desc = {.kind = is_coupled ? PRS_DESC_PUT_SIGNAL : PRS_DESC_PUT,
                                      .sub = PERSEUS_SIGNAL_SET,
                                      .peer = target_of(pe, i % n_remote),
                                      .ticket = PRS_DESC_NO_TICKET,
                                      .local = payload_at(pe->exchange),
                                      .remote = payload_at(pe->exchange),
                                      .bytes = config->bytes,
                                      .signal = is_coupled ? signal_of(pe, i) : 0,
                                      .value = 1};
        submit(pe, &desc);
    }
}

static void send_signals(struct exchange_pe *pe)
{
    const struct sim_exchange_config *config = pe->exchange->config;
    uint32_t n_remote = pe->exchange->n_pes - config->platform->pes_per_node;
    for (uint32_t n = 0; n < n_remote && n < config->transfers; n++) {
        const struct prs_desc fence = {
            .kind = PRS_DESC_FENCE, .peer = target_of(pe, n), .ticket = PRS_DESC_NO_TICKET};
        submit(pe, &fence);
        for (uint32_t i = n; i < config->transfers; i += n_remote) {
            submit_signal(pe, n, i);
        }
    }
}

static void send_alltoall(struct exchange_pe *pe)
{
    const struct exchange *exchange = pe->exchange;
    uint32_t n_remote = exchange->n_pes - exchange->config->platform->pes_per_node;
    uint64_t at = payload_at(exchange);
    for (uint32_t put = 0; put < 2; put++) { /* the rows, and how many of each expert */
        for (uint32_t n = 0; n < n_remote; n++) {
            const struct prs_desc desc = {.kind = PRS_DESC_PUT,
                                          .peer = target_of(pe, n),
                                          .ticket = PRS_DESC_NO_TICKET,
                                          .local = at,
                                          .remote = at,
                                          .bytes = put == 0 ? exchange->config->bytes : 64};
            submit(pe, &desc);
        }
    }
    const struct prs_desc fence = {
        .kind = PRS_DESC_FENCE, .peer = PRS_DESC_ALL_PEERS, .ticket = PRS_DESC_NO_TICKET};
    for (uint32_t i = 0; i < exchange->n_pes * exchange->config->transfers; i++) {
        submit(pe, &fence);
    }
    for (uint32_t n = 0; n < n_remote; n++) {
        submit_signal(pe, n, 0);
    }
}

static void start_pe(struct exchange *exchange, uint32_t index)
{
    struct exchange_pe *pe = &exchange->pes[index];
    enum sim_exchange_kind kind = exchange->config->kind;
    pe->pe = exchange->cluster.pes[index];
    if (kind == SIM_EXCHANGE_ALLTOALL) {
        send_alltoall(pe);
    } else {
        send_transfers(pe);
    }
    if (kind == SIM_EXCHANGE_DECOUPLED) {
        send_signals(pe);
    }
    if (exchange->status == PERSEUS_OK) {
        exchange->status = sim_pe_ticket(pe->pe, &pe->ticket);
    }
    const struct prs_desc quiet = {
        .kind = PRS_DESC_QUIET, .peer = PRS_DESC_ALL_PEERS, .ticket = pe->ticket};
    submit(pe, &quiet);
}

/* ---- the run ---- */

static enum perseus_status build(struct exchange *exchange)
{
    const struct sim_exchange_config *config = exchange->config;
    exchange->pes = calloc(exchange->n_pes, sizeof *exchange->pes);
    if (exchange->pes == NULL) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    for (uint32_t i = 0; i < exchange->n_pes; i++) {
        exchange->pes[i] = (struct exchange_pe){.exchange = exchange, .self = i};
    }
    struct sim_cluster_config cluster = {.platform = config->platform,
                                         .n_pes = exchange->n_pes,
                                         .job_pes = exchange->n_pes,
                                         .seed = config->seed,
                                         .ordering = config->ordering,
                                         .stock = config->stock,
                                         .words_bytes = payload_at(exchange),
                                         .heap_bytes = payload_at(exchange) + config->bytes,
                                         .ring_slots = 4096,
                                         .written = written,
                                         .completed = completed,
                                         .context_of = context_of,
                                         .context = exchange,
                                         .meet = true,
                                         .log = config->log};
    return sim_cluster_create(&cluster, &exchange->cluster);
}

static void report(const struct exchange *exchange, struct sim_exchange_result *out)
{
    struct perseus_stats stats;
    sim_cluster_stats(&exchange->cluster, &stats);
    double each = 1.0 / exchange->n_senders;
    *out =
        (struct sim_exchange_result){.quiet_ms = (double)exchange->quiet_ns * 1e-6,
                                     .arrived_ms = (double)exchange->arrived_ns * 1e-6,
                                     .fence_ms = (double)stats.drain_ns * each * 1e-6,
                                     .signal_ms = (double)stats.signal_messages * each *
                                                  exchange->config->platform->fabric.post_ns * 1e-6,
                                     .operations = prs_sim_net_posted(exchange->cluster.net),
                                     .events = prs_timeline_count(exchange->cluster.timeline),
                                     .checksum = exchange->checksum};
}

enum perseus_status sim_exchange_run(const struct sim_exchange_config *config,
                                     struct sim_exchange_result *out)
{
    uint32_t n_pes = config->nodes * config->platform->pes_per_node;
    if (config->nodes < 2 || config->transfers == 0 || config->bytes == 0 ||
        config->senders > n_pes) {
        return prs_fail(config->log, PERSEUS_INVALID_ARGUMENT,
                        "an exchange needs two nodes, a transfer, a byte, and no more senders than "
                        "PEs");
    }
    struct exchange exchange = {.config = config,
                                .n_pes = n_pes,
                                .n_senders = config->senders > 0 ? config->senders : n_pes};
    enum perseus_status status = build(&exchange);
    if (status == PERSEUS_OK) {
        for (uint32_t i = 0; i < exchange.n_senders; i++) {
            start_pe(&exchange, i);
        }
        while (exchange.status == PERSEUS_OK && prs_timeline_step(exchange.cluster.timeline)) {
        }
        status = exchange.status;
        if (status == PERSEUS_OK && exchange.done < exchange.n_senders) {
            status = prs_fail(config->log, PERSEUS_TIMEOUT,
                              "%u of %u PEs are not quiet, and nothing more happens",
                              exchange.n_senders - exchange.done, exchange.n_senders);
        }
    }
    if (status == PERSEUS_OK) {
        report(&exchange, out);
    }
    if (exchange.cluster.timeline != NULL) {
        sim_cluster_destroy(&exchange.cluster);
    }
    free(exchange.pes);
    return status;
}
