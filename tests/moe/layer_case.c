/* SPDX-License-Identifier: Apache-2.0 */
#include "moe/layer_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "core/check.h"
#include "moe/math/gemm.h"
#include "moe/layer.h"
#include "model/reference.h"
#include "model/routing.h"
#include "model/weights.h"

#define SEED 20260501u

/* What all PEs share: inputs, weights, and what must come out. */
struct job {
    const struct layer_case *layer;
    uint32_t tokens, forwards;      /* tokens of every PE in the arrays; ragged PEs use fewer */
    float *x, *gate, *expected, *y; /* [forwards][n_pes * tokens][...] */
    int32_t *ids;
    void *block;
    bool is_kept; /* by the fabric */
};

struct perseus_moe_config layer_case_config(enum perseus_moe_protocol protocol)
{
    return (struct perseus_moe_config){.hidden = 48,
                                       .intermediate = 32,
                                       .experts = 16,
                                       .top_k = 4,
                                       .tokens_max = 24,
                                       .tile_tokens = 8,
                                       .protocol = protocol,
                                       .timeout_ms = 60000};
}

static size_t tokens_of_all(const struct job *job)
{
    return (size_t)job->layer->n_pes * job->tokens;
}

static uint32_t tokens_of(const struct job *job, int pe)
{
    return job->layer->ragged ? job->tokens * (uint32_t)pe / (uint32_t)job->layer->n_pes
                              : job->tokens;
}

/* Ids of one forward; the tokens that a ragged PE lacks choose nobody. */
static void make_ids(struct job *job, uint32_t forward)
{
    const struct layer_case *layer = job->layer;
    uint32_t tokens = (uint32_t)tokens_of_all(job), top_k = layer->config.top_k;
    int32_t *ids = job->ids + (size_t)forward * tokens * top_k;
    struct prs_routing_spec spec;
    struct prs_routing routing;
    CHECK_OK(
        prs_routing_spec_parse(layer->routing != NULL ? layer->routing : "uniform", NULL, &spec));
    CHECK_OK(prs_routing_init(&routing, &spec, tokens, layer->config.experts, top_k, SEED + forward,
                              NULL));
    for (uint32_t i = 0; i < tokens * top_k; i++) {
        int pe = (int)(i / top_k / job->tokens);
        ids[i] =
            layer->id != NULL ? layer->id(layer, forward, i / top_k, i % top_k) : routing.ids[i];
        if (i / top_k % job->tokens >= tokens_of(job, pe)) {
            ids[i] = PRS_ROUTING_NONE;
        }
    }
    prs_routing_finish(&routing);
}

static struct prs_reference reference_of(const struct job *job, uint32_t forward)
{
    size_t tokens = tokens_of_all(job), top_k = job->layer->config.top_k;
    return (struct prs_reference){.config = &job->layer->config,
                                  .n_pes = (uint32_t)job->layer->n_pes,
                                  .tokens_per_pe = job->tokens,
                                  .x = job->x + forward * tokens * job->layer->config.hidden,
                                  .ids = job->ids + forward * tokens * top_k,
                                  .weights = job->gate + forward * tokens * top_k};
}

static void job_init(struct job *job, const struct layer_case *layer)
{
    const struct perseus_moe_config *config = &layer->config;
    *job = (struct job){.layer = layer,
                        .tokens = layer->tokens > 0 ? layer->tokens : config->tokens_max,
                        .forwards = layer->forwards > 0 ? layer->forwards : 3,
                        .is_kept = true};
    size_t tokens = tokens_of_all(job) * job->forwards;
    job->x = malloc(tokens * config->hidden * sizeof *job->x);
    job->y = calloc(2 * tokens * config->hidden, sizeof *job->y);
    job->expected = malloc(tokens * config->hidden * sizeof *job->expected);
    job->gate = malloc(tokens * config->top_k * sizeof *job->gate);
    job->ids = malloc(tokens * config->top_k * sizeof *job->ids);
    job->block = config->communication_only ? NULL : malloc(prs_weights_bytes(config));
    CHECK(job->x && job->y && job->expected && job->gate && job->ids);
    struct prs_rng rng = prs_rng_seeded(SEED);
    for (size_t i = 0; i < tokens * config->hidden; i++) {
        job->x[i] = (float)(2 * prs_rng_unit(&rng) - 1);
    }
    for (uint32_t i = 0; job->block != NULL && i < config->experts + config->shared_experts; i++) {
        prs_weights_random(config, job->block, i, SEED);
    }
    prs_routing_gate_weights(SEED, (uint32_t)tokens, config->top_k, job->gate);
    for (uint32_t forward = 0; forward < job->forwards; forward++) {
        make_ids(job, forward);
        const struct prs_reference reference = reference_of(job, forward);
        CHECK_OK(prs_reference_run(&reference, job->block, NULL, NULL, NULL,
                                   job->expected + forward * tokens_of_all(job) * config->hidden));
    }
}

