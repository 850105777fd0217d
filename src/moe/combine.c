/* SPDX-License-Identifier: Apache-2.0 */
/* Adding up: y = shared experts, then every choice's answer times its weight, in the order of the
 * choices; with relaxed, in the order of arrival. */
#include <string.h>

#include "moe/math/bf16.h"
#include "moe/layer.h"

/* to += weight * row */
static void add_row(const struct prs_moe_plan *plan, float *to, const void *row, float weight)
{
    uint32_t hidden = plan->config.hidden;
    if (plan->config.wire_dtype == PERSEUS_MOE_BF16) {
        const uint16_t *bits = row;
        for (uint32_t i = 0; i < hidden; i++) {
            to[i] += weight * prs_bf16_to_f32(bits[i]);
        }
    } else {
        const float *values = row;
        for (uint32_t i = 0; i < hidden; i++) {
            to[i] += weight * values[i];
        }
    }
}

enum perseus_status prs_moe_combine(struct prs_worker *worker, const struct prs_task *task)
{
    struct perseus_moe *moe = worker->moe;
    struct prs_round *round = &moe->rounds[task->half];
    const struct perseus_moe_config *config = &moe->plan.config;
    uint32_t first = task->tile * config->tile_tokens;
    uint32_t tokens = prs_moe_tile_rows(&moe->plan, round->tokens, task->tile);
    for (uint32_t token = first; token < first + tokens; token++) {
        float *y = round->y + (size_t)token * config->hidden;
        if (config->shared_experts == 0 || moe->mode.communication_only) {
            memset(y, 0, config->hidden * sizeof *y);
        }
        for (uint32_t j = 0; j < config->top_k; j++) {
            size_t choice = (size_t)token * config->top_k + j;
            uint32_t row = round->rows.row_of[choice];
            if (row != PRS_ROWS_NONE) {
                add_row(&moe->plan, y, prs_moe_outgoing_row(moe, task->half, row),
                        round->weights[choice]);
            }
        }
    }
    prs_round_ended_one(moe, round);
    return PERSEUS_OK;
}

/* The weight of the choice that made `row`. */
static float weight_of(const struct prs_moe_plan *plan, const struct prs_round *round, uint32_t row)
{
    size_t choice = (size_t)round->rows.row_token[row] * plan->config.top_k;
    while (round->rows.row_of[choice] != row) {
        choice++;
    }
    return round->weights[choice];
}

enum perseus_status prs_moe_add(struct prs_worker *worker, const struct prs_task *task)
{
    struct perseus_moe *moe = worker->moe;
    struct prs_round *round = &moe->rounds[task->half];
    uint32_t rows = prs_rows_of(&round->rows, task->expert);
    uint32_t first =
        round->rows.first_row[task->expert] + task->tile * moe->plan.config.tile_tokens;
    uint32_t count = prs_moe_tile_rows(&moe->plan, rows, task->tile);
    pthread_mutex_lock(&round->add_mutex);
    for (uint32_t row = first; row < first + count; row++) {
        float *y = round->y + (size_t)round->rows.row_token[row] * moe->plan.config.hidden;
        add_row(&moe->plan, y, prs_moe_outgoing_row(moe, task->half, row),
                weight_of(&moe->plan, round, row));
    }
    pthread_mutex_unlock(&round->add_mutex);
    prs_round_ended_one(moe, round);
    return PERSEUS_OK;
}

/* bench->rows_out = shared expert `index` of the tile's tokens. */
static enum perseus_status run_shared(struct prs_worker *worker, struct prs_round *round,
                                      const struct prs_task *task, uint32_t index, uint32_t tokens)
{
    const struct perseus_moe *moe = worker->moe;
    const float *x =
        round->x + (size_t)task->tile * moe->plan.config.tile_tokens * moe->plan.config.hidden;
    const struct prs_expert_rows rows = {.count = tokens, .in = x, .out = worker->bench.rows_out};
    return prs_worker_multiply(worker, round, moe->hosted + index, &rows, 1, PERSEUS_MOE_F32);
}

enum perseus_status prs_moe_shared(struct prs_worker *worker, const struct prs_task *task)
{
    struct perseus_moe *moe = worker->moe;
    struct prs_round *round = &moe->rounds[task->half];
    const struct perseus_moe_config *config = &moe->plan.config;
    uint32_t tokens = prs_moe_tile_rows(&moe->plan, round->tokens, task->tile);
    size_t items = (size_t)tokens * config->hidden;
    float *y = round->y + (size_t)task->tile * config->tile_tokens * config->hidden;
    for (uint32_t index = 0; index < config->shared_experts && !moe->mode.communication_only;
         index++) {
        enum perseus_status status = run_shared(worker, round, task, index, tokens);
        if (status != PERSEUS_OK) {
            return status;
        }
        const float *result = worker->bench.rows_out;
        pthread_mutex_lock(&round->add_mutex); /* with relaxed, answers are added meanwhile */
        for (size_t i = 0; i < items; i++) {
            y[i] = index == 0 && !config->relaxed ? result[i] : y[i] + result[i];
        }
        pthread_mutex_unlock(&round->add_mutex);
    }
    if (config->relaxed) {
        prs_round_ended_one(moe, round);
        return PERSEUS_OK;
    }
    /* Acquire and release: with note_answered of watch.c, so that COMBINE sees y and the rows. */
    if (atomic_fetch_sub_explicit(&round->tile_left[task->tile], 1, memory_order_acq_rel) == 1) {
        struct prs_task next = *task;
        next.kind = PRS_TASK_COMBINE;
        prs_scheduler_push(moe->scheduler, &next, false);
    }
    return PERSEUS_OK;
}
