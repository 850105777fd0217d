/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls. */
#include <stdlib.h>
#include <string.h>

#include "base/export.h"
#include "core/job/job.h"
#include "moe/layer.h"

/* ---- memory ---- */

/* The most tasks that can be ready in both halves together. */
static uint64_t tasks_max(const struct prs_moe_plan *plan)
{
    uint64_t tiles =
        (uint64_t)plan->n_pes * (plan->hosted_max + prs_moe_tiles(plan, plan->rows_per_pair));
    uint64_t added = plan->config.experts + prs_moe_tiles(plan, plan->rows_out);
    return PRS_MOE_HALVES *
           (plan->config.experts + tiles + added + 2 * (uint64_t)plan->token_tiles);
}

static void count_memory(const struct prs_moe_plan *plan, struct perseus_moe_memory *out)
{
    const struct perseus_moe_config *config = &plan->config;
    uint64_t held = config->communication_only ? 0 : plan->hosted_max + config->shared_experts;
    uint64_t pairs = (uint64_t)plan->n_pes * plan->hosted_max;
    uint64_t grouped = prs_moe_protocol_find(config->protocol)->has_groups;
    bool expand = config->weight_dtype == PERSEUS_MOE_BF16 && !prs_gemm_has_bf16();
    struct perseus_moe_memory memory = {
        .arrival_bytes = PRS_MOE_HALVES * (plan->outgoing[0] - plan->arrivals[0]),
        .outgoing_bytes = PRS_MOE_HALVES * (plan->dispatch_words[0] - plan->outgoing[0]),
        .symmetric_bytes = plan->symmetric_bytes,
        .weight_bytes = held * prs_moe_expert_bytes(config),
        .expanded_bytes = expand ? held * prs_moe_expert_bytes(config) * 2 : 0,
        .rows_per_pair_max = plan->rows_per_pair,
    };
    memory.signal_bytes = memory.symmetric_bytes - memory.arrival_bytes - memory.outgoing_bytes;
    memory.local_bytes = sizeof(struct perseus_moe) + held * sizeof(struct prs_expert) +
                         PRS_MOE_HALVES * prs_round_bytes(plan) +
                         prs_scheduler_bytes((uint32_t)tasks_max(plan)) + prs_roles_bytes(plan) +
                         grouped * PRS_MOE_HALVES * (config->experts + pairs) *
                             (sizeof(struct prs_membership) + PRS_MOE_GROUP_MEMBER_BYTES);
    *out = memory;
}

PRS_PUBLIC enum perseus_status perseus_moe_plan(const struct perseus_moe_config *config, int n_pes,
                                                perseus_log_fn log, void *log_user,
                                                struct perseus_moe_memory *out)
{
    const struct prs_log to = {.fn = log, .user = log_user, .level = PERSEUS_LOG_ERROR, .pe = -1};
    struct prs_moe_plan plan;
    enum perseus_status status = prs_moe_plan_make(config, n_pes, &to, &plan);
    if (status == PERSEUS_OK) {
        count_memory(&plan, out);
    }
    return status;
}

/* ---- life ---- */

/* Everything of the layer that a wrong pairing of PEs would break on; FNV-1a over the fields. */
static uint64_t fingerprint(const struct prs_moe_plan *plan)
{
    const struct perseus_moe_config *config = &plan->config;
    uint64_t capacity;
    /* The analyzer does not know that PEs that agree have all succeeded, so that there is a
     * plan. */
    memcpy(&capacity, &config->capacity_factor, sizeof capacity); /* NOLINT(clang-analyzer-*) */
    const uint64_t fields[] = {
        config->hidden,     config->intermediate,       config->experts,      config->top_k,
        config->wire_dtype, config->tokens_max,         config->tile_tokens,  config->protocol,
        capacity,           config->communication_only, plan->symmetric_bytes};
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < sizeof fields; i++) {
        hash = (hash ^ ((const unsigned char *)fields)[i]) * 0x100000001b3u; /* NOLINT(clang-*) */
    }
    return hash;
}

static enum perseus_status agree_on_config(const struct perseus_moe *moe)
{
    uint64_t own = fingerprint(&moe->plan);
    uint64_t *all = calloc(moe->plan.n_pes, sizeof *all);
    if (all == NULL) {
        return prs_fail(prs_moe_log(moe), PERSEUS_OUT_OF_MEMORY, "moe: no memory for %u PEs",
                        moe->plan.n_pes);
    }
    enum perseus_status status = prs_job_gather(&moe->pe->job, &own, all, sizeof own);
    for (uint32_t pe = 0; pe < moe->plan.n_pes && status == PERSEUS_OK; pe++) {
        if (all[pe] != own) {
            status =
                prs_fail(prs_moe_log(moe), PERSEUS_INVALID_ARGUMENT,
                         "moe: PE %u creates a layer with another config than this PE; every PE "
                         "must give the same",
                         pe);
        }
    }
    free(all);
    return status;
}

