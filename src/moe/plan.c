/* SPDX-License-Identifier: Apache-2.0 */
#include "moe/plan.h"

#include <math.h>

/* a * b, or false. */
static bool times(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

uint32_t prs_moe_first_expert(const struct prs_moe_plan *plan, uint32_t pe)
{
    uint32_t each = plan->config.experts / plan->n_pes, more = plan->config.experts % plan->n_pes;
    return pe * each + (pe < more ? pe : more);
}

uint32_t prs_moe_hosted(const struct prs_moe_plan *plan, uint32_t pe)
{
    return plan->config.experts / plan->n_pes + (pe < plan->config.experts % plan->n_pes);
}

uint32_t prs_moe_host(const struct prs_moe_plan *plan, uint32_t expert)
{
    uint32_t each = plan->config.experts / plan->n_pes, more = plan->config.experts % plan->n_pes;
    uint32_t in_bigger = more * (each + 1);
    return expert < in_bigger ? expert / (each + 1) : more + (expert - in_bigger) / each;
}

uint32_t prs_moe_matrices(const struct perseus_moe_config *config)
{
    return config->form == PERSEUS_MOE_SWIGLU ? 3 : 2;
}

uint64_t prs_moe_expert_bytes(const struct perseus_moe_config *config)
{
    uint64_t item = config->weight_dtype == PERSEUS_MOE_BF16 ? 2 : 4;
    return prs_moe_matrices(config) * item * config->hidden * config->intermediate;
}

static enum perseus_status check_range(const struct prs_log *log, const char *field, uint64_t value,
                                       uint64_t min, uint64_t max)
{
    if (value < min || value > max) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT, "moe: %s is %llu, must be %llu to %llu",
                        field, (unsigned long long)value, (unsigned long long)min,
                        (unsigned long long)max);
    }
    return PERSEUS_OK;
}

static enum perseus_status check(const struct perseus_moe_config *config, int n_pes,
                                 const struct prs_log *log)
{
    const struct {
        const char *field;
        uint64_t value, min, max;
    } ranges[] = {
        {"the number of PEs", (uint64_t)(int64_t)n_pes, 1, PRS_MOE_PES_MAX},
        {"hidden", config->hidden, 1, PRS_MOE_WIDTH_MAX},
        {"intermediate", config->intermediate, 1, PRS_MOE_WIDTH_MAX},
        {"experts", config->experts, 1, PERSEUS_MOE_EXPERTS_MAX},
        {"top_k", config->top_k, 1, PERSEUS_MOE_TOP_K_MAX},
        {"shared_experts", config->shared_experts, 0, PRS_MOE_SHARED_MAX},
        {"form", config->form, PERSEUS_MOE_SWIGLU, PERSEUS_MOE_TWO_MATRIX},
        {"weight_dtype", config->weight_dtype, PERSEUS_MOE_F32, PERSEUS_MOE_BF16},
        {"wire_dtype", config->wire_dtype, PERSEUS_MOE_F32, PERSEUS_MOE_BF16},
        {"protocol", config->protocol, 0, PERSEUS_MOE_PROTOCOL_COUNT - 1},
        {"tokens_max", config->tokens_max, 1, PERSEUS_MOE_TOKENS_MAX},
        {"tokens_max * top_k", (uint64_t)config->tokens_max * config->top_k, 1,
         PERSEUS_MOE_ROWS_MAX},
        {"tile_tokens", config->tile_tokens, 0, PERSEUS_MOE_TOKENS_MAX},
        {"dispatch_unit", config->dispatch_unit, 0, PERSEUS_MOE_UNIT_TILE},
        {"combine_unit", config->combine_unit, 0, PERSEUS_MOE_UNIT_TILE},
        {"processors", config->processors, 0, PRS_MOE_PROCESSORS_MAX},
        {"subscribers", config->subscribers, 0, config->processors > 0 ? 1 : 0},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        enum perseus_status status =
            check_range(log, ranges[i].field, ranges[i].value, ranges[i].min, ranges[i].max);
        if (status != PERSEUS_OK) {
            return status;
        }
    }
    if (config->top_k > config->experts) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT, "moe: top_k %u is more than the %u experts",
                        config->top_k, config->experts);
    }
    if (!(config->capacity_factor >= 0) || isinf(config->capacity_factor)) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT,
                        "moe: capacity_factor is %g, must be 0 (dropless) or more",
                        config->capacity_factor);
    }
    return PERSEUS_OK;
}

