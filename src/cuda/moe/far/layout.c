/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/moe/far/far.h"

#define ALIGNMENT 256

/* Lays pieces one behind the other. */
static uint64_t take(uint64_t *at, uint64_t bytes)
{
    uint64_t begin = *at;
    *at = (begin + bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return begin;
}

void prs_moe_far_lay(const struct prs_moe_far_shape *shape, struct prs_moe_far_layout *out)
{
    const uint64_t row = (uint64_t)shape->hidden * 2;
    const uint64_t choices = (uint64_t)shape->tokens_max * shape->top_k;
    const uint32_t hosted = (shape->experts + shape->n_pes - 1) / shape->n_pes;
    const uint64_t each = shape->top_k < hosted ? shape->top_k : hosted;
    /* Dropless: every PE may send all its tokens here; behind each expert a block is not full. */
    const uint64_t most = shape->n_pes * (uint64_t)shape->tokens_max * each +
                          (uint64_t)hosted * (PERSEUS_MOE_CUDA_BLOCK - 1);
    uint64_t at = 0;
    out->hosted_max = hosted;
    out->rows_max = (most / PERSEUS_MOE_CUDA_BLOCK + 1) * PERSEUS_MOE_CUDA_BLOCK;
    out->told = take(&at, shape->n_pes * sizeof(uint64_t));
    out->arrived = take(&at, (uint64_t)shape->n_pes * hosted * sizeof(uint64_t));
    out->answered = take(&at, shape->experts * sizeof(uint64_t));
    out->halves[0] = at;
    at = 0;
    out->counts = take(&at, (uint64_t)shape->n_pes * shape->experts * sizeof(uint64_t));
    out->sent = take(&at, shape->experts * sizeof(uint64_t));
    out->telling = take(&at, shape->experts * sizeof(uint64_t));
    out->staged = take(&at, choices * row);
    out->rows = take(&at, out->rows_max * row);
    out->results = take(&at, out->rows_max * row);
    out->answers = take(&at, choices * row);
    out->halves[1] = out->halves[0] + at;
    out->heap_bytes = out->halves[1] + at;
}

/* How many elements the arrays of a PE's own memory have. */
struct counts {
    uint64_t choices, blocks, pairs;
};

static struct counts count(const struct prs_moe_far_shape *shape)
{
    struct prs_moe_far_layout layout;
    prs_moe_far_lay(shape, &layout);
    return (struct counts){
        .choices = (uint64_t)shape->tokens_max * shape->top_k,
        .blocks = layout.rows_max / PERSEUS_MOE_CUDA_BLOCK,
        .pairs = (uint64_t)shape->n_pes * layout.hosted_max,
    };
}

uint64_t prs_moe_far_own_bytes(const struct prs_moe_far_shape *shape)
{
    const struct counts of = count(shape);
    return (of.choices + of.blocks) * sizeof(uint64_t) +
           (of.choices + 3 * (uint64_t)shape->experts + of.pairs + 3) * sizeof(uint32_t);
}

void prs_moe_far_own_lay(const struct prs_moe_far_shape *shape, void *memory,
                         struct prs_moe_far_own *out)
{
    const struct counts of = count(shape);
    out->ranks = memory;
    out->groups = out->ranks + of.choices;
    out->order = (uint32_t *)(void *)(out->groups + of.blocks);
    out->place = out->order + of.choices;
    out->begin = out->place + shape->experts;
    out->first_row = out->begin + shape->experts;
    out->replied = out->first_row + shape->experts;
    out->next_token = out->replied + of.pairs;
    out->barrier = out->next_token + 1;
    out->failed = out->barrier + 1;
}
