/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/moe.h"

#include <math.h>
#include <stdlib.h>

#include "model/routing.h"
#include "moe/rows.h"
#include "sim/moe_run.h"

#define PLACES 4 /* on the timeline, of one PE: dispatch, leader, link, GPU */

/* ---- shared by the actors ---- */

void sim_run_check(struct sim_run *run, enum perseus_status status)
{
    if (run->status == PERSEUS_OK) {
        run->status = status;
    }
}

void sim_run_note(struct sim_run *run, uint64_t what)
{
    uint64_t mixed = (run->checksum ^ what ^ sim_run_now(run) << 20) * 0x9e3779b97f4a7c15u;
    run->checksum = mixed ^ mixed >> 29;
}

void *sim_fifo_add(struct sim_run *run, struct sim_fifo *fifo)
{
    if (fifo->first + fifo->count == fifo->room && fifo->first > fifo->count) {
        for (size_t i = 0; i < fifo->count * fifo->item_bytes; i++) {
            fifo->items[i] = fifo->items[fifo->first * fifo->item_bytes + i];
        }
        fifo->first = 0;
    }
    if (fifo->first + fifo->count == fifo->room) {
        uint32_t room = fifo->room == 0 ? 16 : 2 * fifo->room;
        unsigned char *items = realloc(fifo->items, room * fifo->item_bytes);
        if (items == NULL) {
            sim_run_check(run, PERSEUS_OUT_OF_MEMORY);
            return NULL;
        }
        fifo->items = items;
        fifo->room = room;
    }
    return fifo->items + (fifo->first + fifo->count++) * fifo->item_bytes;
}

void *sim_fifo_first(struct sim_fifo *fifo)
{
    return fifo->count == 0 ? NULL : fifo->items + fifo->first * fifo->item_bytes;
}

void sim_fifo_drop(struct sim_fifo *fifo)
{
    fifo->count--;
    fifo->first = fifo->count == 0 ? 0 : fifo->first + 1;
}

/* ---- building ---- */

static enum perseus_status make_plan(struct sim_run *run)
{
    const struct sim_moe_config *config = run->config;
    struct perseus_moe_config layer = {
        .hidden = config->hidden,
        .intermediate = config->intermediate,
        .experts = config->experts,
        .top_k = config->top_k,
        .weight_dtype = PERSEUS_MOE_BF16,
        .wire_dtype = PERSEUS_MOE_BF16,
        .tokens_max = config->tokens,
        .tile_tokens = (uint32_t)config->platform->gpu.tile_rows,
        .capacity_factor = config->skew > 0 ? 0 : 1,
        .protocol = config->protocol == SIM_DECOUPLED ? PERSEUS_MOE_DECOUPLED : PERSEUS_MOE_COUPLED,
    };
    enum perseus_status status =
        prs_moe_plan_make(&layer, (int)run->job_pes, config->log, &run->plan);
    if (status != PERSEUS_OK) {
        return status;
    }
    const struct prs_moe_plan *plan = &run->plan;
    const struct sim_gpu *gpu = &config->platform->gpu;
    double flops = gpu->tile_rows * 6.0 * config->hidden * config->intermediate;
    double weights = (double)prs_moe_expert_bytes(&plan->config);
    run->block_ns =
        fmax(flops / (gpu->tflop_s * 1e3), weights / gpu->memory_gbyte_s) + gpu->tile_ns;
    run->answers_at = plan->answer_words[0] - plan->dispatch_words[0];
    run->payload_at = run->answers_at + (uint64_t)plan->tiles_per_expert * config->experts * 8;
    return PERSEUS_OK;
}

/* Sorted rows of one PE: where each expert's begin. */
static enum perseus_status route(const struct sim_run *run, uint32_t pe, struct prs_rows *out)
{
    const struct sim_moe_config *config = run->config;
    struct prs_routing routing = {0};
    struct prs_routing_spec spec = {.kind =
                                        config->skew > 0 ? PRS_ROUTING_ZIPF : PRS_ROUTING_BALANCED,
                                    .exponent = config->skew};
    /* Which experts are popular is the layer's, which tokens want them the PE's: one seed ranks
     * them for all, as every PE draws with the same. */
    enum perseus_status status =
        prs_routing_init(&routing, &spec, config->tokens, config->experts, config->top_k,
                         config->skew > 0 ? config->seed : config->seed + pe, config->log);
    if (status == PERSEUS_OK) {
        status = prs_rows_init(out, &run->plan, config->log);
    }
    if (status == PERSEUS_OK) {
        prs_rows_fill(out, &run->plan, config->tokens, routing.ids);
    }
    prs_routing_finish(&routing);
    return status;
}

