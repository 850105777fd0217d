/* SPDX-License-Identifier: Apache-2.0 */
/*
 * combine.cuh: answers come into the source's memory, one place for each choice of a token, and are
 * added up in the order of the choices when all of a token's are there: the same bits whatever came
 * first.
 */
#ifndef PRS_CUDA_MOE_COMBINE_CUH
#define PRS_CUDA_MOE_COMBINE_CUH

#include "cuda/moe/layer/half.cuh"
#include "cuda/moe/queue.cuh"

#define PRS_GPU_MOE_ANSWERS 8  /* that a thread has under way */
#define PRS_GPU_MOE_PART    64 /* eights of columns that a warp adds up at a time */

/* Where the second product's rows go: to their senders. */
struct prs_moe_sender_target {
    static constexpr bool answers = true;
    const prs_moe_half &half;

    __device__ uint64_t sender(uint32_t row) const
    {
        return half.mine<uint64_t>(half.layer.layout.senders)[row];
    }
    __device__ __nv_bfloat16 *row(uint32_t row) const
    {
        const uint64_t of = sender(row);
        return half.row((uint32_t)(of >> PRS_GPU_MOE_SENDER_PE), half.layer.layout.answers,
                        (uint32_t)(of >> PRS_GPU_MOE_SENDER_CHOICE) & PRS_GPU_MOE_SENDER_MASK);
    }
    /* Release, with the acquire of prs_moe_await_answers: the whole row is there. */
    __device__ void answer(uint32_t row) const
    {
        const uint64_t of = sender(row);
        const uint32_t token = (uint32_t)(of >> PRS_GPU_MOE_SENDER_TOKEN) & PRS_GPU_MOE_SENDER_MASK;
        prs_add_release_sys_one(
            half.at<uint32_t>((uint32_t)(of >> PRS_GPU_MOE_SENDER_PE), half.layer.layout.answered) +
            token);
    }
    /* The same of a task's block. */
    __device__ __nv_bfloat16 *row(prs_moe_task task, uint32_t at) const
    {
        return row(task.block() * PRS_GPU_MOE_BLOCK + at);
    }
    __device__ void answer(prs_moe_task task) const
    {
        for (uint32_t at = threadIdx.x & 31; at < task.rows(); at += 32) {
            answer(task.block() * PRS_GPU_MOE_BLOCK + at);
        }
    }
};

/* One warp, until all answers to the token are there. False: a wait failed. */
PRS_MEMBER bool prs_moe_await_answers(const prs_moe_half &half, uint32_t token, uint32_t expected)
{
    const uint32_t *answered = half.mine<uint32_t>(half.layer.layout.answered) + token;
    prs_moe_patience patience(half.layer.products.watch);
    bool lasts = true;
    if ((threadIdx.x & 31) == 0) {
        uint32_t seen = prs_load_acquire_sys(answered);
        while (seen != expected && lasts) {
            lasts = patience.lasts(PRS_GPU_MOE_WAIT_ANSWERS, -1, token, seen, expected);
            prs_pause(200);
            seen = prs_load_acquire_sys(answered);
        }
    }
    return __shfl_sync(~0u, lasts, 0);
}

PRS_MEMBER void prs_moe_add_weighted(float (&sums)[8], const uint4 &row, float weight)
{
    const __nv_bfloat162 *pairs = (const __nv_bfloat162 *)&row;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 pair = __bfloat1622float2(pairs[i]);
        sums[2 * i] += weight * pair.x;
        sums[2 * i + 1] += weight * pair.y;
    }
}

/* Columns [first, end) of eight of one token, by one warp. `used`: a bit for every choice
 * that is. */
PRS_MEMBER void prs_moe_add_up(const prs_moe_half &half, const perseus_moe_cuda_input &input,
                               uint32_t token, uint64_t used, uint32_t first, uint32_t end)
{
    const prs_gpu_moe_layer &layer = half.layer;
    const uint32_t row = layer.products.shape.hidden / 8, top_k = layer.top_k;
    const uint32_t choices = top_k + layer.shared;
    const uint4 *answers = (const uint4 *)half.row(layer.me, layer.layout.answers, token * choices);
    uint4 *y = (uint4 *)input.y + (uint64_t)token * row;
    const float *weights = input.weights + (uint64_t)token * top_k;
    for (uint32_t i = first + (threadIdx.x & 31); i < end; i += 32) {
        float sums[8] = {};
        for (uint32_t choice = 0; choice < choices; choice += PRS_GPU_MOE_ANSWERS) {
            uint4 parts[PRS_GPU_MOE_ANSWERS];
#pragma unroll
            for (uint32_t k = 0; k < PRS_GPU_MOE_ANSWERS; k++) {
                parts[k] = choice + k < choices && (used >> (choice + k) & 1) != 0
                               ? __ldcg(&answers[(uint64_t)(choice + k) * row + i])
                               : make_uint4(0, 0, 0, 0);
            }
#pragma unroll
            for (uint32_t k = 0; k < PRS_GPU_MOE_ANSWERS; k++) {
                if (choice + k < choices && (used >> (choice + k) & 1) != 0) {
                    prs_moe_add_weighted(sums, parts[k],
                                         choice + k < top_k ? weights[choice + k] : 1.0f);
                }
            }
        }
        uint4 out;
        __nv_bfloat162 *pairs = (__nv_bfloat162 *)&out;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            pairs[k] = __floats2bfloat162_rn(sums[2 * k], sums[2 * k + 1]);
        }
        y[i] = out;
    }
}

/* Warps take parts of tokens until there are none. */
PRS_MEMBER void prs_moe_combine(const prs_moe_half &half, const perseus_moe_cuda_input &input)
{
    const prs_gpu_moe_layer &layer = half.layer;
    const uint32_t lane = threadIdx.x & 31, row = layer.products.shape.hidden / 8;
    const uint32_t parts = (row + PRS_GPU_MOE_PART - 1) / PRS_GPU_MOE_PART;
    const uint32_t choices = layer.top_k + layer.shared;
    for (;;) {
        uint32_t item = 0;
        if (lane == 0) {
            item = atomicAdd(half.word(PRS_GPU_MOE_WORD_TOKEN), 1u);
        }
        item = __shfl_sync(~0u, item, 0);
        if (item >= input.tokens * parts) {
            return;
        }
        const uint32_t token = item / parts, first = item % parts * PRS_GPU_MOE_PART;
        uint64_t used = 0;
        for (uint32_t choice = 0; choice < choices; choice += 32) {
            const uint32_t k = choice + lane;
            const bool is_used =
                k < layer.top_k ? prs_moe_id(input, token * layer.top_k + k) >= 0 : k < choices;
            used |= (uint64_t)__ballot_sync(~0u, is_used) << choice;
        }
        if (!prs_moe_await_answers(half, token, (uint32_t)__popcll(used))) {
            return;
        }
        prs_moe_add_up(half, input, token, used, first,
                       first + PRS_GPU_MOE_PART < row ? first + PRS_GPU_MOE_PART : row);
    }
}

#endif
