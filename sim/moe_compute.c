/* SPDX-License-Identifier: Apache-2.0 */
/* moe_compute.c: what arrives is queued for the GPU, computed block by block, and answered. */
#include "sim/moe_run.h"

static void on_computed(void *context);

static void start_block(struct sim_moe_pe *pe)
{
    struct sim_run *run = pe->run;
    pe->gpu_busy = pe->blocks.count > 0;
    if (pe->gpu_busy) {
        pe->busy_ns += (uint64_t)run->block_ns;
        prs_timeline_add(run->cluster.timeline, sim_run_now(run) + (uint64_t)run->block_ns,
                         on_computed, pe);
    }
}

void sim_compute_arrived(struct sim_moe_pe *pe, uint32_t source, uint32_t hosted, uint32_t rows)
{
    struct sim_run *run = pe->run;
    sim_run_note(run, (uint64_t)pe->self << 40 | source << 16 | hosted);
    run->dispatched_ns = sim_run_now(run);
    uint32_t tiles = prs_moe_tiles(&run->plan, rows);
    for (uint32_t tile = 0; tile < tiles; tile++) {
        struct sim_block *block = sim_fifo_add(run, &pe->blocks);
        if (block == NULL) {
            return;
        }
        *block = (struct sim_block){.source = source,
                                    .target = pe->self,
                                    .hosted = hosted,
                                    .tile = tile,
                                    .rows = prs_moe_tile_rows(&run->plan, rows, tile),
                                    .is_answer = true};
    }
    pe->answers_left[source] += tiles;
    if (!pe->gpu_busy) {
        start_block(pe);
    }
}

/* ---- answers ---- */

static uint64_t answer_word(const struct sim_run *run, uint32_t expert, uint32_t tile)
{
    return run->answers_at + prs_moe_answer_word(&run->plan, tile, expert) * 8;
}

static void answer_remote(struct sim_moe_pe *pe, const struct sim_block *block)
{
    struct sim_run *run = pe->run;
    const struct prs_moe_plan *plan = &run->plan;
    bool is_coupled = !run->config->answers_decoupled;
    uint32_t expert = prs_moe_first_expert(plan, pe->self) + block->hosted;
    const struct prs_desc desc = {.kind = is_coupled ? PRS_DESC_PUT_SIGNAL : PRS_DESC_PUT,
                                  .sub = PERSEUS_SIGNAL_SET,
                                  .peer = block->source,
                                  .ticket = PRS_DESC_NO_TICKET,
                                  .local = run->payload_at + plan->arrivals[0] +
                                           (uint64_t)block->source * plan->rows_per_pair *
                                               plan->row_bytes,
                                  .remote = run->payload_at + plan->outgoing[0],
                                  .bytes = block->rows * plan->row_bytes,
                                  .signal = is_coupled ? answer_word(run, expert, block->tile) : 0,
                                  .value = 1ull + block->rows};
    sim_run_check(run, sim_pe_submit(sim_run_channel(pe, pe->answers_put++), &desc, 1));
}

/* Every answer to this source has been put. Its rows per expert are the same as of the dispatch. */
void sim_compute_signal_answers(struct sim_moe_pe *pe, uint32_t source)
{
    struct sim_run *run = pe->run;
    const struct prs_moe_plan *plan = &run->plan;
    const struct prs_desc fence = {
        .kind = PRS_DESC_FENCE, .peer = source, .ticket = PRS_DESC_NO_TICKET};
    sim_run_check(run, sim_pe_submit(pe->pe, &fence, 1));
    uint32_t first = prs_moe_first_expert(plan, pe->self);
    for (uint32_t hosted = 0; hosted < prs_moe_hosted(plan, pe->self); hosted++) {
        size_t word = prs_moe_dispatch_word(plan, source, 0, hosted);
        uint32_t rows = (uint32_t)sim_pe_words(pe->pe)[word] - 1;
        for (uint32_t tile = 0; tile < prs_moe_tiles(plan, rows); tile++) {
            const struct prs_desc desc = {.kind = PRS_DESC_SIGNAL,
                                          .sub = PERSEUS_SIGNAL_SET,
                                          .peer = source,
                                          .ticket = PRS_DESC_NO_TICKET,
                                          .remote = answer_word(run, first + hosted, tile),
                                          .value = 1};
            sim_run_check(run, sim_pe_submit(pe->pe, &desc, 1));
        }
    }
}

/* Whether all experts' rows of this source have come: only then is the last answer the last. */
static bool has_all_of(const struct sim_moe_pe *pe, uint32_t source)
{
    const struct prs_moe_plan *plan = &pe->run->plan;
    for (uint32_t hosted = 0; hosted < prs_moe_hosted(plan, pe->self); hosted++) {
        if (sim_pe_words(pe->pe)[prs_moe_dispatch_word(plan, source, 0, hosted)] == 0) {
            return false;
        }
    }
    return true;
}

static void on_computed(void *context)
{
    struct sim_moe_pe *pe = context;
    struct sim_run *run = pe->run;
    const struct sim_block block = *(struct sim_block *)sim_fifo_first(&pe->blocks);
    sim_fifo_drop(&pe->blocks);
    pe->answers_left[block.source]--;
    if (sim_run_is_local(run, pe->self, block.source)) {
        sim_link_send(pe, &block);
    } else {
        answer_remote(pe, &block);
        if (run->config->answers_decoupled && pe->answers_left[block.source] == 0 &&
            has_all_of(pe, block.source)) {
            sim_lead_add(pe, block.source, true);
        }
    }
    start_block(pe);
}

void sim_compute_answered(struct sim_moe_pe *pe, uint32_t expert, uint32_t tile)
{
    struct sim_run *run = pe->run;
    sim_run_note(run, (uint64_t)pe->self << 40 | (uint64_t)tile << 20 | expert);
    pe->answers_seen++;
    if (pe->answers_seen == pe->answers_expected) {
        run->finished++;
        run->end_ns = sim_run_now(run);
    }
}

/* ---- signals ---- */

void sim_compute_written(void *context, uint64_t offset, uint64_t bytes)
{
    struct sim_moe_pe *pe = context;
    struct sim_run *run = pe->run;
    const struct prs_moe_plan *plan = &run->plan;
    const uint64_t *words = sim_pe_words(pe->pe);
    for (uint64_t at = offset; at < offset + bytes; at += 8) {
        if (at < run->answers_at) {
            uint32_t word = (uint32_t)(at / 8), hosted = word % plan->hosted_max;
            uint32_t source = word / plan->hosted_max / plan->tiles_per_expert;
            sim_compute_arrived(pe, source, hosted, (uint32_t)words[word] - 1);
        } else {
            uint32_t word = (uint32_t)((at - run->answers_at) / 8);
            sim_compute_answered(pe, word % plan->config.experts, word / plan->config.experts);
        }
    }
}
