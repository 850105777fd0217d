/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/moe/layer/layout.h"

#define ALIGNMENT 1024
_Static_assert(PERSEUS_MOE_CUDA_BLOCK == PRS_GPU_MOE_BLOCK, "rows lie as callers are told");

static enum perseus_status check(const struct perseus_moe_cuda_attr *attr, uint32_t processors,
                                 const struct prs_log *log)
{
    const struct {
        const char *field;
        uint64_t value, min, max;
    } ranges[] = {
        {"the number of PEs", attr->n_pes, 1, PRS_GPU_MOE_PES_MAX},
        {"the PE", attr->my_pe, 0, attr->n_pes - 1},
        {"experts", attr->experts, attr->n_pes, PRS_GPU_MOE_EXPERTS_MAX},
        {"top_k", attr->top_k, 1,
         attr->experts < PRS_GPU_MOE_CHOICES_MAX ? attr->experts : PRS_GPU_MOE_CHOICES_MAX},
        {"shared_experts", attr->shared_experts, 0, PRS_GPU_MOE_CHOICES_MAX - attr->top_k},
        {"tokens_max", attr->tokens_max, 1, 65536},
        {"tokens_max * (top_k + shared_experts)",
         (uint64_t)attr->tokens_max * (attr->top_k + attr->shared_experts), 1,
         PRS_GPU_MOE_SENDER_MASK},
        {"ctas", attr->ctas, 0,
         processors < PRS_GPU_MOE_CTAS_MAX ? processors : PRS_GPU_MOE_CTAS_MAX},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (ranges[i].value < ranges[i].min || ranges[i].value > ranges[i].max) {
            return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                            "moe on a GPU: %s is %llu, must be %llu to %llu", ranges[i].field,
                            (unsigned long long)ranges[i].value, (unsigned long long)ranges[i].min,
                            (unsigned long long)ranges[i].max);
        }
    }
    return PERSEUS_OK;
}

/* Lays pieces one behind the other. */
static uint64_t take(uint64_t *at, uint64_t bytes)
{
    uint64_t begin = *at;
    *at = (begin + bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return begin;
}

static void lay(const struct perseus_moe_cuda_attr *attr, struct prs_gpu_moe_plan *plan)
{
    struct prs_gpu_moe_layout *layout = &plan->layout;
    const uint64_t row_bytes = (uint64_t)attr->hidden * 2, blocks = plan->blocks_max;
    const uint64_t tiles = plan->cut.shape.first_tiles + plan->cut.shape.second_tiles;
    uint64_t at = 0;
    layout->rows = take(&at, plan->rows_max * row_bytes);
    layout->senders = take(&at, plan->rows_max * sizeof(uint64_t));
    layout->answers =
        take(&at, (uint64_t)attr->tokens_max * (attr->top_k + attr->shared_experts) * row_bytes);
    layout->counts = take(&at, (uint64_t)attr->n_pes * attr->experts * sizeof(uint32_t));
    layout->told = take(&at, attr->n_pes * sizeof(uint32_t));
    layout->counters = at;
    layout->arrived = take(&at, blocks * sizeof(uint32_t));
    layout->answered = take(&at, attr->tokens_max * sizeof(uint32_t));
    layout->tasks = take(&at, (blocks * tiles + PRS_GPU_MOE_CTAS_MAX) * sizeof(uint64_t));
    layout->first_done = take(&at, blocks * sizeof(uint32_t));
    layout->second_done = take(&at, blocks * sizeof(uint32_t));
    layout->sent = take(&at, attr->experts * sizeof(uint32_t));
    layout->words = take(&at, PRS_GPU_MOE_WORDS * sizeof(uint32_t));
    layout->half_bytes = at;
    layout->halves[0] = 0;
    layout->halves[1] = at;
    layout->heap_bytes = PRS_GPU_MOE_HALVES * at;
}

enum perseus_status prs_gpu_moe_plan(const struct perseus_moe_cuda_attr *attr, uint32_t processors,
                                     const struct prs_log *log, struct prs_gpu_moe_plan *out)
{
    enum perseus_status status = check(attr, processors, log);
    if (status != PERSEUS_OK) {
        return status;
    }
    const uint32_t each = attr->experts / attr->n_pes, more = attr->experts % attr->n_pes;
    const uint32_t hosted_max = each + (more != 0);
    const uint32_t choices = attr->top_k < hosted_max ? attr->top_k : hosted_max;
    out->ctas = attr->ctas != 0 ? attr->ctas : processors;
    out->first_expert = attr->my_pe * each + (attr->my_pe < more ? attr->my_pe : more);
    /* Dropless: every PE may send all its tokens here; behind each expert a block is not full. */
    const uint64_t of_a_shared = (attr->tokens_max + PRS_GPU_MOE_BLOCK - 1) / PRS_GPU_MOE_BLOCK;
    const uint64_t blocks = ((uint64_t)attr->n_pes * attr->tokens_max * choices +
                             (uint64_t)hosted_max * (PRS_GPU_MOE_BLOCK - 1)) /
                                PRS_GPU_MOE_BLOCK +
                            1 + attr->shared_experts * of_a_shared;
    if (blocks > PRS_GPU_MOE_BLOCKS_MAX) {
        return prs_fail(log, PERSEUS_LIMIT,
                        "moe on a GPU: %u PEs with %u tokens of %u choices are more rows than a PE "
                        "can number; lower tokens_max",
                        attr->n_pes, attr->tokens_max, attr->top_k);
    }
    out->blocks_max = (uint32_t)blocks;
    out->rows_max = blocks * PRS_GPU_MOE_BLOCK;
    status = prs_gpu_moe_cut(attr->hidden, attr->intermediate,
                             each + (attr->my_pe < more) + attr->shared_experts,
                             attr->form == PERSEUS_MOE_SWIGLU, log, &out->cut);
    if (status == PERSEUS_OK) {
        lay(attr, out);
    }
    return status;
}