static void job_finish(struct job *job)
{
    free(job->x);
    free(job->y);
    free(job->expected);
    free(job->gate);
    free(job->ids);
    free(job->block);
}

static void set_weights(const struct job *job, struct perseus_moe *moe, int me)
{
    const struct perseus_moe_config *config = &job->layer->config;
    uint32_t first, count;
    perseus_moe_expert_range(moe, me, &first, &count);
    for (uint32_t i = 0; job->block != NULL && i < count + config->shared_experts; i++) {
        uint32_t expert = i < count ? first + i : config->experts + i - count;
        const struct perseus_moe_expert weights = prs_weights_view(config, job->block, expert);
        CHECK_OK(perseus_moe_set_expert(moe, expert, &weights));
    }
}

/* Where PE `me` finds its part of forward `forward`; `again` 1 is the second run's y. */
static enum perseus_status start(const struct job *job, struct perseus_moe *moe, int me,
                                 uint32_t forward, uint32_t again)
{
    const struct perseus_moe_config *config = &job->layer->config;
    size_t token = forward * tokens_of_all(job) + (size_t)me * job->tokens;
    size_t all = tokens_of_all(job) * job->forwards;
    return perseus_moe_start(moe, tokens_of(job, me), job->x + token * config->hidden,
                             job->ids + token * config->top_k, job->gate + token * config->top_k,
                             job->y + (again * all + token) * config->hidden);
}

/* Every word of a forward that has ended has been taken out of its slot: nobody can meet it
 * again. */
static void check_slots(const struct perseus_moe *moe, uint32_t forward)
{
    const struct prs_moe_plan *plan = &moe->plan;
    uint32_t half = forward % PRS_MOE_HALVES;
    const uint64_t *dispatch = prs_moe_dispatch_signal(moe, half, 0, 0, 0);
    const uint64_t *answers = prs_moe_answer_signal(moe, half, 0, 0);
    for (size_t i = 0; i < prs_moe_dispatch_word(plan, plan->n_pes, 0, 0); i++) {
        CHECK(perseus_signal_fetch(&dispatch[i]) == 0);
    }
    for (size_t i = 0; i < prs_moe_answer_word(plan, plan->tiles_per_expert, 0); i++) {
        CHECK(perseus_signal_fetch(&answers[i]) == 0);
    }
}

static void wait_for(const struct job *job, struct perseus_moe *moe, uint32_t forward)
{
    CHECK_OK(perseus_moe_wait(moe));
    if (!job->layer->overlap) { /* else others may be two forwards ahead, and send again */
        check_slots(moe, forward);
    }
}

static void run_forwards(const struct job *job, struct perseus_moe *moe, int me, uint32_t again)
{
    uint32_t in_flight = 0, in_flight_max = job->layer->overlap ? 2 : 1;
    uint32_t before = again * job->forwards;
    for (uint32_t forward = 0; forward < job->forwards; forward++) {
        if (in_flight == in_flight_max) {
            wait_for(job, moe, before + forward - in_flight);
            in_flight--;
        }
        CHECK_OK(start(job, moe, me, forward, again));
        in_flight++;
    }
    for (; in_flight > 0; in_flight--) {
        wait_for(job, moe, before + job->forwards - in_flight);
    }
}

