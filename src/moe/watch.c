/* SPDX-License-Identifier: Apache-2.0 */
/* The subscriber: signal words that have arrived become tasks. One thread at a time is here. */
#include "core/wait.h"
#include "moe/layer.h"

/* A word that names rows the plan has no room for would send tiles into foreign memory. */
static enum perseus_status check_word(const struct perseus_moe *moe, uint32_t source,
                                      const struct prs_moe_word *word)
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
                                uint32_t source, struct prs_pair *pair,
                                const struct prs_moe_word *word)
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

/*
 * Whether the word is one that was taken when this half was last used. A fabric that does not know
 * its provider well may let a word be stored twice (fabric.h: signals_repeat), and the second store
 * come behind our taking it. The next forward that uses the slot finds it so.
 */
static bool is_echo(const struct prs_round *round, const struct prs_moe_word *word)
{
    return round->forward >= PRS_MOE_HALVES &&
           word->tag == prs_moe_word_tag(round->forward - PRS_MOE_HALVES);
}

/* Takes the word out of `signal`, if one is there: the next one is only sent behind our answer, so
 * a word that was taken is never met again, however many forwards later the slot is used. */
static enum perseus_status take_word(const struct perseus_moe *moe, const struct prs_round *round,
                                     uint64_t *signal, struct prs_moe_word *out)
{
    uint64_t bits = perseus_signal_fetch(signal);
    *out = prs_moe_word_unpack(bits);
    if (out->tag == PRS_MOE_WORD_NONE) {
        return PERSEUS_OK;
    }
    if (is_echo(round, out)) {
        /* Only that word: the forward's own may come any moment. Relaxed: it says nothing. */
        __atomic_compare_exchange_n(signal, &bits, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        *out = (struct prs_moe_word){0};
        return PERSEUS_OK;
    }
    if (out->tag != round->tag) {
        return prs_fail(
            prs_moe_log(moe), PERSEUS_PROTOCOL,
            "moe: forward %llu found a signal of another forward (tag %u, expected %u); do "
            "all PEs run the same program?",
            (unsigned long long)round->forward, out->tag, round->tag);
    }
    /* Relaxed: the other side writes again when it has seen our answer, which comes behind this. */
    __atomic_store_n(signal, 0, __ATOMIC_RELAXED);
    return PERSEUS_OK;
}

/* Tasks for tiles [tile, end) of a pair; or, if it has no rows, for its answer alone. */
static void push_tiles(struct perseus_moe *moe, const struct prs_round *round, uint32_t source,
                       uint32_t hosted, uint32_t tile, uint32_t end)
{
    uint32_t rows = prs_moe_pair(moe, round, source, hosted)->rows;
    struct prs_task task = {.kind = rows > 0 ? PRS_TASK_TILE : PRS_TASK_EMPTY,
                            .half = round->half,
                            .expert = hosted,
                            .source = source};
    for (; tile < end; tile++) {
        task.tile = tile;
        task.rows = prs_moe_tile_rows(&moe->plan, rows, tile);
        prs_scheduler_push(moe->scheduler, &task, !prs_moe_is_direct(moe, source));
    }
}

/* Tiles of one pair, as far as their signals are here. */
static enum perseus_status look_at_pair(struct perseus_moe *moe, struct prs_round *round,
                                        uint32_t source, uint32_t hosted, bool *out_found)
{
    struct prs_pair *pair = prs_moe_pair(moe, round, source, hosted);
    do {
        struct prs_moe_word word;
        uint32_t tile = pair->next_tile;
        enum perseus_status status = take_word(
            moe, round, prs_moe_dispatch_signal(moe, round->half, source, tile, hosted), &word);
        if (status == PERSEUS_OK && word.tag != PRS_MOE_WORD_NONE && pair->tiles == 0) {
            status = meet(moe, round, source, pair, &word);
        }
        if (status != PERSEUS_OK || word.tag == PRS_MOE_WORD_NONE) {
            return status;
        }
        *out_found = true;
        uint32_t end = word.whole ? pair->tiles : tile + 1;
        pair->next_tile = end;
        if (end == pair->tiles) {
            complete(moe, round);
        }
        push_tiles(moe, round, source, hosted, tile, end); /* the last may end the forward */
    } while (pair->next_tile < pair->tiles);
    return PERSEUS_OK;
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

/* Answers of one expert, as far as their signals are here. *out_is_last: whether that was all. */
static enum perseus_status look_at_expert(struct perseus_moe *moe, struct prs_round *round,
                                          uint32_t expert, bool *out_found, bool *out_is_last)
{
    uint32_t *next = &round->answer_next[expert];
    uint32_t tiles = prs_moe_tiles(&moe->plan, prs_rows_of(&round->rows, expert));
    tiles = tiles > 0 ? tiles : 1;
    *out_is_last = false;
    if (*next == tiles) {
        return PERSEUS_OK;
    }
    while (*next < tiles) {
        struct prs_moe_word word;
        enum perseus_status status =
            take_word(moe, round, prs_moe_answer_signal(moe, round->half, *next, expert), &word);
        if (status != PERSEUS_OK || word.tag == PRS_MOE_WORD_NONE) {
            return status;
        }
        *out_found = true;
        for (uint32_t end = word.whole ? tiles : *next + 1; *next < end; (*next)++) {
            note_answered(moe, round, expert, *next);
        }
    }
    *out_is_last = true;
    return PERSEUS_OK;
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

static enum perseus_status look_at_answers(struct perseus_moe *moe, struct prs_round *round,
                                           bool *out_found)
{
    for (uint32_t expert = 0; expert < moe->plan.config.experts; expert++) {
        bool is_last;
        enum perseus_status status = look_at_expert(moe, round, expert, out_found, &is_last);
        if (status != PERSEUS_OK) {
            return status;
        }
        if (is_last && --round->answers_unseen == 0) {
            round->last_answer_ns = prs_clock_now_ns(&moe->clock);
            prs_round_ended_one(moe, round);
            break; /* the forward may be over, and its tables the next one's */
        }
    }
    return PERSEUS_OK;
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
        /* Acquire: with prs_round_begin; and `open` with the protocol's end. */
        if (!atomic_load_explicit(&round->is_active, memory_order_acquire)) {
            continue;
        }
        if (round->pairs_unseen > 0 &&
            atomic_load_explicit(&round->open[PRS_MOE_DISPATCH], memory_order_acquire)) {
            status = look_at_arrivals(moe, round, &found);
        }
        if (status == PERSEUS_OK && round->answers_unseen > 0 &&
            atomic_load_explicit(&round->open[PRS_MOE_ANSWERS], memory_order_acquire)) {
            status = look_at_answers(moe, round, &found);
        }
    }
    pthread_mutex_unlock(&moe->scan_mutex);
    if (found) {
        prs_moe_note_progress(moe);
    }
    *out_found = found;
    return status;
}
