/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/limits.h"
#include "moe/expert.h"
#include "moe/plan.h"
#include "model/weights.h"
#include "job.h"
#include "kit/table.h"
#include "kit/tool_log.h"

/* Of one PE beside the layer and its heap, measured with tcp: program and libraries; ring, proxy
 * and fabric, if there is another node to talk to; and what oneDNN compiles and keeps for the
 * products of each number of rows. */
#define PROGRAM_BYTES (UINT64_C(13) << 19)
#define CHANNEL_BYTES (UINT64_C(8) << 20)
#define PRODUCT_BYTES (UINT64_C(300) << 10)
#define PAGE_BYTES    4096u

static uint64_t available_bytes(void)
{
    struct prs_limits limits;
    prs_limits_read("", &limits);
    return limits.memory_bytes; /* nothing known: nothing refused */
}

static uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static uint64_t rows_between(const struct prs_moe_setup *setup, const struct prs_moe_inputs *inputs,
                             const struct prs_moe_plan *plan, uint32_t source, uint32_t pe)
{
    const uint32_t *counts = inputs->counts + (size_t)source * setup->config.experts;
    uint32_t first = prs_moe_first_expert(plan, pe), end = first + prs_moe_hosted(plan, pe);
    uint64_t rows = 0;
    for (uint32_t expert = first; expert < end; expert++) {
        rows += counts[expert];
    }
    return rows;
}

/* Bytes of rows that PE `pe` touches with this routing, in one half of the buffers: what comes to
 * it, what it sends, and what it writes into the memory of its node. */
static uint64_t touched_bytes(const struct prs_moe_setup *setup,
                              const struct prs_moe_inputs *inputs, const struct prs_moe_plan *plan,
                              uint32_t pe)
{
    uint64_t bytes = 0, sent = 0;
    for (uint32_t other = 0; other < plan->n_pes; other++) {
        uint64_t to = rows_between(setup, inputs, plan, pe, other) * plan->row_bytes;
        uint64_t from = rows_between(setup, inputs, plan, other, pe) * plan->row_bytes;
        bool is_neighbour = other / setup->pes_per_node == pe / setup->pes_per_node;
        bytes += whole_pages(from);
        sent += to;
        bytes += is_neighbour && other != pe ? whole_pages(to) + whole_pages(from) : 0;
    }
    return bytes + whole_pages(sent);
}

/* How many different numbers of steps (expert.h) the tiles of a PE's experts have. */
static uint32_t step_numbers(const struct prs_moe_setup *setup, const struct prs_moe_inputs *inputs,
                             const struct prs_moe_plan *plan, uint32_t pe)
{
    uint32_t first = prs_moe_first_expert(plan, pe), end = first + prs_moe_hosted(plan, pe), n = 0;
    uint32_t tile = plan->config.tile_tokens;
    for (uint32_t steps = PRS_EXPERT_STEP; steps <= prs_expert_steps(tile);
         steps += PRS_EXPERT_STEP) {
        bool is_there = false;
        for (uint32_t source = 0; source < plan->n_pes && !is_there; source++) {
            const uint32_t *counts = inputs->counts + (size_t)source * setup->config.experts;
            for (uint32_t expert = first; expert < end && !is_there; expert++) {
                is_there = (counts[expert] >= tile && prs_expert_steps(tile) == steps) ||
                           prs_expert_steps(counts[expert] % tile) == steps;
            }
        }
        n += is_there;
    }
    return n;
}

/* Bytes of the weights that a PE reads: experts without a token stay where they are. */
static uint64_t read_bytes(const struct prs_moe_setup *setup, const struct prs_moe_inputs *inputs,
                           const struct prs_moe_plan *plan, uint32_t pe)
{
    uint32_t first = prs_moe_first_expert(plan, pe), end = first + prs_moe_hosted(plan, pe);
    uint64_t experts = setup->config.shared_experts;
    for (uint32_t expert = first; expert < end; expert++) {
        bool is_read = false;
        for (uint32_t source = 0; source < plan->n_pes; source++) {
            is_read |= inputs->counts[(size_t)source * setup->config.experts + expert] > 0;
        }
        experts += is_read;
    }
    return experts * prs_moe_expert_bytes(&setup->config);
}

static uint64_t core_bytes(const struct prs_moe_setup *setup, uint32_t numbers)
{
    return PROGRAM_BYTES + (setup->nodes > 1 ? CHANNEL_BYTES : 0) + numbers * PRODUCT_BYTES;
}

