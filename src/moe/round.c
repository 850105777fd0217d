/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "moe/layer.h"

enum { PHASES = 3 }; /* all sent, all arrivals answered, all answers seen */

static size_t pairs_of(const struct prs_moe_plan *plan)
{
    return (size_t)plan->n_pes * plan->hosted_max;
}

uint64_t prs_round_bytes(const struct prs_moe_plan *plan)
{
    return prs_rows_bytes(plan) + pairs_of(plan) * sizeof(struct prs_pair) +
           plan->config.experts * sizeof(uint32_t) + plan->token_tiles * sizeof(atomic_uint);
}

enum perseus_status prs_round_init(struct prs_round *round, const struct perseus_moe *moe,
                                   uint32_t half)
{
    const struct prs_moe_plan *plan = &moe->plan;
    struct prs_round made = {.half = half};
    enum perseus_status status = prs_rows_init(&made.rows, plan, prs_moe_log(moe));
    if (status != PERSEUS_OK) {
        return status;
    }
    pthread_mutex_init(&made.add_mutex, NULL);
    made.pairs = calloc(pairs_of(plan), sizeof *made.pairs);
    made.answer_next = calloc(plan->config.experts, sizeof *made.answer_next);
    made.tile_left = calloc(plan->token_tiles, sizeof *made.tile_left);
    *round = made;
    if (made.pairs == NULL || made.answer_next == NULL || made.tile_left == NULL) {
        prs_round_finish(round);
        return prs_fail(prs_moe_log(moe), PERSEUS_OUT_OF_MEMORY,
                        "moe: no memory for the tables of %u PEs and %u experts", plan->n_pes,
                        plan->config.experts);
    }
    return PERSEUS_OK;
}

void prs_round_finish(struct prs_round *round)
{
    if (round->rows.first_row != NULL) {
        pthread_mutex_destroy(&round->add_mutex);
    }
    prs_rows_finish(&round->rows);
    free(round->pairs);
    free(round->answer_next);
    free(round->tile_left);
    *round = (struct prs_round){0};
}

/* Counters to their start. Relaxed: the scheduler's mutex publishes them with the tasks. */
static void reset(const struct perseus_moe *moe, struct prs_round *round)
{
    const struct perseus_moe_config *config = &moe->plan.config;
    uint32_t token_tiles = prs_moe_tiles(&moe->plan, round->tokens);
    round->pairs_unseen = moe->plan.n_pes * moe->hosted;
    round->answers_unseen = config->experts;
    memset(round->answer_next, 0, config->experts * sizeof *round->answer_next);
    for (uint32_t i = 0; i < round->pairs_unseen; i++) {
        round->pairs[i] = (struct prs_pair){0};
    }
    for (uint32_t tile = 0; tile < token_tiles; tile++) {
        atomic_store_explicit(&round->tile_left[tile],
                              round->rows.left[tile] + (config->shared_experts > 0),
                              memory_order_relaxed);
    }
    bool is_open = !moe->mode.protocol->opens_doors;
    bool tiles_end_it = !config->relaxed || config->shared_experts > 0;
    atomic_store_explicit(&round->pairs_left, round->pairs_unseen, memory_order_relaxed);
    atomic_store_explicit(&round->dispatch_left, config->experts, memory_order_relaxed);
    atomic_store_explicit(&round->left, PHASES + (tiles_end_it ? token_tiles : 0),
                          memory_order_relaxed);
    atomic_store_explicit(&round->open[PRS_MOE_DISPATCH], is_open, memory_order_relaxed);
    atomic_store_explicit(&round->open[PRS_MOE_ANSWERS], is_open, memory_order_relaxed);
    atomic_store_explicit(&round->first_answer_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&round->expert_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&round->expert_cpu_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&round->rows_received, 0, memory_order_relaxed);
    round->last_arrival_ns = round->last_answer_ns = 0;
    round->start_ns = prs_clock_now_ns(&moe->clock);
}

/* A DISPATCH task for every expert, the nearest next PE first so that not all PEs begin with the
 * same one, and PEs that share memory last: what travels far leaves early. */
static void push_dispatch(struct perseus_moe *moe, const struct prs_round *round)
{
    const struct prs_moe_plan *plan = &moe->plan;
    for (int direct = 0; direct < 2; direct++) {
        for (uint32_t distance = 1; distance <= plan->n_pes; distance++) {
            uint32_t pe = (moe->self + distance) % plan->n_pes;
            if (prs_moe_is_direct(moe, pe) != (direct == 1)) {
                continue;
            }
            uint32_t first = prs_moe_first_expert(plan, pe);
            for (uint32_t i = 0; i < prs_moe_hosted(plan, pe); i++) {
                const struct prs_task task = {
                    .kind = PRS_TASK_DISPATCH, .half = round->half, .expert = first + i};
                prs_scheduler_push(moe->scheduler, &task, true);
            }
        }
    }
}