/* Rows sent, received and dropped are exactly those of the routing. */
static void check_counts(const struct job *job, const struct perseus_moe_stats *stats,
                         struct perseus_moe *moe, int me, uint32_t runs)
{
    uint32_t experts = job->layer->config.experts, first, count;
    uint64_t sent = 0, received = 0, dropped = 0, all_dropped = 0;
    perseus_moe_expert_range(moe, me, &first, &count);
    uint32_t *counts = malloc((size_t)job->layer->n_pes * experts * sizeof *counts);
    CHECK(counts != NULL);
    for (uint32_t forward = 0; forward < job->forwards; forward++) {
        const struct prs_reference reference = reference_of(job, forward);
        prs_reference_counts(&reference, counts, &all_dropped);
        for (int pe = 0; pe < job->layer->n_pes; pe++) {
            for (uint32_t expert = 0; expert < experts; expert++) {
                uint32_t rows = counts[(size_t)pe * experts + expert];
                sent += pe == me ? rows : 0;
                received += expert >= first && expert < first + count ? rows : 0;
            }
        }
        size_t choices = (size_t)job->tokens * job->layer->config.top_k;
        const int32_t *ids = reference.ids + (size_t)me * choices;
        for (size_t i = 0; i < choices; i++) {
            dropped += ids[i] >= 0;
        }
    }
    free(counts);
    CHECK(stats->rows_sent == runs * sent);
    CHECK(stats->rows_received == runs * received);
    CHECK(stats->rows_dropped == runs * (dropped - sent));
    CHECK(stats->forwards == (uint64_t)runs * job->forwards);
}

static void body(struct pes *pes, struct perseus_pe *pe, void *context)
{
    struct job *job = context;
    int me = perseus_my_pe(pe);
    struct perseus_moe *moe = NULL;
    struct perseus_moe_stats stats;
    uint32_t runs = job->layer->twice ? 2 : 1;
    enum perseus_status status = perseus_moe_create(pe, &job->layer->config, &moe);
    if (status != PERSEUS_OK) {
        fprintf(stderr, "%s: PE %d: %s", job->layer->what, me, pes->messages[me].text);
    }
    CHECK_OK(status);
    set_weights(job, moe, me);
    for (uint32_t again = 0; again < runs; again++) {
        run_forwards(job, moe, me, again);
    }
    CHECK_OK(perseus_moe_stats(moe, &stats));
    check_counts(job, &stats, moe, me, runs);
    CHECK_OK(perseus_moe_destroy(moe));
}

static void check_outputs(const struct job *job)
{
    const struct layer_case *layer = job->layer;
    size_t count = tokens_of_all(job) * layer->config.hidden;
    bool rounds = layer->config.wire_dtype == PERSEUS_MOE_BF16 ||
                  layer->config.weight_dtype == PERSEUS_MOE_BF16;
    double error_max = layer->error_max > 0 ? layer->error_max : rounds ? 1e-2 : 1e-5;
    for (uint32_t forward = 0; forward < job->forwards; forward++) {
        const float *y = job->y + forward * count;
        double difference, size;
        prs_reference_compare(y, job->expected + forward * count, count, &difference, &size);
        double error = size > 0 ? sqrt(difference / size) : difference;
        if (!(error <= error_max)) {
            fprintf(stderr, "%s: forward %u: relative error %g, at most %g is right (seed %u)\n",
                    layer->what, forward, error, error_max, SEED);
            _Exit(1);
        }
        if (layer->twice && memcmp(y, y + count * job->forwards, count * sizeof *y) != 0) {
            fprintf(stderr, "%s: forward %u differs between two runs (seed %u)\n", layer->what,
                    forward, SEED);
            _Exit(1);
        }
    }
}

bool layer_case_run(const struct layer_case *layer)
{
    static struct pes pes; /* large; one case runs at a time */
    struct job job;
    prs_gemm_thread_begin(); /* the reference's products: ThreadSanitizer does not know OpenMP */
    struct prs_moe_plan plan;
    CHECK_OK(prs_moe_plan_make(&layer->config, layer->n_pes, NULL, &plan));
    job_init(&job, layer);
    struct perseus_attr attr = pes_attr(layer->pes_per_node);
    attr.ordering = layer->ordering;
    attr.heap_bytes = plan.symmetric_bytes + (1u << 20);
    pes_init(&pes, layer->n_pes, &attr);
    pes_run(&pes, body, &job);
    bool is_kept = pes.opened[0] != PERSEUS_NOT_SUPPORTED;
    for (int pe = 0; pe < layer->n_pes && is_kept; pe++) {
        if (pes.opened[pe] != PERSEUS_OK || pes.finalized[pe] != PERSEUS_OK ||
            pes.messages[pe].errors != 0) {
            fprintf(stderr, "%s: PE %d: init %s, finalize %s: %s\n", layer->what, pe,
                    perseus_status_name(pes.opened[pe]), perseus_status_name(pes.finalized[pe]),
                    pes.messages[pe].text);
            _Exit(1);
        }
    }
    if (is_kept) {
        check_outputs(&job);
    }
    pes_finish(&pes);
    job_finish(&job);
    return is_kept;
}