static void *context_of(void *context, uint32_t pe)
{
    return &((struct sim_run *)context)->pes[pe];
}

static enum perseus_status build_cluster(struct sim_run *run)
{
    const struct sim_moe_config *config = run->config;
    struct sim_cluster_config cluster = {.platform = config->platform,
                                         .n_pes = run->n_pes,
                                         .job_pes = run->job_pes,
                                         .seed = config->seed,
                                         .ordering = config->ordering,
                                         .stock = config->stock,
                                         .words_bytes = run->payload_at,
                                         .heap_bytes = run->payload_at + run->plan.symmetric_bytes,
                                         .ring_slots = SIM_RING_SLOTS,
                                         .channels = config->channels,
                                         .written = sim_compute_written,
                                         .completed = sim_lead_completed,
                                         .context_of = context_of,
                                         .context = run,
                                         .meet = true,
                                         .log = config->log};
    enum perseus_status status = sim_cluster_create(&cluster, &run->cluster);
    return status == PERSEUS_OK ? prs_timeline_reserve(run->cluster.timeline, PLACES * run->n_pes)
                                : status;
}

static enum perseus_status build_pe(struct sim_run *run, uint32_t index,
                                    const struct prs_rows *rows)
{
    struct sim_moe_pe *pe = &run->pes[index];
    pe->run = run;
    pe->pe = run->cluster.pes[index];
    pe->self = index % run->job_pes;
    pe->job = index - pe->self;
    pe->leads.item_bytes = sizeof(struct sim_lead);
    pe->link.item_bytes = pe->blocks.item_bytes = sizeof(struct sim_block);
    return sim_dispatch_plan(pe, rows->first_row);
}

/* Balanced routing gives every PE the same rows for an expert: one table serves all. */
static enum perseus_status build_pes(struct sim_run *run)
{
    struct prs_rows rows = {0};
    enum perseus_status status = PERSEUS_OK;
    for (uint32_t i = 0; i < run->n_pes && status == PERSEUS_OK; i++) {
        if (i == 0 || run->config->skew > 0) {
            prs_rows_finish(&rows);
            status = route(run, i, &rows);
        }
        if (status == PERSEUS_OK) {
            status = build_pe(run, i, &rows);
        }
    }
    prs_rows_finish(&rows);
    return status;
}

static void destroy(struct sim_run *run)
{
    if (run->cluster.timeline != NULL) {
        prs_timeline_give_back(run->cluster.timeline, PLACES * run->n_pes);
        sim_cluster_destroy(&run->cluster);
    }
    for (uint32_t i = 0; run->pes != NULL && i < run->n_pes; i++) {
        struct sim_moe_pe *pe = &run->pes[i];
        free(pe->units);
        free(pe->group_left);
        free(pe->group_first);
        free(pe->answers_left);
        free(pe->tickets);
        free(pe->leads.items);
        free(pe->link.items);
        free(pe->blocks.items);
    }
    free(run->pes);
}

/* ---- running ---- */

static enum perseus_status check(const struct sim_moe_config *config)
{
    uint32_t n_pes = config->nodes * config->platform->pes_per_node;
    uint32_t job = config->job_pes == 0 ? n_pes : config->job_pes;
    if (n_pes == 0 || job > n_pes || n_pes % job != 0 || job % config->platform->pes_per_node > 0) {
        return prs_fail(config->log, PERSEUS_INVALID_ARGUMENT,
                        "an expert group of %u PEs must divide %u PEs, and be whole nodes of %u",
                        job, n_pes, config->platform->pes_per_node);
    }
    if (config->experts < job) {
        return prs_fail(config->log, PERSEUS_INVALID_ARGUMENT,
                        "%u experts cannot be spread over %u PEs; use expert groups of at most %u",
                        config->experts, job, config->experts);
    }
    return PERSEUS_OK;
}

