/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What differs between the protocols.
 *
 *   coupled     every tile: payload and its own signal
 *   decoupled   tiles, and one fence and all signals when a group (by default: all experts of one
 *               PE) is through; the group's first signal of an expert stands for all its tiles
 *   put-only    tiles; one quiet when all are sent; then the signals, one message a PE
 *   collective  nothing until all is staged; one transfer and one message of signals a PE; a
 *               barrier; nobody looks before
 *
 * PEs that share memory (but for collective, which treats all alike) get every tile's signal at
 * once. An expert without rows gets a signal too, and is answered: so every PE knows, without
 * counting messages, when it has heard of everybody, and when its buffers are free again.
 */
#include <stdlib.h>

#include "moe/layer.h"

/* ---- signal groups ---- */

/* Remote experts in the order of `pe` and number, as members: what dispatch signals. */
struct prs_groups_build {
    const struct perseus_moe *moe;
    struct prs_groups *groups;
    struct perseus_signal_group_member *members; /* of the group being collected */
    struct prs_membership **places;
    uint32_t n_members;
};

static enum perseus_status prs_groups_close(struct prs_groups_build *build)
{
    if (build->n_members == 0) {
        return PERSEUS_OK;
    }
    const struct perseus_signal_group_attr attr = {
        .members = build->members,
        .n_members = build->n_members,
        .op = PERSEUS_SIGNAL_SET,
        .vector = build->moe->plan.config.vector_signals,
    };
    struct perseus_signal_group *group;
    enum perseus_status status = perseus_signal_group_create(build->moe->pe, &attr, &group);
    if (status != PERSEUS_OK) {
        return status;
    }
    build->groups->groups[build->groups->n_groups++] = group;
    for (uint32_t i = 0; i < build->n_members; i++) {
        *build->places[i] = (struct prs_membership){.group = group, .member = i};
    }
    build->n_members = 0;
    return PERSEUS_OK;
}

/* If no size was asked for. Signals wait for their whole group: one of many experts saves fences, but
 * keeps the receiver idle until the last of them is through. */
#define PRS_GROUP_EXPERTS_MAX 8