/* What this PE can make alone. */
static enum perseus_status build(struct perseus_moe *moe)
{
    const struct perseus_moe_config *config = &moe->plan.config;
    enum perseus_status status = PERSEUS_OK;
    moe->experts = calloc((size_t)moe->hosted + config->shared_experts + 1, sizeof *moe->experts);
    if (moe->experts == NULL ||
        prs_scheduler_create((uint32_t)tasks_max(&moe->plan), &moe->scheduler) != PERSEUS_OK) {
        return prs_fail(prs_moe_log(moe), PERSEUS_OUT_OF_MEMORY,
                        "moe: no memory for a layer of %u experts", config->experts);
    }
    for (uint32_t half = 0; half < PRS_MOE_HALVES && status == PERSEUS_OK; half++) {
        status = prs_round_init(&moe->rounds[half], moe, half);
    }
    if (status == PERSEUS_OK && moe->mode.protocol->has_groups) {
        status = prs_groups_create(moe, config->group_experts, &moe->groups);
        moe->mode.groups = moe->groups;
    }
    return status == PERSEUS_OK ? prs_roles_start(moe) : status;
}

static void free_layer(struct perseus_moe *moe)
{
    prs_roles_stop(moe);
    prs_groups_destroy(moe->groups);
    prs_scheduler_destroy(moe->scheduler);
    for (uint32_t half = 0; half < PRS_MOE_HALVES; half++) {
        prs_round_finish(&moe->rounds[half]);
    }
    for (uint32_t i = 0; moe->experts != NULL && i < moe->hosted + moe->plan.config.shared_experts;
         i++) {
        prs_expert_finish(&moe->experts[i]);
    }
    free(moe->experts);
    pthread_cond_destroy(&moe->ended);
    pthread_mutex_destroy(&moe->mutex);
    pthread_mutex_destroy(&moe->scan_mutex);
    free(moe);
}

static enum perseus_status allocate(struct perseus_pe *pe, const struct prs_moe_plan *plan,
                                    struct perseus_moe **out)
{
    struct perseus_moe *moe = calloc(1, sizeof *moe);
    if (moe == NULL) {
        return prs_fail(prs_pe_log(pe), PERSEUS_OUT_OF_MEMORY, "moe: no memory for a layer");
    }
    moe->pe = pe;
    moe->plan = *plan;
    moe->mode = (struct prs_moe_mode){
        .protocol = prs_moe_protocol_find(plan->config.protocol),
        .is_by_tile = {[PRS_MOE_DISPATCH] = plan->config.dispatch_unit == PERSEUS_MOE_UNIT_TILE,
                       [PRS_MOE_ANSWERS] = plan->config.combine_unit != PERSEUS_MOE_UNIT_EXPERT},
        .are_answers_grouped = plan->config.group_combine,
        .communication_only = plan->config.communication_only,
    };
    moe->self = (uint32_t)perseus_my_pe(pe);
    moe->first = prs_moe_first_expert(plan, moe->self);
    moe->hosted = prs_moe_hosted(plan, moe->self);
    moe->expand = plan->config.weight_dtype == PERSEUS_MOE_BF16 &&
                  !plan->config.communication_only && !prs_gemm_has_bf16();
    moe->clock = pe->clock;
    pthread_mutex_init(&moe->scan_mutex, NULL);
    pthread_mutex_init(&moe->mutex, NULL);
    pthread_cond_init(&moe->ended, NULL);
    *out = moe;
    return PERSEUS_OK;
}

PRS_PUBLIC enum perseus_status perseus_moe_create(struct perseus_pe *pe,
                                                  const struct perseus_moe_config *config,
                                                  struct perseus_moe **out)
{
    struct prs_moe_plan plan;
    struct perseus_moe *moe = NULL;
    enum perseus_status status =
        prs_moe_plan_make(config, perseus_n_pes(pe), prs_pe_log(pe), &plan);
    if (status == PERSEUS_OK && pe->heap->gpu != NULL) {
        status = prs_fail(prs_pe_log(pe), PERSEUS_NOT_SUPPORTED,
                          "moe: this layer computes on CPUs, and the heap of this PE is a GPU's "
                          "memory; give its PEs a host heap (perseus_attr.heap_memory)");
    }
    if (status == PERSEUS_OK) {
        status = allocate(pe, &plan, &moe);
    }
    status = prs_job_agree(&pe->job, status, "plan a MoE layer");
    if (status == PERSEUS_OK) {
        status = agree_on_config(moe);
    }
    void *block = NULL;
    if (status == PERSEUS_OK) {
        status = perseus_malloc(pe, plan.symmetric_bytes, &block);
    }
    if (status == PERSEUS_OK) {
        moe->block = block;
        status = prs_job_agree(&pe->job, build(moe), "create a MoE layer");
    }
    if (status != PERSEUS_OK) {
        if (moe != NULL) {
            free_layer(moe);
        }
        perseus_free(pe, block);
        return status;
    }
    *out = moe;
    return PERSEUS_OK;
}