static uint32_t capacity(const struct perseus_moe_config *config)
{
    if (config->capacity_factor == 0) {
        return config->tokens_max;
    }
    double rows =
        ceil(config->capacity_factor * config->tokens_max * config->top_k / config->experts);
    return rows < 1 ? 1 : rows < config->tokens_max ? (uint32_t)rows : config->tokens_max;
}

static uint32_t smaller(uint64_t a, uint64_t b)
{
    return (uint32_t)(a < b ? a : b); /* one of them is at most PERSEUS_MOE_ROWS_MAX */
}

/* Takes count * bytes, aligned, from the end of the block. */
static bool reserve(uint64_t count, uint64_t bytes, uint64_t *end, uint64_t *out)
{
    uint64_t size;
    *out = *end;
    return times(count, bytes, &size) &&
           !__builtin_add_overflow(size, PRS_MOE_ALIGNMENT - 1, &size) &&
           !__builtin_add_overflow(*end, size & ~(uint64_t)(PRS_MOE_ALIGNMENT - 1), end);
}

static bool lay_out(struct prs_moe_plan *plan)
{
    uint64_t arrivals, dispatch_words;
    bool fits =
        times(plan->n_pes, plan->rows_per_pair, &arrivals) &&
        times((uint64_t)plan->n_pes * plan->hosted_max, plan->tiles_per_expert, &dispatch_words);
    plan->symmetric_bytes = 0;
    for (int half = 0; fits && half < PRS_MOE_HALVES; half++) {
        uint64_t *end = &plan->symmetric_bytes;
        fits = reserve(arrivals, plan->row_bytes, end, &plan->arrivals[half]) &&
               reserve(plan->rows_out, plan->row_bytes, end, &plan->outgoing[half]) &&
               reserve(dispatch_words, sizeof(uint64_t), end, &plan->dispatch_words[half]) &&
               reserve((uint64_t)plan->tiles_per_expert * plan->config.experts, sizeof(uint64_t),
                       end, &plan->answer_words[half]);
    }
    return fits;
}

enum perseus_status prs_moe_plan_make(const struct perseus_moe_config *config, int n_pes,
                                      const struct prs_log *log, struct prs_moe_plan *out)
{
    enum perseus_status status = check(config, n_pes, log);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_moe_plan plan = {.config = *config, .n_pes = (uint32_t)n_pes};
    if (plan.config.tile_tokens == 0) {
        plan.config.tile_tokens = PRS_MOE_TILE_DEFAULT;
    }
    if (plan.config.timeout_ms == 0) {
        plan.config.timeout_ms = PRS_MOE_TIMEOUT_MS;
    }
    uint64_t tokens = config->tokens_max;
    plan.hosted_max = prs_moe_hosted(&plan, 0);
    plan.rows_per_expert = capacity(config);
    plan.rows_per_pair = smaller(tokens * smaller(config->top_k, plan.hosted_max),
                                 (uint64_t)plan.rows_per_expert * plan.hosted_max);
    plan.rows_out =
        smaller(tokens * config->top_k, (uint64_t)plan.rows_per_expert * config->experts);
    plan.tiles_per_expert = prs_moe_tiles(&plan, plan.rows_per_expert);
    plan.token_tiles = prs_moe_tiles(&plan, config->tokens_max);
    plan.row_bytes = (uint64_t)config->hidden * (config->wire_dtype == PERSEUS_MOE_BF16 ? 2 : 4);
    if (!lay_out(&plan)) {
        return prs_fail(log, PERSEUS_LIMIT,
                        "moe: the buffers of %d PEs with %u tokens each do not fit in 64 bits",
                        n_pes, config->tokens_max);
    }
    *out = plan;
    return PERSEUS_OK;
}
