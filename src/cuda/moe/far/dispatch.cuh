/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dispatch.cuh: rows to their experts' hosts by put-with-signal, an expert's rows at a time. All
 * CTAs of a PE count its rows by expert; one tells everybody; when everybody's counts are there,
 * each knows where its rows lie at their hosts. A CTA then takes an expert, gathers its rows into a
 * source that may be put, and sends them.
 */
#ifndef PRS_CUDA_MOE_FAR_DISPATCH_CUH
#define PRS_CUDA_MOE_FAR_DISPATCH_CUH

#include "cuda/moe/far/round.cuh"

/* Each row's rank among those for its expert. */
PRS_DEVICE void prs_moe_far_count(const prs_moe_far_half &half, const perseus_moe_cuda_input &input,
                                  const prs_moe_crew &crew)
{
    const prs_moe_far &far = half.far;
    uint64_t *sent = half.words(far.layout.sent);
    const uint32_t choices = input.tokens * far.shape.top_k, step = crew.ctas * crew.size;
    for (uint32_t i = crew.cta * crew.size + crew.rank; i < choices; i += step) {
        const int64_t expert = prs_moe_far_id(input, i);
        if (expert >= 0 && expert < far.shape.experts) {
            far.own.ranks[i] = prs_add_relaxed_gpu(&sent[expert], 1);
        } else if (expert != -1) {
            prs_moe_far_fail(far, PERSEUS_INVALID_ARGUMENT);
        }
    }
}

/* By CTA 0: scratch.sum[i] becomes the sum of scratch.count before i. */
PRS_DEVICE void prs_moe_far_sum(prs_moe_far_scratch &scratch, uint32_t n, const prs_moe_crew &crew)
{
    prs_moe_crew_sync();
    if (crew.rank == 0) {
        uint32_t before = 0;
        for (uint32_t i = 0; i < n; i++) {
            scratch.sum[i] = before;
            before += scratch.count[i];
        }
    }
    prs_moe_crew_sync();
}

/* By CTA 0: this PE's counts to all PEs, and theirs. */
PRS_DEVICE void prs_moe_far_tell(const prs_moe_far_half &half, prs_moe_far_scratch &scratch,
                                 const prs_moe_crew &crew)
{
    const prs_moe_far &far = half.far;
    const prs_moe_far_shape &shape = far.shape;
    const uint64_t bytes = shape.experts * sizeof(uint64_t);
    const uint64_t mine = half.begin + far.layout.counts + shape.me * bytes;
    for (uint32_t i = crew.rank; i < shape.experts; i += crew.size) {
        scratch.count[i] = (uint32_t)prs_load_relaxed_gpu(&half.words(far.layout.sent)[i]);
    }
    prs_moe_far_sum(scratch, shape.experts, crew);
    for (uint32_t i = crew.rank; i < shape.experts; i += crew.size) {
        const uint64_t word = (uint64_t)scratch.count[i] << 32 | scratch.sum[i];
        half.words(far.layout.telling)[i] = word;
        ((uint64_t *)far.wire.at(mine))[i] = word;
        far.own.place[i] = scratch.sum[i];
    }
    prs_moe_crew_sync();
    for (uint32_t pe = crew.rank; pe < shape.n_pes; pe += crew.size) {
        prs_moe_letter letter = {};
        letter.to = mine;
        letter.from = half.begin + far.layout.telling;
        letter.bytes = bytes;
        letter.signal = far.layout.told + shape.me * sizeof(uint64_t);
        letter.value = half.number + 1;
        letter.target = pe;
        if (pe != shape.me) {
            prs_moe_far_fail(far, far.wire.send(PRS_MOE_FAR_COUPLED, letter));
        }
    }
    for (uint32_t pe = crew.rank; pe < shape.n_pes; pe += crew.size) {
        if (pe != shape.me) {
            prs_moe_far_await(half, far.layout.told + pe * sizeof(uint64_t), pe);
        }
    }
    prs_moe_crew_sync();
}