PRS_PUBLIC enum perseus_status perseus_moe_destroy(struct perseus_moe *moe)
{
    if (moe == NULL) {
        return PERSEUS_OK;
    }
    struct perseus_pe *pe = moe->pe;
    void *block = moe->block;
    enum perseus_status status = prs_moe_status(moe);
    free_layer(moe); /* no thread works on the block any more */
    return status == PERSEUS_OK ? perseus_free(pe, block) : status;
}

PRS_PUBLIC void perseus_moe_abort(struct perseus_moe *moe)
{
    if (moe != NULL) {
        free_layer(moe);
    }
}

PRS_PUBLIC void perseus_moe_expert_range(const struct perseus_moe *moe, int target,
                                         uint32_t *out_first, uint32_t *out_count)
{
    *out_first = prs_moe_first_expert(&moe->plan, (uint32_t)target);
    *out_count = prs_moe_hosted(&moe->plan, (uint32_t)target);
}

PRS_PUBLIC enum perseus_status perseus_moe_set_expert(struct perseus_moe *moe, uint32_t expert,
                                                      const struct perseus_moe_expert *weights)
{
    const struct perseus_moe_config *config = &moe->plan.config;
    bool shared = expert >= config->experts && expert - config->experts < config->shared_experts;
    if (!shared && (expert < moe->first || expert - moe->first >= moe->hosted)) {
        return prs_fail(prs_moe_log(moe), PERSEUS_INVALID_ARGUMENT,
                        "moe: expert %u is not hosted here: this PE has experts %u to %u, and %u "
                        "shared ones from %u",
                        expert, moe->first, moe->first + moe->hosted - 1, config->shared_experts,
                        config->experts);
    }
    if (weights->up == NULL || weights->down == NULL ||
        (config->form == PERSEUS_MOE_SWIGLU && weights->gate == NULL)) {
        return prs_fail(prs_moe_log(moe), PERSEUS_INVALID_ARGUMENT,
                        "moe: expert %u: a matrix is NULL", expert);
    }
    uint32_t at = shared ? moe->hosted + expert - config->experts : expert - moe->first;
    return prs_expert_init(&moe->experts[at], config, weights, moe->expand, prs_moe_log(moe));
}

/* ---- forwards ---- */

void prs_moe_break(struct perseus_moe *moe, enum perseus_status status)
{
    enum perseus_status none = PERSEUS_OK;
    /* Relaxed: it tells nothing but itself. */
    atomic_compare_exchange_strong_explicit(&moe->status, &none, status, memory_order_relaxed,
                                            memory_order_relaxed);
    prs_scheduler_stop(moe->scheduler);
    pthread_mutex_lock(&moe->mutex);
    pthread_cond_broadcast(&moe->ended);
    pthread_mutex_unlock(&moe->mutex);
}

static enum perseus_status check_forward(const struct perseus_moe *moe, uint32_t tokens,
                                         const float *x, const int32_t *ids, const float *weights,
                                         const float *y)
{
    const struct perseus_moe_config *config = &moe->plan.config;
    if (tokens > config->tokens_max) {
        return prs_fail(prs_moe_log(moe), PERSEUS_INVALID_ARGUMENT,
                        "moe: a forward of %u tokens, but the layer was created for at most %u",
                        tokens, config->tokens_max);
    }
    if (tokens > 0 && (x == NULL || ids == NULL || weights == NULL || y == NULL)) {
        return prs_fail(prs_moe_log(moe), PERSEUS_INVALID_ARGUMENT,
                        "moe: x, ids, weights or y is NULL");
    }
    uint32_t held = moe->mode.communication_only ? 0 : moe->hosted + config->shared_experts;
    for (uint32_t i = 0; i < held; i++) {
        if (moe->experts[i].up == NULL) {
            return prs_fail(prs_moe_log(moe), PERSEUS_INVALID_ARGUMENT,
                            "moe: expert %u has no weights; give them with perseus_moe_set_expert",
                            i < moe->hosted ? moe->first + i : config->experts + i - moe->hosted);
        }
    }
    return prs_rows_check(&moe->plan, tokens, ids, prs_moe_log(moe));
}

