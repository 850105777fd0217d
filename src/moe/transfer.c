/* SPDX-License-Identifier: Apache-2.0 */
#include "moe/transfer.h"

#include "moe/layer.h"

uint64_t *prs_moe_signal(const struct perseus_moe *moe, uint32_t half, enum prs_moe_way way,
                         uint32_t index)
{
    return way == PRS_MOE_DISPATCH ? prs_moe_dispatch_signal(moe, half, moe->self, 0, index)
                                   : prs_moe_answer_signal(moe, half, 0, moe->first + index);
}

/* Words of one expert's tiles are this far apart (plan.h). */
static size_t words_to_next_tile(const struct prs_moe_plan *plan, enum prs_moe_way way)
{
    return way == PRS_MOE_DISPATCH ? prs_moe_dispatch_word(plan, 0, 1, 0)
                                   : prs_moe_answer_word(plan, 1, 0);
}

/* What the pair's signals say. */
static struct prs_moe_word word_of(const struct perseus_moe *moe, const struct prs_round *round,
                                   enum prs_moe_way way, uint32_t pe, uint32_t index)
{
    struct prs_moe_word word = {.tag = round->tag, .whole = true};
    if (way == PRS_MOE_DISPATCH) {
        uint32_t first = prs_moe_first_expert(&moe->plan, pe);
        word.rows = prs_rows_of(&round->rows, first + index);
        word.base = round->rows.first_row[first + index];
        word.place = word.base - round->rows.first_row[first];
    } else {
        const struct prs_pair *pair = prs_moe_pair(moe, round, pe, index);
        word.rows = pair->rows;
        word.base = pair->base;
        word.place = pair->place;
    }
    return word;
}

struct prs_moe_transfer prs_moe_transfer_pair(const struct perseus_moe *moe,
                                              const struct prs_round *round, enum prs_moe_way way,
                                              uint32_t pe, uint32_t index)
{
    const struct prs_moe_word word = word_of(moe, round, way, pe, index);
    bool is_dispatch = way == PRS_MOE_DISPATCH;
    void *staged = prs_moe_outgoing_row(moe, round->half, word.base);
    void *arrived = prs_moe_arrival_row(moe, round->half, is_dispatch ? moe->self : pe, word.place);
    struct prs_moe_transfer pair = {
        .way = way,
        .pe = pe,
        .index = index,
        .is_direct = prs_moe_is_direct(moe, pe),
        .rows = {.first = word.base, .count = word.rows},
        .dst = is_dispatch ? arrived : staged,
        .src = is_dispatch ? staged : arrived,
        .bytes = word.rows * moe->plan.row_bytes,
        .signal = prs_moe_signal(moe, round->half, way, index),
        .word = word,
    };
    pair.payload = pair.is_direct ? perseus_ptr(moe->pe, pair.dst, (int)pe) : pair.src;
    return pair;
}

struct prs_moe_transfer prs_moe_transfer_tile(const struct perseus_moe *moe,
                                              const struct prs_moe_transfer *pair, uint32_t tile)
{
    const struct prs_moe_plan *plan = &moe->plan;
    uint32_t skipped = tile * plan->config.tile_tokens;
    size_t skipped_bytes = skipped * plan->row_bytes;
    struct prs_moe_transfer part = *pair;
    part.rows.first += skipped;
    part.rows.count = prs_moe_tile_rows(plan, pair->rows.count, tile);
    part.dst = (char *)pair->dst + skipped_bytes;
    part.src = (char *)pair->src + skipped_bytes;
    part.payload = (char *)pair->payload + skipped_bytes;
    part.bytes = part.rows.count * plan->row_bytes;
    part.signal = pair->signal + tile * words_to_next_tile(plan, pair->way);
    part.word.whole = false;
    return part;
}

uint32_t prs_moe_transfers(const struct perseus_moe *moe, const struct prs_moe_transfer *pair)
{
    uint32_t tiles = prs_moe_tiles(&moe->plan, pair->rows.count);
    return moe->mode.is_by_tile[pair->way] && tiles > 0 ? tiles : 1;
}

enum perseus_status prs_moe_transfer_send(struct perseus_moe *moe, const struct prs_round *round,
                                          const struct prs_moe_transfer *transfer)
{
    if (transfer->is_direct) { /* the payload is there; the signal publishes it */
        return perseus_put_signal_nbi(moe->pe, transfer->dst, transfer->src, 0, transfer->signal,
                                      prs_moe_word_pack(transfer->word), PERSEUS_SIGNAL_SET,
                                      (int)transfer->pe);
    }
    return moe->mode.protocol->send(moe, round, transfer);
}

enum perseus_status prs_moe_transfer_end(struct perseus_moe *moe, const struct prs_round *round,
                                         const struct prs_moe_transfer *pair)
{
    const struct prs_moe_protocol *protocol = moe->mode.protocol;
    return pair->is_direct || protocol->arrive == NULL ? PERSEUS_OK
                                                       : protocol->arrive(moe, round, pair);
}