/* By CTA 0, when all counts are there: where experts lie at their hosts, and this PE's rows. */
PRS_DEVICE void prs_moe_far_locate(const prs_moe_far_half &half, prs_moe_far_scratch &scratch,
                                   const prs_moe_crew &crew)
{
    const prs_moe_far &far = half.far;
    const prs_moe_far_shape &shape = far.shape;
    const uint32_t block = PERSEUS_MOE_CUDA_BLOCK;
    for (uint32_t i = crew.rank; i < shape.experts; i += crew.size) {
        uint32_t all = 0, before = 0;
        for (uint32_t pe = 0; pe < shape.n_pes; pe++) {
            const uint32_t theirs = half.count(pe, i);
            before += pe < shape.me ? theirs : 0;
            all += theirs;
        }
        scratch.count[i] = (all + block - 1) / block * block;
        far.own.begin[i] = before; /* within the expert, for now */
    }
    prs_moe_far_sum(scratch, shape.experts, crew);
    for (uint32_t i = crew.rank; i < shape.experts; i += crew.size) {
        const uint32_t of_host = prs_moe_far_first_of(shape, prs_moe_far_host_of(shape, i));
        far.own.first_row[i] = scratch.sum[i] - scratch.sum[of_host];
        far.own.begin[i] += far.own.first_row[i];
    }
}

/* This PE's rows for one expert. */
PRS_DEVICE prs_moe_letter prs_moe_far_letter(const prs_moe_far_half &half, uint32_t expert)
{
    const prs_moe_far &far = half.far;
    const uint32_t host = prs_moe_far_host_of(far.shape, expert);
    const uint64_t rows = half.count(far.shape.me, expert);
    prs_moe_letter letter = {};
    letter.to = half.row(far.layout.rows, far.own.begin[expert]);
    letter.from = half.row(far.layout.staged, far.own.place[expert]);
    letter.bytes = rows * far.shape.hidden * 2;
    letter.member = expert;
    letter.target = host;
    letter.signal = prs_moe_far_word_arrived(far.layout, far.shape.me,
                                             expert - prs_moe_far_first_of(far.shape, host));
    letter.value = half.number + 1;
    return letter;
}

/* A whole CTA. */
PRS_DEVICE void prs_moe_far_send(const prs_moe_far_half &half, const perseus_moe_cuda_input &input,
                                 uint32_t expert, const prs_moe_crew &crew)
{
    const prs_moe_far &far = half.far;
    const prs_moe_letter letter = prs_moe_far_letter(half, expert);
    const uint32_t eights = far.shape.hidden / 8, place = far.own.place[expert];
    const uint32_t n = half.count(far.shape.me, expert);
    const bool is_here = letter.target == far.shape.me;
    prs_moe_eight *to = (prs_moe_eight *)far.wire.at(is_here ? letter.to : letter.from);
    for (uint32_t i = crew.rank; i < n * eights; i += crew.size) {
        const uint32_t token = far.own.order[place + i / eights] / far.shape.top_k;
        to[i] = ((const prs_moe_eight *)input.x)[(uint64_t)token * eights + i % eights];
    }
    prs_moe_crew_sync(); /* the sender is synchronized with all that it sends */
    if (crew.rank == 0 && is_here) {
        prs_store_release_sys((uint64_t *)far.wire.at(letter.signal), letter.value);
    } else if (crew.rank == 0 && (n > 0 || far.protocol == PRS_MOE_FAR_DECOUPLED)) {
        prs_moe_far_fail(far, far.wire.send(far.protocol, letter));
    }
}

/* Put-only: the signals of all that was sent. */
PRS_DEVICE void prs_moe_far_signal_rows(const prs_moe_far_half &half, const prs_moe_crew &crew)
{
    const prs_moe_far &far = half.far;
    for (uint32_t expert = crew.rank; expert < far.shape.experts; expert += crew.size) {
        const prs_moe_letter letter = prs_moe_far_letter(half, expert);
        if (letter.target != far.shape.me && letter.bytes > 0) {
            prs_moe_far_fail(far, far.wire.signal(letter));
        }
    }
}

