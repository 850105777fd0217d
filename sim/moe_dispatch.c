/* SPDX-License-Identifier: Apache-2.0 */
/* moe_dispatch.c: thread blocks stage rows and hand them out; leaders signal for their groups. */
#include <stdlib.h>

#include "base/rng.h"
#include "sim/moe_run.h"

/* Descriptors of a fence and its signals that are pushed in one call. */
#define SIGNALS_MAX 256

/* ---- what there is to send ---- */

static void count_groups(struct sim_moe_pe *pe)
{
    const struct sim_run *run = pe->run;
    uint32_t members = 0, size = run->config->group_experts;
    pe->n_groups = 0;
    for (uint32_t i = 0; i < pe->n_units; i++) {
        struct sim_unit *unit = &pe->units[i];
        if (sim_run_is_local(run, pe->self, unit->target)) {
            continue;
        }
        bool is_new =
            pe->n_groups == 0 || (size > 0 ? members == size : unit[-1].target != unit->target);
        if (is_new) {
            pe->group_first[pe->n_groups++] = i;
            members = 0;
        }
        members++;
        unit->group = pe->n_groups - 1;
        pe->group_left[unit->group]++;
    }
}

/* The next PE first, so that not all begin with the same; the PEs of a node still begin with one.
 * In turn, each begins with its like of the next node. */
static void add_units(struct sim_moe_pe *pe, const uint32_t *first_row)
{
    const struct sim_run *run = pe->run;
    const struct prs_moe_plan *plan = &run->plan;
    uint32_t begin = pe->self + (run->config->in_turn ? run->node_pes : 1);
    for (uint32_t i = 0; i < run->job_pes; i++) {
        uint32_t target = (begin + i) % run->job_pes;
        uint32_t first = prs_moe_first_expert(plan, target);
        for (uint32_t hosted = 0; hosted < prs_moe_hosted(plan, target); hosted++) {
            const uint32_t *row = &first_row[first + hosted];
            struct sim_unit *unit = &pe->units[pe->n_units++];
            *unit = (struct sim_unit){
                .target = target, .hosted = hosted, .rows = row[1] - row[0], .first_row = row[0]};
            pe->answers_expected += prs_moe_tiles(plan, unit->rows);
        }
    }
}

enum perseus_status sim_dispatch_plan(struct sim_moe_pe *pe, const uint32_t *first_row)
{
    const struct prs_moe_plan *plan = &pe->run->plan;
    pe->units = calloc(plan->config.experts, sizeof *pe->units);
    pe->group_left = calloc(plan->config.experts, sizeof *pe->group_left);
    pe->group_first = calloc(plan->config.experts, sizeof *pe->group_first);
    pe->answers_left = calloc(pe->run->job_pes, sizeof *pe->answers_left);
    pe->tickets = calloc(pe->run->cluster.channels, sizeof *pe->tickets);
    if (pe->units == NULL || pe->tickets == NULL || pe->group_left == NULL ||
        pe->group_first == NULL || pe->answers_left == NULL) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    add_units(pe, first_row);
    count_groups(pe);
    return PERSEUS_OK;
}

/* ---- leaders ---- */

static uint64_t dispatch_word(const struct sim_moe_pe *pe, const struct sim_unit *unit)
{
    return prs_moe_dispatch_word(&pe->run->plan, pe->self, 0, unit->hosted) * 8;
}