void prs_round_begin(struct perseus_moe *moe, struct prs_round *round)
{
    const struct perseus_moe_config *config = &moe->plan.config;
    pthread_mutex_lock(&moe->scan_mutex);
    reset(moe, round);
    /* Release: with the acquire of the watcher, who may look before any task is taken. */
    atomic_store_explicit(&round->is_active, true, memory_order_release);
    pthread_mutex_unlock(&moe->scan_mutex);
    push_dispatch(moe, round);
    for (uint32_t tile = 0; tile < prs_moe_tiles(&moe->plan, round->tokens); tile++) {
        struct prs_task task = {.kind = PRS_TASK_SHARED, .half = round->half, .tile = tile};
        if (config->shared_experts == 0) {
            task.kind = PRS_TASK_COMBINE; /* at once, if no row of these tokens is on its way */
        }
        if (task.kind == PRS_TASK_SHARED || (!config->relaxed && round->rows.left[tile] == 0)) {
            prs_scheduler_push(moe->scheduler, &task, false);
        }
    }
    prs_scheduler_open(moe->scheduler);
}

static uint64_t since(uint64_t begin_ns, uint64_t end_ns)
{
    return end_ns > begin_ns ? end_ns - begin_ns : 0;
}

/* Under perseus_moe.mutex; everybody who wrote to the round has counted it down before. */
static void report(struct perseus_moe *moe, const struct prs_round *round)
{
    struct perseus_moe_stats *stats = &moe->stats;
    uint32_t processors = moe->plan.config.processors > 0 ? moe->plan.config.processors : 1;
    uint64_t first_answer_ns = atomic_load_explicit(&round->first_answer_ns, memory_order_relaxed);
    stats->rows_sent += round->rows.count;
    stats->rows_received += atomic_load_explicit(&round->rows_received, memory_order_relaxed);
    stats->rows_dropped += round->rows.dropped;
    stats->dispatch_ns = since(round->start_ns, round->last_arrival_ns);
    stats->expert_ns = atomic_load_explicit(&round->expert_ns, memory_order_relaxed) / processors;
    stats->expert_cpu_ns =
        atomic_load_explicit(&round->expert_cpu_ns, memory_order_relaxed) / processors;
    stats->combine_ns = first_answer_ns == 0 ? 0 : since(first_answer_ns, round->last_answer_ns);
    stats->total_ns = since(round->start_ns, round->end_ns);
    stats->exposed_ns = since(stats->expert_ns, stats->total_ns);
}

void prs_round_ended_one(struct perseus_moe *moe, struct prs_round *round)
{
    prs_moe_note_progress(moe);
    /* Acquire and release: with each other, so that the last one sees what all did. */
    if (atomic_fetch_sub_explicit(&round->left, 1, memory_order_acq_rel) != 1) {
        return;
    }
    round->end_ns = prs_clock_now_ns(&moe->clock);
    prs_scheduler_close(moe->scheduler);
    pthread_mutex_lock(&moe->mutex);
    report(moe, round);
    /* Release: with the acquire of sleep_until_ended (moe.c) and of the watcher. */
    atomic_store_explicit(&round->is_active, false, memory_order_release);
    pthread_cond_broadcast(&moe->ended);
    pthread_mutex_unlock(&moe->mutex);
}

/* Appends " 3 5 7" and so on, with an end if it gets long. */
static void list_pe(char *out, size_t capacity, const char *what, uint32_t pe, bool *is_named)
{
    size_t used = strlen(out);
    if (capacity - used > 48) {
        snprintf(out + used, capacity - used, "%s PE %u", *is_named ? "," : what, pe);
    }
    *is_named = true;
}

/* Under perseus_moe.scan_mutex. */
static void tell(const struct perseus_moe *moe, const struct prs_round *round, char *out)
{
    size_t capacity = PRS_ROUND_TEXT_BYTES;
    const struct prs_moe_plan *plan = &moe->plan;
    bool is_named = false;
    snprintf(out, capacity, "moe forward %llu", (unsigned long long)round->forward);
    for (uint32_t source = 0; source < plan->n_pes; source++) {
        for (uint32_t i = 0; i < moe->hosted; i++) {
            const struct prs_pair *pair = prs_moe_pair(moe, round, source, i);
            if (pair->tiles == 0 || pair->next_tile < pair->tiles) {
                list_pe(out, capacity, ", no rows yet from", source, &is_named);
                break;
            }
        }
    }
    is_named = false;
    for (uint32_t pe = 0; pe < plan->n_pes; pe++) {
        uint32_t first = prs_moe_first_expert(plan, pe);
        for (uint32_t i = 0; i < prs_moe_hosted(plan, pe); i++) {
            uint32_t tiles = prs_moe_tiles(plan, prs_rows_of(&round->rows, first + i));
            if (round->answer_next[first + i] < (tiles > 0 ? tiles : 1)) {
                list_pe(out, capacity, ", no answer yet from", pe, &is_named);
                break;
            }
        }
    }
}

void prs_round_describe(struct perseus_moe *moe, char *out)
{
    snprintf(out, PRS_ROUND_TEXT_BYTES, "moe");
    pthread_mutex_lock(&moe->scan_mutex);
    for (uint32_t half = 0; half < PRS_MOE_HALVES; half++) {
        /* Relaxed: the mutex orders it. */
        if (atomic_load_explicit(&moe->rounds[half].is_active, memory_order_relaxed)) {
            tell(moe, &moe->rounds[half], out);
        }
    }
    pthread_mutex_unlock(&moe->scan_mutex);
}
