/* SPDX-License-Identifier: Apache-2.0 */
/* The yardstick for expert time: the products that the layer has just made, again, in a plain loop
 * on as many threads. */
#include <pthread.h>
#include <stdlib.h>

#include "base/rng.h"
#include "moe/math/bf16.h"
#include "moe/layer.h"
#include "job.h"
#include "kit/tool_log.h"

/* One thread repeats what one of the layer's threads did. */
struct loop_thread {
    const struct prs_moe_loop *loop;
    const struct prs_worker *worker;
    struct prs_expert_bench bench;
    enum perseus_status status;
    uint64_t ns;
    pthread_t thread;
};

struct prs_moe_loop {
    const struct perseus_moe *moe; /* whose experts it multiplies with */
    struct prs_log log;
    uint32_t n_threads;
    struct loop_thread threads[];
};

/* More products than these cannot be. */
static uint32_t products_max(const struct prs_moe_inputs *inputs, const struct perseus_moe *moe)
{
    const struct prs_moe_plan *plan = &moe->plan;
    uint32_t most = plan->config.shared_experts * prs_moe_tiles(plan, inputs->tokens);
    for (uint32_t pe = 0; pe < plan->n_pes; pe++) {
        for (uint32_t i = 0; i < moe->hosted; i++) {
            most += prs_moe_tiles(
                plan, inputs->counts[(size_t)pe * plan->config.experts + moe->first + i]);
        }
    }
    return most;
}

/* Values like those that the layer multiplies: zeros, in pages never written, would be read from
 * one page that is always in the cache. */
static void fill(struct prs_expert_bench *bench, enum perseus_moe_dtype type)
{
    struct prs_rng rng = prs_rng_seeded(1);
    size_t steps = prs_expert_steps(bench->config->tile_tokens);
    const struct {
        void *to;
        size_t count;
    } tables[] = {{bench->rows_in, steps * bench->config->hidden},
                  {bench->inner, steps * bench->config->intermediate}};
    for (int table = 0; table < 2; table++) {
        for (size_t i = 0; i < tables[table].count; i++) {
            float value = (float)(2 * prs_rng_unit(&rng) - 1);
            if (type == PERSEUS_MOE_BF16) {
                ((uint16_t *)tables[table].to)[i] = prs_bf16_from_f32(value);
            } else {
                ((float *)tables[table].to)[i] = value;
            }
        }
    }
}

enum perseus_status prs_moe_loop_create(const struct prs_moe_inputs *inputs,
                                        struct perseus_moe *moe, struct prs_moe_loop **out)
{
    uint32_t processors = moe->plan.config.processors > 0 ? moe->plan.config.processors : 1;
    struct prs_moe_loop *loop = calloc(1, sizeof *loop + processors * sizeof *loop->threads);
    enum perseus_status status = loop != NULL
                                     ? prs_moe_record_products(moe, products_max(inputs, moe))
                                     : PERSEUS_OUT_OF_MEMORY;
    if (loop != NULL) {
        loop->moe = moe;
        loop->log = prs_tool_log();
    }
    while (status == PERSEUS_OK && loop->n_threads < processors) {
        struct loop_thread *thread = &loop->threads[loop->n_threads];
        *thread = (struct loop_thread){.loop = loop, .worker = &moe->workers[loop->n_threads]};
        status = prs_expert_bench_init(&thread->bench, &moe->plan, &loop->log);
        if (status == PERSEUS_OK) {
            fill(&thread->bench, moe->expand ? PERSEUS_MOE_F32 : moe->plan.config.weight_dtype);
        }
        loop->n_threads++;
    }
    if (status != PERSEUS_OK) {
        prs_moe_loop_destroy(loop);
        return status;
    }
    *out = loop;
    return PERSEUS_OK;
}