static void push_signals(struct sim_moe_pe *pe, uint32_t target, uint64_t word,
                         const uint64_t *values, uint32_t n)
{
    union prs_desc_slot slots[1 + SIGNALS_MAX];
    uint32_t used = 0;
    if (pe->run->config->vector && n > 1) {
        slots[used++].desc = (struct prs_desc){.kind = PRS_DESC_SIGNAL_VECTOR,
                                               .sub = PERSEUS_SIGNAL_SET,
                                               .peer = target,
                                               .ticket = PRS_DESC_NO_TICKET,
                                               .remote = word,
                                               .bytes = n * 8ull};
        for (uint32_t at = 0; at < n;) {
            at += prs_desc_take_values(&slots[used++], values + at, n - at);
        }
    } else {
        for (uint32_t i = 0; i < n; i++) {
            slots[used++].desc = (struct prs_desc){.kind = PRS_DESC_SIGNAL,
                                                   .sub = PERSEUS_SIGNAL_SET,
                                                   .peer = target,
                                                   .ticket = PRS_DESC_NO_TICKET,
                                                   .remote = word + i * 8ull,
                                                   .value = values[i]};
        }
    }
    sim_run_check(pe->run, sim_pe_submit(pe->pe, &slots[0].desc, used));
}

/* The signals of a group, those of one PE together. Units of the own node may lie between. */
static void signal_group(struct sim_moe_pe *pe, uint32_t group)
{
    uint32_t i = pe->group_first[group];
    uint32_t end = group + 1 < pe->n_groups ? pe->group_first[group + 1] : pe->n_units;
    uint64_t values[32];
    while (end > i && sim_run_is_local(pe->run, pe->self, pe->units[end - 1].target)) {
        end--;
    }
    bool is_one = pe->units[i].target == pe->units[end - 1].target;
    const struct prs_desc fence = {.kind = PRS_DESC_FENCE,
                                   .peer = is_one ? pe->units[i].target : PRS_DESC_ALL_PEERS,
                                   .ticket = PRS_DESC_NO_TICKET};
    sim_run_check(pe->run, sim_pe_submit(pe->pe, &fence, 1));
    while (i < end) {
        const struct sim_unit *first = &pe->units[i];
        uint32_t n = 0;
        if (sim_run_is_local(pe->run, pe->self, first->target)) {
            i++;
            continue;
        }
        while (i < end && n < 32 && pe->units[i].target == first->target) {
            values[n++] = 1ull + pe->units[i++].rows;
        }
        push_signals(pe, first->target, dispatch_word(pe, first), values, n);
    }
}

static void on_lead(void *context);

/* The oldest leader signals, and the next one's turn is known. */
static void lead(struct sim_moe_pe *pe)
{
    const struct sim_lead now = *(struct sim_lead *)sim_fifo_first(&pe->leads);
    sim_fifo_drop(&pe->leads);
    if (now.is_answer) {
        sim_compute_signal_answers(pe, now.number);
    } else {
        signal_group(pe, now.number);
    }
    const struct sim_lead *next = sim_fifo_first(&pe->leads);
    pe->lead_due = next != NULL;
    if (next != NULL) {
        uint64_t now_ns = sim_run_now(pe->run);
        prs_timeline_add(pe->run->cluster.timeline, next->at_ns > now_ns ? next->at_ns : now_ns,
                         on_lead, pe);
    }
}

/* Its fence is for its own channel only: of the others it must know that what they had is there. */
static void on_lead(void *context)
{
    struct sim_moe_pe *pe = context;
    const uint32_t channels = pe->run->cluster.channels;
    for (uint32_t i = 1; i < channels; i++) {
        struct sim_pe *channel = sim_run_channel(pe, i);
        struct prs_desc quiet = {.kind = PRS_DESC_QUIET, .peer = PRS_DESC_ALL_PEERS};
        sim_run_check(pe->run, sim_pe_ticket(channel, &pe->tickets[i - 1]));
        quiet.ticket = pe->tickets[i - 1];
        sim_run_check(pe->run, sim_pe_submit(channel, &quiet, 1));
    }
    pe->tickets_left = channels - 1;
    if (channels == 1) {
        lead(pe);
    }
}

