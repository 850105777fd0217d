/* SPDX-License-Identifier: Apache-2.0 */
#include "moe/gpu.h"

#include <math.h>
#include <stdlib.h>

#include "cuda/moe/layer/layout.h"
#include "kit/stats_math.h"
#include "model/weights.h"
#include "moe/gpu_pes.h"
#include "moe/gpu_trace.h"

enum {
    INSIDE = 5, /* forwards of a sample, one behind the other, so that launches cost nothing */
    WARM_UPS = 2
};

/* What is measured, by rows of the table; the first is what the others are compared with. */
enum { PHASES, MEGAKERNEL, VARIANTS };
static const struct prs_moe_variant variants[VARIANTS] = {
    [PHASES] = {.name = "phase after phase", .role = PRS_MOE_VANILLA},
    [MEGAKERNEL] = {.name = "megakernel", .role = PRS_MOE_BOTH},
};

enum series { TOTAL, WHOLE, COMM, DISPATCH, EXPERT, COMBINE, SERIES };

struct samples {
    double *of[SERIES]; /* ms */
    uint32_t n;
};

/* ---- launches of one PE ---- */

typedef enum perseus_status (*launch_fn)(struct prs_moe_gpu_pe *pe);

static enum perseus_status whole(struct prs_moe_gpu_pe *pe)
{
    return perseus_moe_cuda_forward(pe->layer, &pe->input, pe->stream);
}

static enum perseus_status dispatch(struct prs_moe_gpu_pe *pe)
{
    return perseus_moe_dispatch(pe->layer, &pe->input, pe->rows, pe->counts, pe->stream);
}

static enum perseus_status products(struct prs_moe_gpu_pe *pe)
{
    return prs_gpu_moe_experts_run(pe->experts, pe->counts, pe->stream);
}

static enum perseus_status combine(struct prs_moe_gpu_pe *pe)
{
    return perseus_moe_combine(pe->layer, &pe->input, pe->results, pe->stream);
}

static enum perseus_status phases(struct prs_moe_gpu_pe *pe)
{
    enum perseus_status status = dispatch(pe);
    status = status == PERSEUS_OK ? products(pe) : status;
    return status == PERSEUS_OK ? combine(pe) : status;
}

/* Experts that do nothing. */
static enum perseus_status there_and_back(struct prs_moe_gpu_pe *pe)
{
    enum perseus_status status = dispatch(pe);
    return status == PERSEUS_OK ? perseus_moe_combine(pe->layer, &pe->input, pe->rows, pe->stream)
                                : status;
}

/* ---- timing ---- */

static bool launch(struct prs_moe_gpu_pes *pes, launch_fn of, uint32_t times)
{
    bool is_well = true;
    for (uint32_t k = 0; k < times; k++) {
        for (uint32_t i = 0; i < pes->n && is_well; i++) {
            is_well = prs_moe_gpu_done(cudaSetDevice(pes->pe[i].gpu), "choosing the GPU") &&
                      of(&pes->pe[i]) == PERSEUS_OK;
        }
    }
    return is_well;
}

static bool stamp(struct prs_moe_gpu_pes *pes, int number)
{
    bool is_well = true;
    for (uint32_t i = 0; i < pes->n && is_well; i++) {
        struct prs_moe_gpu_pe *pe = &pes->pe[i];
        is_well = prs_moe_gpu_done(cudaSetDevice(pe->gpu), "choosing the GPU") &&
                  prs_moe_gpu_done(cudaEventRecord(pe->stamps[number], pe->stream), "an event");
    }
    return is_well;
}

/* Of the slowest PE, from stamp `number` to the next. */
static bool elapsed(struct prs_moe_gpu_pes *pes, int number, double *out_ms)
{
    bool is_well = true;
    *out_ms = 0;
    for (uint32_t i = 0; i < pes->n && is_well; i++) {
        const struct prs_moe_gpu_pe *pe = &pes->pe[i];
        float ms = 0;
        is_well = prs_moe_gpu_done(
            cudaEventElapsedTime(&ms, pe->stamps[number], pe->stamps[number + 1]), "an event");
        *out_ms = fmax(*out_ms, (double)ms);
    }
    return is_well;
}

static bool time_many(struct prs_moe_gpu_pes *pes, launch_fn of, double *out_ms)
{
    bool is_well = stamp(pes, 0) && launch(pes, of, INSIDE) && stamp(pes, 1) &&
                   prs_moe_gpu_wait(pes) && elapsed(pes, 0, out_ms);
    *out_ms /= INSIDE;
    return is_well;
}