bool prs_moe_need_find(const struct prs_moe_setup *setup, const struct prs_moe_inputs *inputs,
                       struct prs_moe_need *out)
{
    const struct perseus_moe_config *config = &setup->config;
    const struct prs_log log = prs_tool_log();
    uint32_t n_pes = prs_moe_setup_pes(setup);
    uint64_t tokens = (uint64_t)config->tokens_max * config->hidden * sizeof(float);
    struct prs_moe_need need = {.available_bytes = available_bytes()};
    struct prs_moe_plan plan;
    if (perseus_moe_plan(config, (int)n_pes, log.fn, log.user, &need.layer) != PERSEUS_OK ||
        prs_moe_plan_make(config, (int)n_pes, &log, &plan) != PERSEUS_OK) {
        return false;
    }
    need.token_bytes = tokens * (setup->skips_verify ? 2 : 3); /* in, out, expected */
    uint64_t fixed = need.layer.local_bytes + need.layer.expanded_bytes + need.token_bytes;
    for (uint32_t pe = 0; pe < n_pes; pe++) {
        uint64_t core = core_bytes(setup, step_numbers(setup, inputs, &plan, pe));
        uint64_t resident = fixed + core + need.layer.signal_bytes +
                            read_bytes(setup, inputs, &plan, pe) +
                            PRS_MOE_HALVES * touched_bytes(setup, inputs, &plan, pe);
        need.core_bytes = core > need.core_bytes ? core : need.core_bytes;
        need.resident_bytes = resident > need.resident_bytes ? resident : need.resident_bytes;
    }
    need.reserved_bytes =
        fixed + need.core_bytes + need.layer.weight_bytes + need.layer.symmetric_bytes;
    /* Weights are there once, however many PEs share an expert. */
    need.all_bytes =
        n_pes * (need.reserved_bytes - need.layer.weight_bytes) + prs_weights_bytes(config);
    *out = need;
    return true;
}

static const char *mebibytes(uint64_t bytes, char *out, size_t out_bytes)
{
    snprintf(out, out_bytes, "%.1f MiB", (double)bytes / (1 << 20));
    return out;
}

static void row(struct prs_table *table, const char *what, uint64_t bytes)
{
    char text[32];
    prs_table_cell(table, "%s", what);
    prs_table_cell(table, "%s", mebibytes(bytes, text, sizeof text));
}

bool prs_moe_need_print(const struct prs_moe_setup *setup, const struct prs_moe_need *need)
{
    static const struct prs_table_column columns[] = {{"memory of a PE", PRS_ALIGN_LEFT},
                                                      {"", PRS_ALIGN_RIGHT}};
    char all[32], free_now[32];
    struct prs_table *table = prs_table_create(columns, 2);
    row(table, "symmetric heap: rows for its experts, worst case", need->layer.arrival_bytes);
    row(table, "symmetric heap: rows going out", need->layer.outgoing_bytes);
    row(table, "symmetric heap: signals", need->layer.signal_bytes);
    row(table, "weights of its experts", need->layer.weight_bytes);
    if (need->layer.expanded_bytes > 0) {
        row(table, "the same expanded to f32 (no bf16 products here)", need->layer.expanded_bytes);
    }
    row(table, "tables and scratch", need->layer.local_bytes);
    row(table, "tokens, output, reference", need->token_bytes);
    row(table, "program, proxy, fabric, compiled products", need->core_bytes);
    row(table, "reserved", need->reserved_bytes);
    row(table, "resident with this routing (the largest PE)", need->resident_bytes);
    bool is_told = prs_table_print(table, stdout);
    prs_table_destroy(table);
    printf("\n%u PEs reserve %s; %s of memory is available.\n", prs_moe_setup_pes(setup),
           mebibytes(need->all_bytes, all, sizeof all),
           mebibytes(need->available_bytes, free_now, sizeof free_now));
    return is_told;
}

bool prs_moe_need_fits(const struct prs_moe_setup *setup, const struct prs_moe_need *need)
{
    char all[32], one[32], free_now[32];
    if (need->all_bytes <= need->available_bytes) {
        return true;
    }
    fprintf(stderr,
            "perseus moe: %u PEs of %s need %s, but only %s of memory is available: use fewer "
            "--tokens, fewer PEs, --dtype bf16, a --capacity-factor or a smaller --intermediate; "
            "--plan shows the parts\n",
            prs_moe_setup_pes(setup), mebibytes(need->reserved_bytes, one, sizeof one),
            mebibytes(need->all_bytes, all, sizeof all),
            mebibytes(need->available_bytes, free_now, sizeof free_now));
    return false;
}