PRS_PUBLIC enum perseus_status perseus_moe_start(struct perseus_moe *moe, uint32_t tokens,
                                                 const float *x, const int32_t *ids,
                                                 const float *weights, float *y)
{
    uint64_t in_flight = moe->started - moe->waited;
    enum perseus_status status = prs_moe_status(moe);
    if (status != PERSEUS_OK) {
        return status;
    }
    if (in_flight >= moe->mode.protocol->in_flight_max) {
        return PERSEUS_AGAIN;
    }
    status = check_forward(moe, tokens, x, ids, weights, y);
    if (status != PERSEUS_OK) {
        return status;
    }
    struct prs_round *round = &moe->rounds[moe->started % PRS_MOE_HALVES];
    prs_rows_fill(&round->rows, &moe->plan, tokens, ids);
    round->forward = moe->started;
    round->tag = prs_moe_word_tag(moe->started);
    round->tokens = tokens;
    round->x = x;
    round->weights = weights;
    round->y = y;
    if (moe->plan.config.relaxed && tokens > 0) {
        memset(y, 0, (size_t)tokens * moe->plan.config.hidden * sizeof *y);
    }
    moe->started++;
    prs_round_begin(moe, round);
    return PERSEUS_OK;
}

/* Threads work: sleeps until the forward has ended or the layer broke. */
static void sleep_until_ended(struct perseus_moe *moe, const struct prs_round *round)
{
    pthread_mutex_lock(&moe->mutex);
    /* Acquire: with prs_round_ended_one, so that y is readable. */
    while (atomic_load_explicit(&round->is_active, memory_order_acquire) &&
           prs_moe_status(moe) == PERSEUS_OK) {
        pthread_cond_wait(&moe->ended, &moe->mutex);
    }
    pthread_mutex_unlock(&moe->mutex);
}

PRS_PUBLIC enum perseus_status perseus_moe_wait(struct perseus_moe *moe)
{
    if (moe->started == moe->waited) {
        return prs_fail(prs_moe_log(moe), PERSEUS_INVALID_ARGUMENT,
                        "moe: wait without a forward that was started");
    }
    struct prs_round *round = &moe->rounds[moe->waited % PRS_MOE_HALVES];
    if (moe->n_threads > 0) {
        sleep_until_ended(moe, round);
    } else {
        prs_roles_drive(moe, round);
    }
    enum perseus_status status = prs_moe_status(moe);
    if (status != PERSEUS_OK) {
        prs_scheduler_settle(moe->scheduler); /* the arrays are the caller's again */
        return status;
    }
    moe->waited++;
    pthread_mutex_lock(&moe->mutex);
    moe->stats.forwards++;
    pthread_mutex_unlock(&moe->mutex);
    return PERSEUS_OK;
}

PRS_PUBLIC enum perseus_status perseus_moe_forward(struct perseus_moe *moe, uint32_t tokens,
                                                   const float *x, const int32_t *ids,
                                                   const float *weights, float *y)
{
    if (moe->started != moe->waited) {
        return prs_fail(prs_moe_log(moe), PERSEUS_INVALID_ARGUMENT,
                        "moe: forward while one that was started has not been waited for");
    }
    enum perseus_status status = perseus_moe_start(moe, tokens, x, ids, weights, y);
    return status == PERSEUS_OK ? perseus_moe_wait(moe) : status;
}

PRS_PUBLIC enum perseus_status perseus_moe_stats(const struct perseus_moe *moe,
                                                 struct perseus_moe_stats *out)
{
    pthread_mutex_t *mutex = &((struct perseus_moe *)moe)->mutex;
    pthread_mutex_lock(mutex);
    *out = moe->stats;
    pthread_mutex_unlock(mutex);
    return PERSEUS_OK;
}

void prs_moe_set_mode(struct perseus_moe *moe, const struct prs_moe_mode *mode)
{
    moe->mode = *mode;
    for (uint32_t i = 0; i < moe->n_workers && !mode->communication_only; i++) {
        moe->workers[i].n_products = 0;
    }
}

enum perseus_status prs_moe_record_products(struct perseus_moe *moe, uint32_t products_max)
{
    for (uint32_t i = 0; i < moe->n_workers; i++) {
        struct prs_worker *worker = &moe->workers[i];
        worker->products = malloc((products_max + 1) * sizeof *worker->products);
        if (worker->products == NULL) {
            return prs_fail(prs_moe_log(moe), PERSEUS_OUT_OF_MEMORY,
                            "moe: no memory to record %u products", products_max);
        }
        worker->products_max = products_max;
    }
    return PERSEUS_OK;
}

void prs_moe_set_trace(struct perseus_moe *moe, struct prs_trace *trace)
{
    moe->trace = trace;
}
