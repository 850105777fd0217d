/* SPDX-License-Identifier: Apache-2.0 */
/* combine.cuh: answers to the PEs that their rows came from, an expert's at a time, and adding up
 * in the order of the choices: the same bits whatever came first. */
#ifndef PRS_CUDA_MOE_FAR_COMBINE_CUH
#define PRS_CUDA_MOE_FAR_COMBINE_CUH

#include "cuda/moe/far/round.cuh"

PRS_DEVICE float prs_moe_far_from_bf16(uint16_t bits)
{
    union {
        uint32_t word;
        float value;
    } of = {(uint32_t)bits << 16};
    return of.value;
}

/* Round to nearest, ties to even; NaN stays NaN. */
PRS_DEVICE uint16_t prs_moe_far_to_bf16(float value)
{
    union {
        float value;
        uint32_t word;
    } of = {value};
    const uint32_t word = of.word;
    return (word & 0x7fffffffu) > 0x7f800000u
               ? (uint16_t)(word >> 16 | 0x40)
               : (uint16_t)((word + 0x7fff + (word >> 16 & 1)) >> 16);
}

/* What expert `of_host` of this PE made of `source`'s rows. */
PRS_DEVICE prs_moe_letter prs_moe_far_reply(const prs_moe_far_half &half, uint64_t results,
                                            uint32_t of_host, uint32_t source)
{
    const prs_moe_far &far = half.far;
    const uint32_t expert = prs_moe_far_first_of(far.shape, far.shape.me) + of_host;
    const uint64_t rows = half.count(source, expert);
    const uint32_t row = far.own.first_row[expert] + prs_moe_far_rows_before(half, expert, source);
    prs_moe_letter letter = {};
    letter.to = half.row(far.layout.answers, half.place(source, expert));
    letter.from = half.row(results, row);
    letter.bytes = rows * far.shape.hidden * 2;
    letter.is_answer = true;
    letter.member = source * far.layout.hosted_max + of_host;
    letter.target = source;
    letter.signal = prs_moe_far_word_answered(far.layout, expert);
    letter.value = half.number + 1;
    return letter;
}

/* A whole CTA. */
PRS_DEVICE void prs_moe_far_answer(const prs_moe_far_half &half, uint64_t results, uint32_t of_host,
                                   uint32_t source, const prs_moe_crew &crew)
{
    const prs_moe_far &far = half.far;
    const prs_moe_letter letter = prs_moe_far_reply(half, results, of_host, source);
    if (source == far.shape.me) {
        prs_moe_eight *to = (prs_moe_eight *)far.wire.at(letter.to);
        const prs_moe_eight *from = (const prs_moe_eight *)far.wire.at(letter.from);
        for (uint64_t i = crew.rank; i < letter.bytes / sizeof *to; i += crew.size) {
            to[i] = from[i];
        }
        prs_moe_crew_sync();
        if (crew.rank == 0) {
            prs_store_release_sys((uint64_t *)far.wire.at(letter.signal), letter.value);
        }
    } else if (crew.rank == 0 && (letter.bytes > 0 || far.protocol == PRS_MOE_FAR_DECOUPLED)) {
        prs_moe_far_fail(far, far.wire.send(far.protocol, letter));
    }
}

/* Put-only: the signals of all answers. */
PRS_DEVICE void prs_moe_far_signal_answers(const prs_moe_far_half &half, uint64_t results,
                                           const prs_moe_crew &crew)
{
    const prs_moe_far &far = half.far;
    const uint32_t n_pes = far.shape.n_pes;
    const uint32_t pairs = prs_moe_far_hosted(far.shape, far.shape.me) * n_pes;
    for (uint32_t i = crew.rank; i < pairs; i += crew.size) {
        const prs_moe_letter letter = prs_moe_far_reply(half, results, i / n_pes, i % n_pes);
        if (letter.target != far.shape.me && letter.bytes > 0) {
            prs_moe_far_fail(far, far.wire.signal(letter));
        }
    }
}

/* A whole CTA: one token, eight columns a thread. */
PRS_DEVICE void prs_moe_far_add_up(const prs_moe_far_half &half,
                                   const perseus_moe_cuda_input &input, uint32_t token,
                                   const prs_moe_crew &crew)
{
    const prs_moe_far &far = half.far;
    const uint32_t eights = far.shape.hidden / 8;
    const prs_moe_eight *answers =
        (const prs_moe_eight *)far.wire.at(half.begin + far.layout.answers);
    for (uint32_t i = crew.rank; i < eights; i += crew.size) {
        float sums[8] = {};
        for (uint32_t k = 0; k < far.shape.top_k; k++) {
            const uint32_t choice = token * far.shape.top_k + k;
            const int64_t expert = prs_moe_far_id(input, choice);
            if (expert < 0) {
                continue;
            }
            const uint64_t at = far.own.place[expert] + far.own.ranks[choice];
            const prs_moe_eight part = answers[at * eights + i];
            for (uint32_t c = 0; c < 8; c++) {
                sums[c] += input.weights[choice] * prs_moe_far_from_bf16(part.values[c]);
            }
        }
        prs_moe_eight out;
        for (uint32_t c = 0; c < 8; c++) {
            out.values[c] = prs_moe_far_to_bf16(sums[c]);
        }
        ((prs_moe_eight *)input.y)[(uint64_t)token * eights + i] = out;
    }
}

/* All CTAs of a PE, behind its dispatch of the same number. `results`: the piece of the heap that
 * has what became of the rows, layout.results or layout.rows. */
PRS_DEVICE void prs_moe_far_combine(const prs_moe_far &far, const perseus_moe_cuda_input &input,
                                    uint64_t number, uint64_t results, const prs_moe_crew &crew)
{
    const prs_moe_far_half half(far, number);
    const prs_moe_far_shape &shape = far.shape;
    const uint32_t pairs = prs_moe_far_hosted(shape, shape.me) * shape.n_pes;
    if (!prs_moe_far_goes_on(far)) {
        return;
    }
    for (uint32_t i = crew.cta; i < pairs; i += crew.ctas) {
        prs_moe_far_answer(half, results, i / shape.n_pes, (shape.me + 1 + i) % shape.n_pes, crew);
    }
    if (prs_moe_far_signals(half, crew, 4)) {
        prs_moe_far_signal_answers(half, results, crew);
    }
    for (uint32_t i = crew.rank; i < shape.experts; i += crew.size) {
        if (half.count(shape.me, i) > 0) {
            prs_moe_far_await(half, prs_moe_far_word_answered(far.layout, i),
                              prs_moe_far_host_of(shape, i));
        }
    }
    prs_moe_crew_sync();
    for (uint32_t token = crew.cta; token < input.tokens && prs_moe_far_goes_on(far);
         token += crew.ctas) {
        prs_moe_far_add_up(half, input, token, crew);
    }
}

#endif