/* Behind products of the forward before, so that the first stamp waits for no launch. */
static bool time_phases(struct prs_moe_gpu_pes *pes, double *out_dispatch, double *out_expert,
                        double *out_combine)
{
    return launch(pes, products, 1) && stamp(pes, 0) && launch(pes, dispatch, 1) && stamp(pes, 1) &&
           launch(pes, products, 1) && stamp(pes, 2) && launch(pes, combine, 1) && stamp(pes, 3) &&
           prs_moe_gpu_wait(pes) && elapsed(pes, 0, out_dispatch) && elapsed(pes, 1, out_expert) &&
           elapsed(pes, 2, out_combine);
}

static bool check(struct prs_moe_gpu_pes *pes, launch_fn of, bool has_counts,
                  struct prs_moe_result *result)
{
    return prs_moe_gpu_poison(pes) && launch(pes, of, 1) && prs_moe_gpu_wait(pes) &&
           prs_moe_gpu_verify(pes, has_counts, result);
}

/* Every variant once: checked, and timed. */
static bool iterate(struct prs_moe_gpu_pes *pes, struct prs_moe_results *results,
                    struct samples *samples)
{
    double ms[SERIES] = {0};
    bool is_well = check(pes, phases, true, &results->result[PHASES]) &&
                   check(pes, whole, false, &results->result[MEGAKERNEL]) &&
                   time_many(pes, whole, &ms[WHOLE]) && time_many(pes, phases, &ms[TOTAL]) &&
                   time_many(pes, there_and_back, &ms[COMM]) &&
                   time_phases(pes, &ms[DISPATCH], &ms[EXPERT], &ms[COMBINE]);
    for (int series = 0; series < SERIES && samples != NULL; series++) {
        samples->of[series][samples->n] = ms[series];
    }
    if (samples != NULL) {
        samples->n++;
    }
    return is_well;
}

/* ---- points ---- */

static void summarize(struct prs_moe_results *results, struct samples *samples)
{
    double ms[SERIES];
    for (int series = 0; series < SERIES; series++) {
        ms[series] = prs_percentiles_of(samples->of[series], samples->n).median;
    }
    const double none = (double)NAN;
    const struct {
        double total, comm, dispatch, combine;
    } rows[VARIANTS] = {
        [PHASES] = {ms[TOTAL], ms[COMM], ms[DISPATCH], ms[COMBINE]},
        [MEGAKERNEL] = {ms[WHOLE], none, none, none},
    };
    for (int i = 0; i < VARIANTS; i++) {
        struct prs_moe_result *result = &results->result[i];
        *result = (struct prs_moe_result){.is_run = true,
                                          .samples = samples->n,
                                          .total = rows[i].total,
                                          .comm = rows[i].comm,
                                          .dispatch = rows[i].dispatch,
                                          .expert = ms[EXPERT],
                                          .expert_wall = ms[EXPERT],
                                          .combine = rows[i].combine,
                                          .exposed = rows[i].total - ms[EXPERT],
                                          .stall = none,
                                          .fences = none,
                                          .drains = none,
                                          .messages = none,
                                          .bytes = none,
                                          .cpu = none,
                                          .waits = none,
                                          .preempted = none,
                                          .error = result->error,
                                          .is_right = result->is_right};
        result->is_right =
            result->is_right &&
            (isnan(result->error) ? !results->is_verified : result->error <= results->error_max);
        results->is_right = results->is_right && result->is_right;
    }
}

static bool play(struct prs_moe_point *point, struct prs_moe_gpu_pes *pes, struct samples *samples,
                 struct prs_progress *progress)
{
    const struct prs_moe_setup *setup = &point->setup;
    struct prs_moe_results *results = &point->results;
    bool is_well = prs_moe_gpu_pes_start(pes, setup, &point->inputs);
    snprintf(results->fabric, sizeof results->fabric, "loads and stores");
    snprintf(results->provider, sizeof results->provider, "%.60s", pes->gpu_name);
    results->processors = pes->processors;
    const uint32_t n = setup->repeat * setup->iterations;
    for (uint32_t i = 0; i < WARM_UPS + n && is_well; i++) {
        is_well = iterate(pes, results, i < WARM_UPS ? NULL : samples);
        prs_progress_step(progress, "on the GPU");
    }
    is_well = is_well && (setup->trace.path == NULL || prs_moe_gpu_trace(pes, &setup->trace));
    prs_moe_gpu_pes_stop(pes);
    return is_well;
}

