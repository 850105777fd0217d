/* SPDX-License-Identifier: Apache-2.0 */
/* The subscriber: signal words that have arrived become tasks. One thread at a time is here. */
#include "core/wait.h"
#include "moe/layer.h"

/* A word that names rows the plan has no room for would send tiles into foreign memory. */
static enum perseus_status check_word(const struct perseus_moe *moe, uint32_t source,
                                      const struct prs_word *word)
{
    const struct prs_moe_plan *plan = &moe->plan;
    if (word->rows > plan->rows_per_expert || word->place + word->rows > plan->rows_per_pair ||
        word->base + word->rows > plan->rows_out) {
        return prs_fail(prs_moe_log(moe), PERSEUS_PROTOCOL,
                        "moe: PE %u announced %u rows at %u (answers to %u), more than the layer's "
                        "plan allows; do all PEs run the same program?",
                        source, word->rows, word->place, word->base);
    }
    return PERSEUS_OK;
}

/* All signals of a pair are here. To be called before its last tiles are handed out: they may end
 * the forward, and its times with it. */
static void complete(struct perseus_moe *moe, struct prs_round *round)
{
    if (--round->pairs_unseen == 0) {
        round->last_arrival_ns = prs_clock_now_ns(&moe->clock);
    }
}

/* A pair's first signal: how much is coming. */
static enum perseus_status meet(const struct perseus_moe *moe, struct prs_round *round,
                                uint32_t source, struct prs_pair *pair, const struct prs_word *word)
{
    enum perseus_status status = check_word(moe, source, word);
    if (status != PERSEUS_OK) {
        return status;
    }
    uint32_t tiles = prs_moe_tiles(&moe->plan, word->rows);
    pair->rows = word->rows;
    pair->base = word->base;
    pair->place = word->place;
    pair->tiles = tiles > 0 ? tiles : 1;
    /* Relaxed: published with the pair's first task, and counted down after it. */
    atomic_store_explicit(&pair->tiles_left, pair->tiles, memory_order_relaxed);
    atomic_fetch_add_explicit(&round->rows_received, word->rows, memory_order_relaxed);
    return PERSEUS_OK;
}

/* The source has no rows for this expert: there is nothing to compute before the answer. */
static enum perseus_status answer_empty(struct perseus_moe *moe, struct prs_round *round,
                                        uint32_t source, uint32_t hosted)
{
    bool is_last;
    enum perseus_status status = prs_protocol_answer(moe, round, source, hosted, 0, &is_last);
    return status == PERSEUS_OK ? prs_moe_pair_answered(moe, round) : status;
}

/* Tiles of one pair, as far as their signals are here. */
static enum perseus_status look_at_pair(struct perseus_moe *moe, struct prs_round *round,
                                        uint32_t source, uint32_t hosted, bool *out_found)
{
    struct prs_pair *pair = prs_moe_pair(moe, round, source, hosted);
    do {
        struct prs_word word = prs_word_unpack(perseus_signal_fetch(
            prs_moe_dispatch_signal(moe, round->half, source, pair->next_tile, hosted)));
        if (word.tag != round->tag) {
            return PERSEUS_OK;
        }
        *out_found = true;
        if (pair->tiles == 0) {
            enum perseus_status status = meet(moe, round, source, pair, &word);
            if (status != PERSEUS_OK) {
                return status;
            }
        }
        uint32_t tile = pair->next_tile;
        pair->next_tile = word.whole ? pair->tiles : tile + 1;
        if (pair->next_tile == pair->tiles) {
            complete(moe, round);
        }
        for (uint32_t end = pair->next_tile; tile < end && pair->rows > 0; tile++) {
            const struct prs_task task = {.kind = PRS_TASK_TILE,
                                          .half = round->half,
                                          .expert = hosted,
                                          .source = source,
                                          .tile = tile,
                                          .rows = prs_moe_tile_rows(&moe->plan, pair->rows, tile)};
            prs_scheduler_push(moe->scheduler, &task, !prs_moe_is_direct(moe, source));
        }
    } while (pair->next_tile < pair->tiles);
    return pair->rows == 0 ? answer_empty(moe, round, source, hosted) : PERSEUS_OK;
}