/* Groups end with the number of experts that was asked for; if none was, also with their PE. */
static enum perseus_status prs_groups_add(struct prs_groups_build *build, uint32_t pe,
                                          uint64_t *signal, struct prs_membership *place)
{
    uint32_t asked = build->moe->plan.config.group_experts;
    bool is_full = build->n_members == (asked > 0 ? asked : PRS_GROUP_EXPERTS_MAX);
    bool is_other = asked == 0 && build->n_members > 0 && build->members[0].target != (int)pe;
    if (is_full || is_other) {
        enum perseus_status status = prs_groups_close(build);
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    build->members[build->n_members] =
        (struct perseus_signal_group_member){.target = (int)pe, .signal = signal};
    build->places[build->n_members++] = place;
    return PERSEUS_OK;
}

static enum perseus_status prs_groups_of_half(struct prs_groups_build *build, uint32_t half)
{
    const struct perseus_moe *moe = build->moe;
    enum perseus_status status = PERSEUS_OK;
    for (uint32_t pe = 0; pe < moe->plan.n_pes; pe++) {
        uint32_t first = prs_moe_first_expert(&moe->plan, pe);
        for (uint32_t i = 0; i < prs_moe_hosted(&moe->plan, pe) && status == PERSEUS_OK; i++) {
            if (!prs_moe_is_direct(moe, pe)) {
                status =
                    prs_groups_add(build, pe, prs_moe_dispatch_signal(moe, half, moe->self, 0, i),
                                   &build->groups->dispatch[half][first + i]);
            }
        }
    }
    if (status == PERSEUS_OK) {
        status = prs_groups_close(build);
    }
    for (uint32_t pe = 0; pe < moe->plan.n_pes; pe++) {
        for (uint32_t i = 0; i < moe->hosted && status == PERSEUS_OK; i++) {
            if (!prs_moe_is_direct(moe, pe)) {
                status =
                    prs_groups_add(build, pe, prs_moe_answer_signal(moe, half, 0, moe->first + i),
                                   &build->groups->answer[half][pe * moe->hosted + i]);
            }
        }
    }
    return status == PERSEUS_OK ? prs_groups_close(build) : status;
}

enum perseus_status prs_groups_init(struct prs_groups *groups, const struct perseus_moe *moe)
{
    *groups = (struct prs_groups){0};
    if (moe->plan.config.protocol != PERSEUS_MOE_DECOUPLED) {
        return PERSEUS_OK;
    }
    size_t experts = moe->plan.config.experts, pairs = (size_t)moe->plan.n_pes * moe->hosted;
    size_t members_max = experts > pairs ? experts : pairs;
    struct prs_groups_build build = {.moe = moe, .groups = groups};
    build.members = calloc(members_max, sizeof *build.members);
    build.places = calloc(members_max, sizeof *build.places);
    groups->groups = calloc(PRS_MOE_HALVES * (experts + pairs), sizeof *groups->groups);
    bool is_complete = build.members != NULL && build.places != NULL && groups->groups != NULL;
    for (uint32_t half = 0; half < PRS_MOE_HALVES; half++) {
        groups->dispatch[half] = calloc(experts, sizeof *groups->dispatch[half]);
        groups->answer[half] = calloc(pairs + 1, sizeof *groups->answer[half]);
        is_complete = is_complete && groups->dispatch[half] != NULL && groups->answer[half] != NULL;
    }
    enum perseus_status status =
        is_complete ? PERSEUS_OK
                    : prs_fail(prs_moe_log(moe), PERSEUS_OUT_OF_MEMORY,
                               "moe: no memory for signal groups of %zu experts", experts);
    for (uint32_t half = 0; half < PRS_MOE_HALVES && status == PERSEUS_OK; half++) {
        status = prs_groups_of_half(&build, half);
    }
    free(build.members);
    free(build.places);
    return status;
}

void prs_groups_finish(struct prs_groups *groups)
{
    for (uint32_t i = 0; i < groups->n_groups; i++) {
        perseus_signal_group_destroy(groups->groups[i]);
    }
    for (uint32_t half = 0; half < PRS_MOE_HALVES; half++) {
        free(groups->dispatch[half]);
        free(groups->answer[half]);
    }
    free(groups->groups);
    *groups = (struct prs_groups){0};
}

/* ---- tile by tile ---- */

enum perseus_status prs_protocol_send(struct perseus_moe *moe, const struct prs_round *round,
                                      uint32_t expert, uint32_t tile)
{
    const struct prs_moe_plan *plan = &moe->plan;
    uint32_t pe = prs_moe_host(plan, expert), hosted = expert - prs_moe_first_expert(plan, pe);
    uint32_t rows = prs_rows_of(&round->rows, expert), half = round->half;
    uint32_t first = round->rows.first_row[expert] + tile * plan->config.tile_tokens;
    uint32_t tiles = prs_moe_tiles(plan, rows);
    struct prs_word word = prs_protocol_dispatch_word(moe, round, expert);
    void *dst = prs_moe_arrival_row(moe, half, moe->self, word.place + (first - word.base));
    const void *src = prs_moe_outgoing_row(moe, half, first);
    size_t bytes = rows == 0 ? 0 : prs_moe_tile_rows(plan, rows, tile) * plan->row_bytes;
    uint64_t *signal = prs_moe_dispatch_signal(moe, half, moe->self, tile, hosted);
    if (prs_moe_is_direct(moe, pe)) { /* the rows are there; the signal publishes them */
        return perseus_put_signal_nbi(moe->pe, dst, src, 0, signal, prs_word_pack(word),
                                      PERSEUS_SIGNAL_SET, (int)pe);
    }
    const struct prs_membership *place;
    switch (plan->config.protocol) {
    case PERSEUS_MOE_COUPLED:
        return perseus_put_signal_nbi(moe->pe, dst, src, bytes, signal, prs_word_pack(word),
                                      PERSEUS_SIGNAL_SET, (int)pe);
    case PERSEUS_MOE_DECOUPLED:
        place = &moe->groups.dispatch[half][expert];
        if (tile + 1 < tiles) {
            return perseus_signal_group_put_more(place->group, place->member, dst, src, bytes);
        }
        word.whole = true;
        return perseus_signal_group_put(place->group, place->member, dst, src, bytes,
                                        prs_word_pack(word));
    case PERSEUS_MOE_PUT_ONLY:
        return perseus_put_nbi(moe->pe, dst, src, bytes, (int)pe);
    default:
        return PERSEUS_OK; /* collective: with all the others */
    }
}

/* The tiles of a pair may be answered by several threads, but a group's member has one at a time:
 * all put their payload themselves, and the last one arrives for the pair. */
static enum perseus_status prs_protocol_answer_group(struct perseus_moe *moe,
                                                     const struct prs_round *round, uint32_t source,
                                                     uint32_t hosted, void *dst, const void *src,
                                                     size_t bytes, bool *out_is_last)
{
    struct prs_pair *pair = prs_moe_pair(moe, round, source, hosted);
    const struct prs_membership *place =
        &moe->groups.answer[round->half][source * moe->hosted + hosted];
    const struct prs_word word = {.tag = round->tag, .whole = true, .rows = pair->rows};
    enum perseus_status status = PERSEUS_OK;
    if (pair->tiles > 1) {
        status = perseus_put_nbi(moe->pe, dst, src, bytes, (int)source);
        bytes = 0;
    }
    /* Acquire and release: with each other, so that the group's fence covers every thread's put. */
    *out_is_last = atomic_fetch_sub_explicit(&pair->tiles_left, 1, memory_order_acq_rel) == 1;
    return status == PERSEUS_OK && *out_is_last
               ? perseus_signal_group_put(place->group, place->member, dst, src, bytes,
                                          prs_word_pack(word))
               : status;
}

enum perseus_status prs_protocol_answer(struct perseus_moe *moe, const struct prs_round *round,
                                        uint32_t source, uint32_t hosted, uint32_t tile,
                                        bool *out_is_last)
{
    const struct prs_moe_plan *plan = &moe->plan;
    struct prs_pair *pair = prs_moe_pair(moe, round, source, hosted);
    uint32_t skipped = tile * plan->config.tile_tokens;
    void *dst = prs_moe_outgoing_row(moe, round->half, pair->base + skipped);
    const void *src = prs_moe_arrival_row(moe, round->half, source, pair->place + skipped);
    size_t bytes =
        pair->rows == 0 ? 0 : prs_moe_tile_rows(plan, pair->rows, tile) * plan->row_bytes;
    uint64_t *signal = prs_moe_answer_signal(moe, round->half, tile, moe->first + hosted);
    const struct prs_word word = {.tag = round->tag, .rows = pair->rows};
    bool direct = prs_moe_is_direct(moe, source);
    enum perseus_status status = PERSEUS_OK;
    if (!direct && plan->config.protocol == PERSEUS_MOE_DECOUPLED) {
        return prs_protocol_answer_group(moe, round, source, hosted, dst, src, bytes, out_is_last);
    }
    if (direct || plan->config.protocol == PERSEUS_MOE_COUPLED) {
        status = perseus_put_signal_nbi(moe->pe, dst, src, direct ? 0 : bytes, signal,
                                        prs_word_pack(word), PERSEUS_SIGNAL_SET, (int)source);
    } else if (plan->config.protocol == PERSEUS_MOE_PUT_ONLY) {
        status = perseus_put_nbi(moe->pe, dst, src, bytes, (int)source);
    }
    /* Acquire and release: with each other; the last one's bulk transfer sends what all computed.
     */
    *out_is_last = atomic_fetch_sub_explicit(&pair->tiles_left, 1, memory_order_acq_rel) == 1;
    return status;
}

/* ---- in bulk ---- */

struct prs_word prs_protocol_dispatch_word(const struct perseus_moe *moe,
                                           const struct prs_round *round, uint32_t expert)
{
    uint32_t pe = prs_moe_host(&moe->plan, expert);
    uint32_t base = round->rows.first_row[expert];
    uint32_t first = round->rows.first_row[prs_moe_first_expert(&moe->plan, pe)];
    return (struct prs_word){.tag = round->tag,
                             .rows = prs_rows_of(&round->rows, expert),
                             .base = base,
                             .place = base - first};
}

/* The signals for one PE's experts, which stand for all tiles. */
static enum perseus_status prs_bulk_signal_dispatch(struct perseus_moe *moe,
                                                    const struct prs_round *round, uint32_t pe)
{
    uint64_t words[64];
    uint32_t first = prs_moe_first_expert(&moe->plan, pe);
    uint32_t hosted = prs_moe_hosted(&moe->plan, pe);
    enum perseus_status status = PERSEUS_OK;
    for (uint32_t at = 0, some; at < hosted && status == PERSEUS_OK; at += some) {
        some = hosted - at < 64 ? hosted - at : 64;
        for (uint32_t i = 0; i < some; i++) {
            struct prs_word word = prs_protocol_dispatch_word(moe, round, first + at + i);
            word.whole = true;
            words[i] = prs_word_pack(word);
        }
        status = perseus_signal_set_vector(
            moe->pe, prs_moe_dispatch_signal(moe, round->half, moe->self, 0, at), words, some,
            (int)pe);
    }
    return status;
}

static enum perseus_status prs_bulk_signal_answers(struct perseus_moe *moe,
                                                   const struct prs_round *round, uint32_t source)
{
    uint64_t words[64];
    enum perseus_status status = PERSEUS_OK;
    for (uint32_t at = 0, some; at < moe->hosted && status == PERSEUS_OK; at += some) {
        some = moe->hosted - at < 64 ? moe->hosted - at : 64;
        for (uint32_t i = 0; i < some; i++) {
            const struct prs_word word = {.tag = round->tag,
                                          .whole = true,
                                          .rows = prs_moe_pair(moe, round, source, at + i)->rows};
            words[i] = prs_word_pack(word);
        }
        status = perseus_signal_set_vector(
            moe->pe, prs_moe_answer_signal(moe, round->half, 0, moe->first + at), words, some,
            (int)source);
    }
    return status;
}

/* All rows for a PE lie together, here and there; so do all answers to a source. */
static enum perseus_status prs_bulk_put_dispatch(struct perseus_moe *moe,
                                                 const struct prs_round *round, uint32_t pe)
{
    uint32_t expert = prs_moe_first_expert(&moe->plan, pe);
    uint32_t first = round->rows.first_row[expert];
    uint32_t rows = round->rows.first_row[expert + prs_moe_hosted(&moe->plan, pe)] - first;
    return perseus_put_nbi(moe->pe, prs_moe_arrival_row(moe, round->half, moe->self, 0),
                           prs_moe_outgoing_row(moe, round->half, first),
                           rows * moe->plan.row_bytes, (int)pe);
}

static enum perseus_status prs_bulk_put_answers(struct perseus_moe *moe,
                                                const struct prs_round *round, uint32_t source)
{
    if (moe->hosted == 0) {
        return PERSEUS_OK;
    }
    const struct prs_pair *first = prs_moe_pair(moe, round, source, 0);
    const struct prs_pair *last = prs_moe_pair(moe, round, source, moe->hosted - 1);
    return perseus_put_nbi(moe->pe, prs_moe_outgoing_row(moe, round->half, first->base),
                           prs_moe_arrival_row(moe, round->half, source, 0),
                           (last->place + last->rows) * moe->plan.row_bytes, (int)source);
}

typedef enum perseus_status (*prs_bulk_step)(struct perseus_moe *moe, const struct prs_round *round,
                                             uint32_t pe);

/* `step` for every PE that is not direct, the next one first. */
static enum perseus_status prs_bulk_each(struct perseus_moe *moe, const struct prs_round *round,
                                         prs_bulk_step step)
{
    enum perseus_status status = PERSEUS_OK;
    for (uint32_t distance = 1; distance <= moe->plan.n_pes && status == PERSEUS_OK; distance++) {
        uint32_t pe = (moe->self + distance) % moe->plan.n_pes;
        if (!prs_moe_is_direct(moe, pe)) {
            status = step(moe, round, pe);
        }
    }
    return status;
}

/* Put-only: what has been put is complete, so the signals need no order. Collective: puts and
 * signals in any order, and then a barrier, which completes them, before anybody may look. */
static enum perseus_status prs_bulk_end(struct perseus_moe *moe, const struct prs_round *round,
                                        prs_bulk_step put, prs_bulk_step signal, atomic_bool *door)
{
    enum perseus_status status = PERSEUS_OK;
    if (moe->plan.config.protocol == PERSEUS_MOE_PUT_ONLY) {
        status = perseus_quiet(moe->pe);
        if (status != PERSEUS_OK) { /* quiet does not know whose delivery is missing */
            char text[PRS_ROUND_TEXT_BYTES];
            prs_round_describe(moe, text);
            return prs_fail(prs_moe_log(moe), status, "%s, and not all that was put is delivered",
                            text);
        }
        return prs_bulk_each(moe, round, signal);
    }
    if (moe->plan.config.protocol == PERSEUS_MOE_COLLECTIVE) {
        status = prs_bulk_each(moe, round, put);
        if (status == PERSEUS_OK) {
            status = prs_bulk_each(moe, round, signal);
        }
        if (status == PERSEUS_OK) {
            status = perseus_barrier_all(moe->pe);
        }
        /* Release: with the acquire of the watcher. */
        atomic_store_explicit(door, true, memory_order_release);
    }
    return status;
}

enum perseus_status prs_protocol_end_dispatch(struct perseus_moe *moe, struct prs_round *round)
{
    return prs_bulk_end(moe, round, prs_bulk_put_dispatch, prs_bulk_signal_dispatch,
                        &round->arrivals_open);
}

enum perseus_status prs_protocol_end_answers(struct perseus_moe *moe, struct prs_round *round)
{
    return prs_bulk_end(moe, round, prs_bulk_put_answers, prs_bulk_signal_answers,
                        &round->answers_open);
}