static bool measure(struct prs_moe_point *point, struct prs_progress *progress)
{
    const uint32_t n = point->setup.repeat * point->setup.iterations;
    struct prs_moe_results *results = &point->results;
    struct prs_moe_gpu_pes *pes = calloc(1, sizeof *pes);
    double *values = calloc((size_t)SERIES * n, sizeof *values);
    struct samples samples = {.n = 0};
    for (int series = 0; series < SERIES; series++) {
        samples.of[series] = values + (size_t)series * n;
    }
    *results = (struct prs_moe_results){.n_variants = VARIANTS,
                                        .error_max = 1e-2,
                                        .is_right = true,
                                        .is_verified = point->inputs.expected != NULL,
                                        .loop_ratio = (double)NAN};
    for (int i = 0; i < VARIANTS; i++) {
        results->variants[i] = variants[i];
        results->result[i].is_right = true;
    }
    bool is_well = pes != NULL && values != NULL && play(point, pes, &samples, progress);
    if (is_well) {
        summarize(results, &samples);
    }
    free(values);
    free(pes);
    return is_well;
}

bool prs_moe_gpu_measure(struct prs_moe_point *points, uint32_t n, struct prs_progress *progress)
{
    bool is_well = true;
    for (uint32_t i = 0; i < n && is_well; i++) {
        is_well = measure(&points[i], progress);
    }
    return is_well;
}

/* ---- before that ---- */

const char *prs_moe_gpu_mistake(const struct prs_moe_setup *setup)
{
    const struct perseus_moe_config *config = &setup->config;
    const struct {
        bool is_wrong;
        const char *text;
    } rules[] = {
        {config->weight_dtype != PERSEUS_MOE_BF16 || config->wire_dtype != PERSEUS_MOE_BF16,
         "--device cuda computes in bf16: no other --dtype or --wire"},
        {config->capacity_factor > 0, "--device cuda is dropless: no --capacity-factor"},
        {setup->fabric != NULL || setup->provider != NULL || setup->link != NULL ||
             setup->qps != NULL || setup->ordering != PERSEUS_ORDERING_AUTO,
         "--device cuda goes by loads and stores: no --fabric, --provider, --ordering, --link or "
         "--qps"},
        {setup->has_details, "--details tells of proxies; with --device cuda there are none"},
        {prs_moe_setup_pes(setup) > PRS_MOE_GPU_PES_MAX, "--device cuda has 64 PEs at most"},
        {prs_moe_setup_pes(setup) % setup->gpus != 0,
         "--gpus must divide the PEs (--nodes times --pes-per-node)"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].is_wrong) {
            return rules[i].text;
        }
    }
    return NULL;
}

bool prs_moe_gpu_find(const struct prs_moe_setup *setup)
{
    /* Kernels of several PEs wait for each other: none may be loaded, or share a queue, behind
     * another that runs. Before the first call of CUDA. */
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
    const int wanted = (int)setup->gpus;
    int gpus = 0;
    const cudaError_t error = cudaGetDeviceCount(&gpus);
    if (error != cudaSuccess || gpus < wanted) {
        fprintf(stderr,
                "perseus: --device cuda needs %d GPU%s of compute capability 9.0 (H100, H200), and "
                "CUDA finds %d here (%s); nvidia-smi shows what is there\n",
                wanted, wanted == 1 ? "" : "s", gpus, cudaGetErrorString(error));
        return false;
    }
    return true;
}

bool prs_moe_gpu_plan(const struct prs_moe_setup *setup)
{
    const struct perseus_moe_config *config = &setup->config;
    const struct perseus_moe_cuda_attr attr = prs_moe_gpu_attr(setup, 0);
    const struct prs_log log = {attr.log, attr.log_user, attr.log_level, -1};
    const uint32_t pes = prs_moe_setup_pes(setup);
    struct prs_gpu_moe_plan plan;
    if (prs_gpu_moe_plan(&attr, PRS_GPU_MOE_CTAS_MAX, &log, &plan) != PERSEUS_OK) {
        return false;
    }
    const double rows = (double)plan.rows_max * 2, mib = 1 << 20;
    const double experts = (double)config->experts / pes + config->shared_experts;
    const double weights =
        (double)prs_weights_bytes(config) * experts / (config->experts + config->shared_experts);
    const double own = rows * (2 * config->hidden + 2 * config->intermediate) +
                       (double)config->tokens_max * config->hidden * 4;
    printf("GPU memory of one of %u PEs: weights %.0f MiB, heap %.0f MiB, rows and activations of "
           "its own %.0f MiB; of each of %u GPUs %.0f MiB\n",
           pes, weights / mib, (double)plan.layout.heap_bytes / mib, own / mib, setup->gpus,
           (weights + (double)plan.layout.heap_bytes + own) * pes / setup->gpus / mib);
    return true;
}