/* The answered rows of a tile: token tiles that were waiting for the last of them are ready. */
static void note_answered(struct perseus_moe *moe, struct prs_round *round, uint32_t expert,
                          uint32_t tile)
{
    const struct prs_moe_plan *plan = &moe->plan;
    uint32_t rows = prs_rows_of(&round->rows, expert);
    if (rows == 0) {
        return;
    }
    struct prs_task task = {
        .kind = PRS_TASK_ADD, .half = round->half, .expert = expert, .tile = tile};
    if (plan->config.relaxed) {
        /* Relaxed: this phase is still counted itself. */
        atomic_fetch_add_explicit(&round->left, 1, memory_order_relaxed);
        prs_scheduler_push(moe->scheduler, &task, false);
        return;
    }
    uint32_t first = round->rows.first_row[expert] + tile * plan->config.tile_tokens;
    uint32_t count = prs_moe_tile_rows(plan, rows, tile);
    task.kind = PRS_TASK_COMBINE;
    for (uint32_t row = first; row < first + count; row++) {
        task.tile = round->rows.row_token[row] / plan->config.tile_tokens;
        /* Acquire and release: with prs_moe_shared, so that COMBINE sees y and the rows. */
        if (atomic_fetch_sub_explicit(&round->tile_left[task.tile], 1, memory_order_acq_rel) == 1) {
            prs_scheduler_push(moe->scheduler, &task, false);
        }
    }
}

/* Answers of one expert, as far as their signals are here. Whether that was the last of them. */
static bool look_at_expert(struct perseus_moe *moe, struct prs_round *round, uint32_t expert,
                           bool *out_found)
{
    uint32_t *next = &round->answer_next[expert];
    uint32_t tiles = prs_moe_tiles(&moe->plan, prs_rows_of(&round->rows, expert));
    tiles = tiles > 0 ? tiles : 1;
    if (*next == tiles) {
        return false;
    }
    while (*next < tiles) {
        struct prs_word word = prs_word_unpack(
            perseus_signal_fetch(prs_moe_answer_signal(moe, round->half, *next, expert)));
        if (word.tag != round->tag) {
            return false;
        }
        *out_found = true;
        for (uint32_t end = word.whole ? tiles : *next + 1; *next < end; (*next)++) {
            note_answered(moe, round, expert, *next);
        }
    }
    return true;
}

static enum perseus_status look_at_arrivals(struct perseus_moe *moe, struct prs_round *round,
                                            bool *out_found)
{
    for (uint32_t source = 0; source < moe->plan.n_pes && round->pairs_unseen > 0; source++) {
        for (uint32_t hosted = 0; hosted < moe->hosted; hosted++) {
            const struct prs_pair *pair = prs_moe_pair(moe, round, source, hosted);
            if (pair->tiles > 0 && pair->next_tile == pair->tiles) {
                continue;
            }
            enum perseus_status status = look_at_pair(moe, round, source, hosted, out_found);
            if (status != PERSEUS_OK) {
                return status;
            }
        }
    }
    return PERSEUS_OK;
}

static void look_at_answers(struct perseus_moe *moe, struct prs_round *round, bool *out_found)
{
    for (uint32_t expert = 0; expert < moe->plan.config.experts; expert++) {
        if (look_at_expert(moe, round, expert, out_found) && --round->answers_unseen == 0) {
            round->last_answer_ns = prs_clock_now_ns(&moe->clock);
            prs_round_ended_one(moe, round);
            return; /* the forward may be over, and its tables the next one's */
        }
    }
}

enum perseus_status prs_moe_scan(struct prs_worker *worker, bool *out_found)
{
    struct perseus_moe *moe = worker->moe;
    enum perseus_status status = PERSEUS_OK;
    bool found = false;
    *out_found = false;
    if (pthread_mutex_trylock(&moe->scan_mutex) != 0) {
        return PERSEUS_OK; /* somebody else looks, or a forward begins */
    }
    for (uint32_t half = 0; half < PRS_MOE_HALVES && status == PERSEUS_OK; half++) {
        struct prs_round *round = &moe->rounds[half];
        /* Acquire: with prs_round_begin; and the doors with prs_protocol_end_*. */
        if (!atomic_load_explicit(&round->is_active, memory_order_acquire)) {
            continue;
        }
        if (round->pairs_unseen > 0 &&
            atomic_load_explicit(&round->arrivals_open, memory_order_acquire)) {
            status = look_at_arrivals(moe, round, &found);
        }
        if (status == PERSEUS_OK && round->answers_unseen > 0 &&
            atomic_load_explicit(&round->answers_open, memory_order_acquire)) {
            look_at_answers(moe, round, &found);
        }
    }
    pthread_mutex_unlock(&moe->scan_mutex);
    if (found) {
        prs_moe_note_progress(moe);
    }
    *out_found = found;
    return status;
}
