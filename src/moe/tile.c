/* SPDX-License-Identifier: Apache-2.0 */
/* Computing tiles that have arrived, and answering them. */
#include <string.h>

#include "moe/layer.h"

enum { TILES_MAX = 64 }; /* computed together */

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

/* How many rows of other tiles a tile's product can take along. A product is made for whole steps
 * of rows in any case, and a row's result is the same to the bit in any place of the same step; so
 * tiles that fit in one go together. With relaxed, as many as a tile may have. */
static uint32_t room_beside(const struct perseus_moe_config *config, uint32_t rows)
{
    uint32_t most = PRS_EXPERT_STEP;
    if (config->relaxed && config->tile_tokens > most) {
        most = config->tile_tokens;
    }
    return rows > most ? 0 : most - rows;
}

/* Results go over the rows, or, if the source shares memory, straight home. */
static enum perseus_status run_tiles(struct prs_worker *worker, struct prs_round *round,
                                     uint32_t expert, const struct prs_moe_transfer *tiles,
                                     uint32_t count)
{
    const struct perseus_moe *moe = worker->moe;
    struct prs_expert_rows parts[TILES_MAX];
    for (uint32_t i = 0; i < count; i++) {
        parts[i] = (struct prs_expert_rows){
            .count = tiles[i].rows.count, .in = tiles[i].src, .out = tiles[i].payload};
    }
    if (moe->mode.communication_only) { /* one tile; the expert is the identity */
        if (parts[0].in != parts[0].out) {
            memcpy(parts[0].out, parts[0].in, tiles[0].bytes);
        }
        return PERSEUS_OK;
    }
    return prs_worker_multiply(worker, round, expert, parts, count, moe->plan.config.wire_dtype);
}

enum perseus_status prs_moe_answers_ended(struct perseus_moe *moe, struct prs_round *round)
{
    const struct prs_moe_protocol *protocol = moe->mode.protocol;
    enum perseus_status status =
        protocol->end != NULL ? protocol->end(moe, round, PRS_MOE_ANSWERS) : PERSEUS_OK;
    prs_round_ended_one(moe, round);
    return status;
}

/* Every tile of `pair` is computed, and sent if tiles are. */
static enum perseus_status end_pair(struct perseus_moe *moe, struct prs_round *round,
                                    const struct prs_moe_transfer *pair)
{
    enum perseus_status status = PERSEUS_OK;
    if (prs_moe_transfers(moe, pair) == 1) {
        status = prs_moe_transfer_send(moe, round, pair);
    }
    if (status == PERSEUS_OK) {
        status = prs_moe_transfer_end(moe, round, pair);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    /* Acquire and release: with each other, so that the last one's `end` sends what all have
     * computed. */
    bool is_last = atomic_fetch_sub_explicit(&round->pairs_left, 1, memory_order_acq_rel) == 1;
    return is_last ? prs_moe_answers_ended(moe, round) : PERSEUS_OK;
}

static void note_answer(struct perseus_moe *moe, struct prs_round *round)
{
    uint64_t never = 0;
    /* Relaxed: a time for reports. */
    atomic_compare_exchange_strong_explicit(&round->first_answer_ns, &never,
                                            prs_clock_now_ns(&moe->clock), memory_order_relaxed,
                                            memory_order_relaxed);
    prs_moe_note_progress(moe);
}

static enum perseus_status answer(struct perseus_moe *moe, struct prs_round *round,
                                  const struct prs_moe_transfer *pair,
                                  const struct prs_moe_transfer *tile)
{
    note_answer(moe, round);
    if (prs_moe_transfers(moe, pair) > 1) {
        enum perseus_status status = prs_moe_transfer_send(moe, round, tile);
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    atomic_uint *left = &prs_moe_pair(moe, round, pair->pe, pair->index)->tiles_left;
    /* Acquire and release: with each other, so that the last one's signal covers every thread's
     * tile. */
    bool is_last = atomic_fetch_sub_explicit(left, 1, memory_order_acq_rel) == 1;
    return is_last ? end_pair(moe, round, pair) : PERSEUS_OK;
}

enum perseus_status prs_moe_tile(struct prs_worker *worker, const struct prs_task *task)
{
    struct perseus_moe *moe = worker->moe;
    struct prs_round *round = &moe->rounds[task->half];
    struct prs_task tasks[TILES_MAX] = {*task};
    struct prs_moe_transfer pairs[TILES_MAX], tiles[TILES_MAX];
    uint32_t count = 1;
    uint32_t room = moe->mode.communication_only ? 0 : room_beside(&moe->plan.config, task->rows);
    if (room > 0) {
        count += prs_scheduler_take_tiles(moe->scheduler, task, room, tasks + 1, TILES_MAX - 1);
    }
    for (uint32_t i = 0; i < count; i++) {
        pairs[i] =
            prs_moe_transfer_pair(moe, round, PRS_MOE_ANSWERS, tasks[i].source, tasks[i].expert);
        tiles[i] = prs_moe_transfer_tile(moe, &pairs[i], tasks[i].tile);
    }
    enum perseus_status status = run_tiles(worker, round, task->expert, tiles, count);
    for (uint32_t i = 0; i < count && status == PERSEUS_OK; i++) {
        status = answer(moe, round, &pairs[i], &tiles[i]);
    }
    return status;
}

enum perseus_status prs_moe_empty(struct prs_worker *worker, const struct prs_task *task)
{
    struct perseus_moe *moe = worker->moe;
    struct prs_round *round = &moe->rounds[task->half];
    const struct prs_moe_transfer pair =
        prs_moe_transfer_pair(moe, round, PRS_MOE_ANSWERS, task->source, task->expert);
    note_answer(moe, round);
    return end_pair(moe, round, &pair);
}
