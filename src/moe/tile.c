/* SPDX-License-Identifier: Apache-2.0 */
/* Computing tiles that have arrived, and answering them. */
#include <string.h>

#include "moe/layer.h"

enum { TILES_MAX = 64 }; /* computed together */

/* Where a tile's rows lie, and where its results go: over the rows, or, if the source shares memory,
 * straight home. */
static struct prs_expert_rows find_rows(const struct perseus_moe *moe, const struct prs_task *task)
{
    const struct prs_round *round = &moe->rounds[task->half];
    const struct prs_pair *pair = prs_moe_pair(moe, round, task->source, task->expert);
    uint32_t skipped = task->tile * moe->plan.config.tile_tokens;
    void *in = prs_moe_arrival_row(moe, task->half, task->source, pair->place + skipped);
    void *out = in;
    if (prs_moe_is_direct(moe, task->source)) {
        out = perseus_ptr(moe->pe, prs_moe_outgoing_row(moe, task->half, pair->base + skipped),
                          (int)task->source);
    }
    return (struct prs_expert_rows){.count = task->rows, .in = in, .out = out};
}

static void record(struct prs_worker *worker, uint32_t expert, const struct prs_expert_rows *parts,
                   uint32_t n_parts)
{
    if (worker->n_products < worker->products_max) {
        struct prs_product *product = &worker->products[worker->n_products++];
        *product = (struct prs_product){.expert = expert};
        for (uint32_t i = 0; i < n_parts; i++) {
            product->rows += parts[i].count;
        }
    }
}

enum perseus_status prs_worker_multiply(struct prs_worker *worker, struct prs_round *round,
                                        uint32_t index, const struct prs_expert_rows *parts,
                                        uint32_t n_parts, enum perseus_moe_dtype type)
{
    const struct perseus_moe *moe = worker->moe;
    uint64_t begin_ns = prs_clock_now_ns(&moe->clock), begin_cpu_ns = prs_thread_cpu_ns();
    enum perseus_status status =
        prs_expert_run(&worker->bench, &moe->experts[index], parts, n_parts, type, type);
    /* Relaxed: sums for reports, complete when the round's last count is. */
    atomic_fetch_add_explicit(&round->expert_cpu_ns, prs_thread_cpu_ns() - begin_cpu_ns,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&round->expert_ns, prs_clock_now_ns(&moe->clock) - begin_ns,
                              memory_order_relaxed);
    record(worker, index, parts, n_parts);
    return status;
}

/* How many rows of other tiles a tile's product can take along. A product is made for whole steps of
 * rows in any case, and a row's result is the same to the bit in any place of the same step; so tiles
 * that fit in one go together. With relaxed, as many as a tile may have. */
static uint32_t room_beside(const struct perseus_moe_config *config, uint32_t rows)
{
    uint32_t most = PRS_EXPERT_STEP;
    if (config->relaxed && config->tile_tokens > most) {
        most = config->tile_tokens;
    }
    return config->communication_only || rows > most ? 0 : most - rows;
}

static enum perseus_status run_tiles(struct prs_worker *worker, struct prs_round *round,
                                     const struct prs_task *tasks, uint32_t count)
{
    const struct perseus_moe *moe = worker->moe;
    struct prs_expert_rows parts[TILES_MAX];
    for (uint32_t i = 0; i < count; i++) {
        parts[i] = find_rows(moe, &tasks[i]);
    }
    if (moe->plan.config.communication_only) { /* one tile; the expert is the identity */
        if (parts[0].in != parts[0].out) {
            memcpy(parts[0].out, parts[0].in, parts[0].count * moe->plan.row_bytes);
        }
        return PERSEUS_OK;
    }
    return prs_worker_multiply(worker, round, tasks[0].expert, parts, count,
                               moe->plan.config.wire_dtype);
}

static enum perseus_status answer(struct perseus_moe *moe, struct prs_round *round,
                                  const struct prs_task *task)
{
    uint64_t never = 0;
    /* Relaxed: a time for reports. */
    atomic_compare_exchange_strong_explicit(&round->first_answer_ns, &never,
                                            prs_clock_now_ns(&moe->clock), memory_order_relaxed,
                                            memory_order_relaxed);
    bool is_last;
    enum perseus_status status =
        prs_protocol_answer(moe, round, task->source, task->expert, task->tile, &is_last);
    prs_moe_note_progress(moe);
    return status == PERSEUS_OK && is_last ? prs_moe_pair_answered(moe, round) : status;
}

enum perseus_status prs_moe_tile(struct prs_worker *worker, const struct prs_task *task)
{
    struct perseus_moe *moe = worker->moe;
    struct prs_round *round = &moe->rounds[task->half];
    struct prs_task tasks[TILES_MAX] = {*task};
    uint32_t room = room_beside(&moe->plan.config, task->rows), count = 1;
    if (room > 0) {
        count += prs_scheduler_take_tiles(moe->scheduler, task, room, tasks + 1, TILES_MAX - 1);
    }
    enum perseus_status status = run_tiles(worker, round, tasks, count);
    for (uint32_t i = 0; i < count && status == PERSEUS_OK; i++) {
        status = answer(moe, round, &tasks[i]);
    }
    return status;
}

enum perseus_status prs_moe_pair_answered(struct perseus_moe *moe, struct prs_round *round)
{
    /* Acquire and release: with each other, so that the last one's bulk transfer sends what all
     * have computed. */
    if (atomic_fetch_sub_explicit(&round->pairs_left, 1, memory_order_acq_rel) != 1) {
        return PERSEUS_OK;
    }
    enum perseus_status status = prs_protocol_end_answers(moe, round);
    prs_round_ended_one(moe, round);
    return status;
}
