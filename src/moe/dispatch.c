/* SPDX-License-Identifier: Apache-2.0 */
/* Sending rows to experts: staged in the order of experts, or straight into a neighbour's memory.
 */
#include <string.h>

#include "moe/bf16.h"
#include "moe/layer.h"

/* Copies `count` rows of the forward's x, from row `first` on, in the wire's type. */
static void stage(const struct perseus_moe *moe, const struct prs_round *round, uint32_t first,
                  uint32_t count, unsigned char *to)
{
    size_t hidden = moe->plan.config.hidden;
    for (uint32_t row = first; row < first + count; row++, to += moe->plan.row_bytes) {
        const float *from = round->x + round->rows.row_token[row] * hidden;
        if (moe->plan.config.wire_dtype == PERSEUS_MOE_BF16) {
            prs_bf16_row_from_f32((uint16_t *)(void *)to, from, hidden);
        } else {
            memcpy(to, from, hidden * sizeof *from);
        }
    }
}

/* All rows staged and, but in the bulk protocols, sent. */
static enum perseus_status ended(struct perseus_moe *moe, struct prs_round *round)
{
    enum perseus_status status = prs_protocol_end_dispatch(moe, round);
    if (status == PERSEUS_OK && moe->hosted == 0) { /* no pair will be answered: it is done */
        status = prs_protocol_end_answers(moe, round);
        prs_round_ended_one(moe, round);
    }
    prs_round_ended_one(moe, round);
    return status;
}

enum perseus_status prs_moe_dispatch(struct prs_worker *worker, const struct prs_task *task)
{
    struct perseus_moe *moe = worker->moe;
    struct prs_round *round = &moe->rounds[task->half];
    const struct prs_moe_plan *plan = &moe->plan;
    uint32_t pe = prs_moe_host(plan, task->expert);
    uint32_t first = round->rows.first_row[task->expert];
    uint32_t place = first - round->rows.first_row[prs_moe_first_expert(plan, pe)];
    uint32_t rows = prs_rows_of(&round->rows, task->expert);
    uint32_t tiles = prs_moe_tiles(plan, rows);
    bool direct = prs_moe_is_direct(moe, pe);
    for (uint32_t tile = 0; tile < (tiles > 0 ? tiles : 1); tile++) {
        uint32_t skipped = tile * plan->config.tile_tokens;
        void *to =
            direct ? perseus_ptr(moe->pe,
                                 prs_moe_arrival_row(moe, task->half, moe->self, place + skipped),
                                 (int)pe)
                   : prs_moe_outgoing_row(moe, task->half, first + skipped);
        if (rows > 0) {
            stage(moe, round, first + skipped, prs_moe_tile_rows(plan, rows, tile), to);
        }
        enum perseus_status status = prs_protocol_send(moe, round, task->expert, tile);
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    prs_moe_note_progress(moe);
    /* Acquire and release: with each other, so that the last one's bulk transfer sends what all
     * have staged. */
    bool is_last = atomic_fetch_sub_explicit(&round->dispatch_left, 1, memory_order_acq_rel) == 1;
    return is_last ? ended(moe, round) : PERSEUS_OK;
}
