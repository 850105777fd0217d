/* SPDX-License-Identifier: Apache-2.0 */
/* Sending rows to experts: staged in the order of experts, or straight into a neighbour's
 * memory. */
#include <string.h>

#include "moe/math/bf16.h"
#include "moe/layer.h"

/* Copies the transfer's rows of the forward's x to where they leave from, in the wire's type. */
static void stage(const struct perseus_moe *moe, const struct prs_round *round,
                  const struct prs_moe_transfer *transfer)
{
    size_t hidden = moe->plan.config.hidden;
    unsigned char *to = transfer->payload;
    for (uint32_t i = 0; i < transfer->rows.count; i++, to += moe->plan.row_bytes) {
        const float *from = round->x + round->rows.row_token[transfer->rows.first + i] * hidden;
        if (moe->plan.config.wire_dtype == PERSEUS_MOE_BF16) {
            prs_bf16_row_from_f32((uint16_t *)(void *)to, from, hidden);
        } else {
            memcpy(to, from, hidden * sizeof *from);
        }
    }
}

/* All pairs have arrived. */
static enum perseus_status ended(struct perseus_moe *moe, struct prs_round *round)
{
    const struct prs_moe_protocol *protocol = moe->mode.protocol;
    enum perseus_status status =
        protocol->end != NULL ? protocol->end(moe, round, PRS_MOE_DISPATCH) : PERSEUS_OK;
    if (status == PERSEUS_OK && moe->hosted == 0) { /* nobody will be answered */
        status = prs_moe_answers_ended(moe, round);
    }
    prs_round_ended_one(moe, round);
    return status;
}

enum perseus_status prs_moe_dispatch(struct prs_worker *worker, const struct prs_task *task)
{
    struct perseus_moe *moe = worker->moe;
    struct prs_round *round = &moe->rounds[task->half];
    uint32_t pe = prs_moe_host(&moe->plan, task->expert);
    uint32_t index = task->expert - prs_moe_first_expert(&moe->plan, pe);
    const struct prs_moe_transfer pair =
        prs_moe_transfer_pair(moe, round, PRS_MOE_DISPATCH, pe, index);
    uint32_t n = prs_moe_transfers(moe, &pair);
    enum perseus_status status = PERSEUS_OK;
    for (uint32_t i = 0; i < n && status == PERSEUS_OK; i++) {
        const struct prs_moe_transfer part = n > 1 ? prs_moe_transfer_tile(moe, &pair, i) : pair;
        stage(moe, round, &part);
        status = prs_moe_transfer_send(moe, round, &part);
    }
    if (status == PERSEUS_OK) {
        status = prs_moe_transfer_end(moe, round, &pair);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    prs_moe_note_progress(moe);
    /* Acquire and release: with each other, so that the last one's `end` sends what all have
     * staged. */
    bool is_last = atomic_fetch_sub_explicit(&round->dispatch_left, 1, memory_order_acq_rel) == 1;
    return is_last ? ended(moe, round) : PERSEUS_OK;
}