void sim_lead_completed(void *context)
{
    struct sim_moe_pe *pe = context;
    const uint32_t n = pe->run->cluster.channels - 1;
    if (pe->tickets_left == 0) { /* canceled with the cluster */
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        enum perseus_status status;
        if (pe->tickets[i] != PRS_DESC_NO_TICKET &&
            sim_pe_poll_ticket(sim_run_channel(pe, i + 1), pe->tickets[i], &status)) {
            pe->tickets[i] = PRS_DESC_NO_TICKET;
            pe->tickets_left--;
            sim_run_check(pe->run, status);
        }
    }
    if (pe->tickets_left == 0) {
        lead(pe);
    }
}

void sim_lead_add(struct sim_moe_pe *pe, uint32_t number, bool is_answer)
{
    struct sim_lead *lead = sim_fifo_add(pe->run, &pe->leads);
    if (lead == NULL) {
        return;
    }
    uint64_t wait_ns = (uint64_t)pe->run->config->platform->gpu.lead_ns;
    *lead = (struct sim_lead){
        .at_ns = sim_run_now(pe->run) + wait_ns, .number = number, .is_answer = is_answer};
    if (!pe->lead_due) {
        pe->lead_due = true;
        prs_timeline_add(pe->run->cluster.timeline, lead->at_ns, on_lead, pe);
    }
}

/* ---- the node's link ---- */

static void on_link(void *context)
{
    struct sim_moe_pe *pe = context;
    const struct sim_block block = *(struct sim_block *)sim_fifo_first(&pe->link);
    sim_fifo_drop(&pe->link);
    if (block.is_answer) {
        uint32_t expert = prs_moe_first_expert(&pe->run->plan, block.target) + block.hosted;
        sim_compute_answered(sim_run_pe(pe, block.source), expert, block.tile);
    } else {
        sim_compute_arrived(sim_run_pe(pe, block.target), block.source, block.hosted, block.rows);
    }
    const struct sim_block *next = sim_fifo_first(&pe->link);
    pe->link_due = next != NULL;
    if (next != NULL) {
        prs_timeline_add(pe->run->cluster.timeline, next->at_ns, on_link, pe);
    }
}

void sim_link_send(struct sim_moe_pe *pe, const struct sim_block *block)
{
    const struct sim_gpu *gpu = &pe->run->config->platform->gpu;
    struct sim_block *sent = sim_fifo_add(pe->run, &pe->link);
    if (sent == NULL) {
        return;
    }
    uint64_t now_ns = sim_run_now(pe->run);
    double bytes = (double)block->rows * (double)pe->run->plan.row_bytes;
    bool is_own = block->source == block->target; /* the rows are there already */
    uint64_t start_ns = pe->link_free_ns > now_ns ? pe->link_free_ns : now_ns;
    pe->link_free_ns = start_ns + (is_own ? 0 : (uint64_t)(bytes / gpu->link_gbyte_s));
    *sent = *block;
    sent->at_ns = pe->link_free_ns + (uint64_t)gpu->link_ns;
    if (!pe->link_due) {
        pe->link_due = true;
        prs_timeline_add(pe->run->cluster.timeline, sent->at_ns, on_link, pe);
    }
}

/* ---- dispatch ---- */

/* In bulk the last expert of a PE takes the rows of all before it along. */
static bool bulk_rows(const struct sim_moe_pe *pe, uint32_t index, struct sim_unit *out)
{
    const struct sim_unit *unit = &pe->units[index];
    *out = *unit;
    if (!pe->run->config->bulk) {
        return true;
    }
    if (index + 1 < pe->n_units && unit[1].target == unit->target) {
        return false;
    }
    for (uint32_t back = 1; back <= unit->hosted; back++) {
        out->rows += unit[-(int)back].rows;
        out->first_row = unit[-(int)back].first_row;
    }
    return true;
}