/* Until all rows for this PE's experts are here. */
PRS_DEVICE void prs_moe_far_await_rows(const prs_moe_far_half &half, const prs_moe_crew &crew)
{
    const prs_moe_far &far = half.far;
    const uint32_t first = prs_moe_far_first_of(far.shape, far.shape.me);
    const uint32_t pairs = prs_moe_far_hosted(far.shape, far.shape.me) * far.shape.n_pes;
    for (uint32_t i = crew.cta * crew.size + crew.rank; i < pairs; i += crew.ctas * crew.size) {
        const uint32_t source = i % far.shape.n_pes, of_host = i / far.shape.n_pes;
        if (half.count(source, first + of_host) > 0) {
            prs_moe_far_await(half, prs_moe_far_word_arrived(far.layout, source, of_host), source);
        }
    }
}

/* All CTAs of a PE: on return each knows where every row goes. */
PRS_DEVICE void prs_moe_far_route(const prs_moe_far_half &half, const perseus_moe_cuda_input &input,
                                  prs_moe_far_scratch &scratch, const prs_moe_crew &crew)
{
    const prs_moe_far &far = half.far;
    const prs_moe_far_half next(far, half.number + 1);
    const uint32_t choices = input.tokens * far.shape.top_k, step = crew.ctas * crew.size;
    const uint32_t thread = crew.cta * crew.size + crew.rank;
    for (uint32_t i = thread; i < far.shape.experts; i += step) {
        next.words(far.layout.sent)[i] = 0;
    }
    prs_moe_far_count(half, input, crew);
    prs_moe_far_meet(far, crew, prs_moe_far_meeting(far, half.number, 0));
    if (crew.cta == 0) {
        prs_moe_far_tell(half, scratch, crew);
        prs_moe_far_locate(half, scratch, crew);
    }
    prs_moe_far_meet(far, crew, prs_moe_far_meeting(far, half.number, 1));
    for (uint32_t i = thread; i < choices && prs_moe_far_goes_on(far); i += step) {
        const int64_t expert = prs_moe_far_id(input, i);
        if (expert >= 0) {
            far.own.order[far.own.place[expert] + far.own.ranks[i]] = i;
        }
    }
    prs_moe_far_meet(far, crew, prs_moe_far_meeting(far, half.number, 2));
}

/* All CTAs of a PE. Each PE begins with another host's experts, and goes from host to host. */
PRS_DEVICE void prs_moe_far_send_all(const prs_moe_far_half &half,
                                     const perseus_moe_cuda_input &input, const prs_moe_crew &crew)
{
    const prs_moe_far_shape &shape = half.far.shape;
    for (uint32_t i = crew.cta; i < half.far.layout.hosted_max * shape.n_pes; i += crew.ctas) {
        const uint32_t host = (shape.me + 1 + i) % shape.n_pes, of_host = i / shape.n_pes;
        if (of_host < prs_moe_far_hosted(shape, host)) {
            prs_moe_far_send(half, input, prs_moe_far_first_of(shape, host) + of_host, crew);
        }
    }
}

/* All CTAs of a PE; when all have returned, all rows of its experts lie in `rows`, their numbers in
 * `counts`, [hosted]. */
PRS_DEVICE void prs_moe_far_dispatch(const prs_moe_far &far, const perseus_moe_cuda_input &input,
                                     uint64_t number, uint32_t *counts,
                                     prs_moe_far_scratch &scratch, const prs_moe_crew &crew)
{
    const prs_moe_far_half half(far, number);
    prs_moe_far_route(half, input, scratch, crew);
    if (!prs_moe_far_goes_on(far)) {
        return;
    }
    prs_moe_far_send_all(half, input, crew);
    if (prs_moe_far_signals(half, crew, 3)) {
        prs_moe_far_signal_rows(half, crew);
    }
    prs_moe_far_await_rows(half, crew);
    const uint32_t hosted = prs_moe_far_hosted(far.shape, far.shape.me);
    for (uint32_t i = crew.cta * crew.size + crew.rank; i < hosted; i += crew.ctas * crew.size) {
        counts[i] = prs_moe_far_rows_of(half, i);
    }
}

#endif