static enum perseus_status first_failure(const struct sim_run *run)
{
    for (uint32_t i = 0; i < run->n_pes; i++) {
        for (uint32_t c = 0; c < run->cluster.channels; c++) {
            enum perseus_status status = sim_pe_status(sim_run_channel(&run->pes[i], c));
            if (status != PERSEUS_OK) {
                return status;
            }
        }
    }
    if (run->finished < run->n_pes) {
        return prs_fail(run->config->log, PERSEUS_TIMEOUT,
                        "%u of %u PEs never got all their answers: nothing more happens at %.3f ms",
                        run->n_pes - run->finished, run->n_pes, (double)sim_run_now(run) * 1e-6);
    }
    return PERSEUS_OK;
}

static void report(const struct sim_run *run, struct sim_moe_result *out)
{
    const struct sim_moe_config *config = run->config;
    struct perseus_stats stats;
    sim_cluster_stats(&run->cluster, &stats);
    double each = 1.0 / run->n_pes, busy_ns = 0, blocks = 0, bytes = 0;
    *out = (struct sim_moe_result){.total_ms = (double)run->end_ns * 1e-6 +
                                               config->platform->gpu.start_ns * 1e-6,
                                   .dispatch_ms = (double)run->dispatched_ns * 1e-6,
                                   .fences = (double)stats.fences * each,
                                   .fence_flags = (double)stats.fence_flags * each,
                                   .drains = (double)stats.drains * each,
                                   .drain_ms = (double)stats.drain_ns * each * 1e-6,
                                   .puts = (double)stats.puts * each,
                                   .signals = (double)stats.signals * each,
                                   .operations = prs_sim_net_posted(run->cluster.net),
                                   .events = prs_timeline_count(run->cluster.timeline),
                                   .checksum = run->checksum};
    for (uint32_t i = 0; i < run->n_pes; i++) {
        const struct sim_moe_pe *pe = &run->pes[i];
        busy_ns += (double)pe->busy_ns;
        blocks = fmax(blocks, (double)pe->busy_ns / run->block_ns);
        for (uint32_t c = 0; c < run->cluster.channels; c++) {
            out->ring_full += (double)sim_pe_ring_full(sim_run_channel(pe, c)) * each;
        }
        for (uint32_t u = 0; u < pe->n_units; u++) {
            bool is_local = sim_run_is_local(run, pe->self, pe->units[u].target);
            bytes += is_local ? 0 : 2.0 * pe->units[u].rows * (double)run->plan.row_bytes;
        }
    }
    out->busy = busy_ns / (run->n_pes * out->total_ms * 1e6);
    out->compute_floor_ms = blocks * run->block_ns * 1e-6;
    double line = config->platform->fabric.line_gbit_s;
    out->bytes_floor_ms = line > 0 ? bytes * each * 8 / line * 1e-6 : 0;
}

enum perseus_status sim_moe_run(const struct sim_moe_config *config, struct sim_moe_result *out)
{
    enum perseus_status status = check(config);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct sim_run run = {.config = config, .node_pes = config->platform->pes_per_node};
    run.n_pes = config->nodes * run.node_pes;
    run.job_pes = config->job_pes == 0 ? run.n_pes : config->job_pes;
    run.pes = calloc(run.n_pes, sizeof *run.pes);
    status = run.pes == NULL ? PERSEUS_OUT_OF_MEMORY : make_plan(&run);
    if (status == PERSEUS_OK) {
        status = build_cluster(&run);
    }
    if (status == PERSEUS_OK) {
        status = build_pes(&run);
    }
    if (status == PERSEUS_OK) {
        for (uint32_t i = 0; i < run.n_pes; i++) {
            sim_dispatch_start(&run.pes[i]);
        }
        while (run.status == PERSEUS_OK && prs_timeline_step(run.cluster.timeline)) {
        }
        status = run.status == PERSEUS_OK ? first_failure(&run) : run.status;
    }
    if (status == PERSEUS_OK) {
        report(&run, out);
    }
    destroy(&run);
    return status;
}
