/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blocks.cuh: what lies between dispatch and combine when experts do not wait for all rows: which
 * rows are here, where their results go, and when an answer is whole. Rows of an expert stand
 * source by source, so a few of them belong to few sources.
 */
#ifndef PRS_CUDA_MOE_FAR_BLOCKS_CUH
#define PRS_CUDA_MOE_FAR_BLOCKS_CUH

#include "cuda/moe/far/combine.cuh"

/* Rows of expert number `of_host` of this PE, counted from its first. */
struct prs_moe_far_rows {
    uint32_t of_host, first, end;
};

/* Whether they are here; acquires. If not, *out_source has not sent its part. */
PRS_DEVICE bool prs_moe_far_are_here(const prs_moe_far_half &half, const prs_moe_far_rows &rows,
                                     uint32_t *out_source)
{
    const prs_moe_far &far = half.far;
    const uint32_t expert = prs_moe_far_first_of(far.shape, far.shape.me) + rows.of_host;
    uint32_t before = 0;
    for (uint32_t pe = 0; pe < far.shape.n_pes && before < rows.end; pe++) {
        const uint32_t here = half.count(pe, expert);
        if (here > 0 && before + here > rows.first) {
            const uint64_t word = prs_moe_far_word_arrived(far.layout, pe, rows.of_host);
            if (prs_load_acquire_sys((const uint64_t *)far.wire.at(word)) < half.number + 1) {
                *out_source = pe;
                return false;
            }
        }
        before += here;
    }
    return true;
}

/* Offset of the result of a row: this PE's own rows need no answer, and go where it would. */
PRS_DEVICE uint64_t prs_moe_far_result(const prs_moe_far_half &half, uint64_t results,
                                       uint32_t of_host, uint32_t row)
{
    const prs_moe_far &far = half.far;
    const uint32_t expert = prs_moe_far_first_of(far.shape, far.shape.me) + of_host;
    const uint32_t mine = far.own.begin[expert] - far.own.first_row[expert];
    if (row >= mine && row - mine < half.count(far.shape.me, expert)) {
        return half.row(far.layout.answers, half.place(far.shape.me, expert) + row - mine);
    }
    return half.row(results, far.own.first_row[expert] + row);
}

/* Results of these rows are written; those of `source` among them. Behind its last the answer
 * leaves: acquire and release at gpu scope on the counter, so that whoever counts the last row has
 * what all wrote. By one thread, which is synchronized with who wrote. */
PRS_DEVICE void prs_moe_far_computed(const prs_moe_far_half &half, uint64_t results,
                                     const prs_moe_far_rows &rows, uint32_t source)
{
    const prs_moe_far &far = half.far;
    const uint32_t expert = prs_moe_far_first_of(far.shape, far.shape.me) + rows.of_host;
    const uint32_t begin = prs_moe_far_rows_before(half, expert, source);
    const uint32_t all = half.count(source, expert), end = begin + all;
    const uint32_t first = rows.first > begin ? rows.first : begin;
    const uint32_t last = rows.end < end ? rows.end : end;
    if (first >= last) {
        return;
    }
    uint32_t *replied = &far.own.replied[source * far.layout.hosted_max + rows.of_host];
    if (prs_add_acq_rel_gpu(replied, last - first) + (last - first) < all) {
        return;
    }
    const prs_moe_letter letter = prs_moe_far_reply(half, results, rows.of_host, source);
    if (source == far.shape.me) {
        prs_store_release_sys((uint64_t *)far.wire.at(letter.signal), letter.value);
    } else {
        prs_moe_far_fail(far, far.wire.send(far.protocol, letter));
    }
}

/* By one CTA, behind the route. Decoupled: who sent an expert no rows gets an answer without any,
 * as a group's signals leave behind its last member. */
PRS_DEVICE void prs_moe_far_answer_nobody(const prs_moe_far_half &half, uint64_t results,
                                          const prs_moe_crew &crew)
{
    const prs_moe_far &far = half.far;
    const uint32_t n_pes = far.shape.n_pes;
    const uint32_t pairs = prs_moe_far_hosted(far.shape, far.shape.me) * n_pes;
    for (uint32_t i = crew.rank; i < pairs && far.protocol == PRS_MOE_FAR_DECOUPLED;
         i += crew.size) {
        const prs_moe_letter letter = prs_moe_far_reply(half, results, i / n_pes, i % n_pes);
        if (letter.target != far.shape.me && letter.bytes == 0) {
            prs_moe_far_fail(far, far.wire.send(far.protocol, letter));
        }
    }
}

/* All threads of a PE, before its route: what the functions above count in. */
PRS_DEVICE void prs_moe_far_begin_blocks(const prs_moe_far &far, const prs_moe_crew &crew)
{
    const uint32_t pairs = far.shape.n_pes * far.layout.hosted_max;
    const uint32_t thread = crew.cta * crew.size + crew.rank;
    for (uint32_t i = thread; i < pairs; i += crew.ctas * crew.size) {
        far.own.replied[i] = 0;
    }
    if (thread == 0) {
        *far.own.next_token = 0;
    }
}

#endif