static void send_remote(struct sim_moe_pe *pe, uint32_t index)
{
    const struct sim_run *run = pe->run;
    const struct prs_moe_plan *plan = &run->plan;
    struct sim_unit unit;
    bool is_coupled = run->config->protocol == SIM_COUPLED;
    bool has_put = bulk_rows(pe, index, &unit);
    uint32_t base = pe->units[index - pe->units[index].hosted].first_row;
    uint64_t place = (uint64_t)pe->self * plan->rows_per_pair + (unit.first_row - base);
    uint64_t bytes = unit.rows * plan->row_bytes;
    const struct prs_desc desc = {
        .kind = is_coupled ? PRS_DESC_PUT_SIGNAL : PRS_DESC_PUT,
        .sub = PERSEUS_SIGNAL_SET,
        .peer = unit.target,
        .ticket = PRS_DESC_NO_TICKET,
        .local = run->payload_at + plan->outgoing[0] + unit.first_row * plan->row_bytes,
        .remote = run->payload_at + plan->arrivals[0] + place * plan->row_bytes,
        .bytes = bytes,
        .signal = is_coupled ? dispatch_word(pe, &unit) : 0,
        .value = 1ull + unit.rows};
    if (is_coupled || (has_put && bytes > 0)) {
        sim_run_check(pe->run, sim_pe_submit(sim_run_channel(pe, index), &desc, 1));
    }
    if (!is_coupled && --pe->group_left[unit.group] == 0) {
        sim_lead_add(pe, unit.group, false);
    }
}

static void on_dispatch(void *context)
{
    struct sim_moe_pe *pe = context;
    const struct sim_run *run = pe->run;
    const struct sim_gpu *gpu = &run->config->platform->gpu;
    const struct sim_unit *unit = &pe->units[pe->next_unit];
    if (sim_run_is_local(run, pe->self, unit->target)) {
        const struct sim_block block = {
            .source = pe->self, .target = unit->target, .hosted = unit->hosted, .rows = unit->rows};
        sim_link_send(pe, &block);
    } else {
        send_remote(pe, pe->next_unit);
    }
    pe->next_unit++;
    if (pe->next_unit == pe->n_units) {
        return;
    }
    uint64_t at_ns = sim_run_now(run) + (uint64_t)gpu->submit_ns;
    if (pe->next_unit == pe->wave_end) {
        sim_dispatch_start(pe);
        return;
    }
    prs_timeline_add(run->cluster.timeline, at_ns, on_dispatch, pe);
}

/* The first node begins at once, the others within apart_ns, all PEs of a node together. */
static uint64_t begins_ns(const struct sim_moe_pe *pe)
{
    const struct sim_run *run = pe->run;
    const struct sim_gpu *gpu = &run->config->platform->gpu;
    uint32_t node = (pe->job + pe->self) / run->node_pes;
    struct prs_rng rng = prs_rng_seeded(run->config->seed << 20 ^ node);
    double share = node == 0 ? 0 : prs_rng_below(&rng, 1u << 20) / (double)(1u << 20);
    return (uint64_t)(gpu->start_ns + share * gpu->apart_ns);
}

/* Thread blocks stage one expert each, all at one time, share the memory, and submit. */
void sim_dispatch_start(struct sim_moe_pe *pe)
{
    const struct sim_run *run = pe->run;
    const struct sim_gpu *gpu = &run->config->platform->gpu;
    uint64_t rows = 0;
    uint32_t end = pe->next_unit;
    while (end < pe->n_units && end - pe->next_unit < (uint32_t)gpu->ctas) {
        rows += pe->units[end++].rows;
    }
    uint64_t now_ns = sim_run_now(run);
    uint64_t from_ns = now_ns > pe->staged_ns ? now_ns : pe->staged_ns;
    if (pe->next_unit == 0) {
        from_ns += begins_ns(pe);
    }
    pe->wave_end = end;
    pe->staged_ns =
        from_ns + (uint64_t)((double)rows * (double)run->plan.row_bytes / gpu->memory_gbyte_s);
    prs_timeline_add(run->cluster.timeline, pe->staged_ns, on_dispatch, pe);
}