void prs_moe_loop_destroy(struct prs_moe_loop *loop)
{
    for (uint32_t i = 0; loop != NULL && i < loop->n_threads; i++) {
        prs_expert_bench_finish(&loop->threads[i].bench);
    }
    free(loop);
}

/* One tile's products, as the layer makes them, and nothing else. */
static enum perseus_status multiply(const struct prs_expert_bench *bench,
                                    const struct prs_expert *expert, uint32_t rows,
                                    enum perseus_moe_dtype out_type)
{
    const struct perseus_moe_config *config = bench->config;
    bool is_swiglu = config->form == PERSEUS_MOE_SWIGLU;
    struct prs_gemm_call call = {
        .rows = prs_expert_steps(rows),
        .outputs = (expert->is_joined ? 2 : 1) * config->intermediate,
        .inputs = config->hidden,
        .type = expert->type,
        .a = bench->rows_in,
        .b = is_swiglu ? expert->gate : expert->up,
        .c = bench->outer,
    };
    enum perseus_status status = prs_gemm_run(bench->gemm, &call);
    if (status == PERSEUS_OK && is_swiglu && !expert->is_joined) {
        call.b = expert->up;
        status = prs_gemm_run(bench->gemm, &call);
    }
    if (status != PERSEUS_OK) {
        return status;
    }
    call.outputs = config->hidden;
    call.inputs = config->intermediate;
    call.a = bench->inner;
    call.b = expert->down;
    call.c = bench->rows_out;
    call.result_type = out_type == expert->type ? out_type : PERSEUS_MOE_F32;
    return prs_gemm_run(bench->gemm, &call);
}

/* Once through; its CPU time. */
static void repeat(struct loop_thread *thread)
{
    const struct perseus_moe *moe = thread->loop->moe;
    int width = prs_gemm_thread_begin();
    uint64_t begin_ns = prs_thread_cpu_ns();
    thread->status = PERSEUS_OK;
    for (uint32_t i = 0; i < thread->worker->n_products && thread->status == PERSEUS_OK; i++) {
        const struct prs_product *product = &thread->worker->products[i];
        bool is_shared = product->expert >= moe->hosted;
        thread->status = multiply(&thread->bench, &moe->experts[product->expert], product->rows,
                                  is_shared ? PERSEUS_MOE_F32 : moe->plan.config.wire_dtype);
    }
    thread->ns = prs_thread_cpu_ns() - begin_ns;
    prs_gemm_thread_end(width);
}

/* The layer's threads have their oneDNN scratch; a new one gets it in a pass that is not
 * counted. */
static void *repeat_in_thread(void *context)
{
    repeat(context);
    repeat(context);
    return NULL;
}

static enum perseus_status repeat_in_threads(struct prs_moe_loop *loop)
{
    uint32_t n_started = 0;
    while (n_started < loop->n_threads &&
           pthread_create(&loop->threads[n_started].thread, NULL, repeat_in_thread,
                          &loop->threads[n_started]) == 0) {
        n_started++;
    }
    for (uint32_t i = 0; i < n_started; i++) {
        pthread_join(loop->threads[i].thread, NULL);
    }
    return n_started == loop->n_threads
               ? PERSEUS_OK
               : prs_fail(&loop->log, PERSEUS_LIMIT, "cannot start thread %u of %u of the loop",
                          n_started + 1, loop->n_threads);
}

enum perseus_status prs_moe_loop_run(struct prs_moe_loop *loop, uint64_t *out_ns)
{
    enum perseus_status status = PERSEUS_OK;
    uint64_t sum_ns = 0;
    uint32_t n = loop->n_threads;
    if (n > 1) {
        status = repeat_in_threads(loop);
    } else {
        repeat(&loop->threads[0]);
    }
    for (uint32_t i = 0; i < n && status == PERSEUS_OK; i++) {
        sum_ns += loop->threads[i].ns;
        status = loop->threads[i].status;
    }
    *out_ns = n > 1 ? sum_ns / n : sum_ns;
    return status;
}
