/* SPDX-License-Identifier: Apache-2.0 */
#include "moe/gpu_pes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kit/tool_log.h"
#include "model/reference.h"
#include "model/weights.h"
#include "moe/math/bf16.h"
#include "moe/plan.h"

bool prs_moe_gpu_done(cudaError_t error, const char *what)
{
    if (error != cudaSuccess) {
        fprintf(stderr, "perseus moe: CUDA: %s: %s\n", what, cudaGetErrorString(error));
    }
    return error == cudaSuccess;
}

struct perseus_moe_cuda_attr prs_moe_gpu_attr(const struct prs_moe_setup *setup, uint32_t pe)
{
    const struct perseus_moe_config *config = &setup->config;
    return (struct perseus_moe_cuda_attr){.hidden = config->hidden,
                                          .intermediate = config->intermediate,
                                          .experts = config->experts,
                                          .top_k = config->top_k,
                                          .shared_experts = config->shared_experts,
                                          .form = config->form,
                                          .tokens_max = config->tokens_max,
                                          .n_pes = prs_moe_setup_pes(setup),
                                          .my_pe = pe,
                                          .timeout_ms = setup->timeout_ms,
                                          .log = prs_tool_log_line,
                                          .log_level = prs_tool_log_level()};
}

/* ---- memory ---- */

/* NULL after a message. It is the PE's, and zeroed. */
static void *take(struct prs_moe_gpu_pe *pe, size_t bytes, const char *what)
{
    void *memory = NULL;
    bool is_there = prs_moe_gpu_done(cudaMalloc(&memory, bytes > 0 ? bytes : 1), what) &&
                    prs_moe_gpu_done(cudaMemset(memory, 0, bytes), what);
    if (memory != NULL) {
        pe->arrays[pe->n_arrays++] = memory;
    }
    return is_there ? memory : NULL;
}

static void *send(struct prs_moe_gpu_pe *pe, const void *from, size_t bytes, const char *what)
{
    void *memory = take(pe, bytes, what);
    bool is_sent = memory != NULL &&
                   prs_moe_gpu_done(cudaMemcpy(memory, from, bytes, cudaMemcpyHostToDevice), what);
    return is_sent ? memory : NULL;
}

/* The hosted experts, then the shared ones, gate in front of up, as the kernels want them. */
static bool send_weights(struct prs_moe_gpu_pes *pes, struct prs_moe_gpu_pe *pe,
                         struct perseus_moe_cuda_attr *attr)
{
    const struct perseus_moe_config *config = &pes->setup->config;
    const size_t matrix = (size_t)config->hidden * config->intermediate * sizeof(uint16_t);
    const size_t first = config->form == PERSEUS_MOE_SWIGLU ? 2 * matrix : matrix;
    const uint32_t n_experts = pe->hosted + config->shared_experts;
    unsigned char *to_first = take(pe, n_experts * first, "memory of an expert's first matrices");
    unsigned char *to_second = take(pe, n_experts * matrix, "memory of an expert's down matrix");
    bool is_sent = to_first != NULL && to_second != NULL;
    attr->first = to_first;
    attr->second = to_second;
    for (uint32_t i = 0; i < n_experts && is_sent; i++) {
        const uint32_t expert = i < pe->hosted ? pe->first + i : config->experts + (i - pe->hosted);
        const struct perseus_moe_expert from = prs_weights_view(config, pes->inputs->block, expert);
        const struct {
            void *to;
            const void *from;
        } copies[] = {{to_second + i * matrix, from.down},
                      {to_first + (i + 1) * first - matrix, from.up},
                      {to_first + i * first, from.gate}};
        const size_t n = config->form == PERSEUS_MOE_SWIGLU ? 3 : 2;
        for (size_t k = 0; k < n && is_sent; k++) {
            is_sent = prs_moe_gpu_done(
                cudaMemcpy(copies[k].to, copies[k].from, matrix, cudaMemcpyHostToDevice),
                "copy of weights");
        }
    }
    return is_sent;
}

static bool send_tokens(struct prs_moe_gpu_pes *pes, uint32_t number)
{
    struct prs_moe_gpu_pe *pe = &pes->pe[number];
    const struct prs_moe_inputs *inputs = pes->inputs;
    const struct perseus_moe_config *config = &pes->setup->config;
    const size_t token = (size_t)number * inputs->tokens;
    const size_t values = (size_t)inputs->tokens * config->hidden;
    const size_t choices = (size_t)inputs->tokens * config->top_k;
    uint16_t *x = malloc(values * sizeof *x);
    if (x == NULL) {
        fprintf(stderr, "perseus moe: out of memory for %u tokens\n", inputs->tokens);
        return false;
    }
    prs_bf16_row_from_f32(x, inputs->x + token * config->hidden, values);
    pe->input = (struct perseus_moe_cuda_input){
        .tokens = inputs->tokens,
        .id_bytes = sizeof *inputs->routing.ids,
        .x = send(pe, x, values * sizeof *x, "copy of tokens"),
        .ids = send(pe, inputs->routing.ids + token * config->top_k,
                    choices * sizeof *inputs->routing.ids, "copy of the routing"),
        .weights = send(pe, inputs->gate + token * config->top_k, choices * sizeof *inputs->gate,
                        "copy of the gate's weights"),
        .y = take(pe, values * sizeof *x, "memory of outputs")};
    free(x);
    return pe->input.x != NULL && pe->input.ids != NULL && pe->input.weights != NULL &&
           pe->input.y != NULL;
}

/* ---- PEs ---- */

static bool open_heap(struct prs_moe_gpu_pes *pes, uint32_t number)
{
    struct prs_moe_gpu_pe *pe = &pes->pe[number];
    const struct prs_moe_plan plan = {.config = pes->setup->config, .n_pes = pes->n};
    const struct perseus_moe_cuda_attr attr = prs_moe_gpu_attr(pes->setup, number);
    uint64_t bytes = 0;
    pe->gpu = (int)(number * pes->setup->gpus / pes->n);
    pe->first = prs_moe_first_expert(&plan, number);
    pe->hosted = prs_moe_hosted(&plan, number);
    if (!prs_moe_gpu_done(cudaSetDevice(pe->gpu), "choosing the GPU") ||
        perseus_moe_cuda_heap_bytes(&attr, &bytes) != PERSEUS_OK) {
        return false;
    }
    pes->heaps[number] = take(pe, bytes, "memory of a PE's heap");
    return pes->heaps[number] != NULL;
}

static bool open_split(struct prs_moe_gpu_pes *pes, struct prs_moe_gpu_pe *pe,
                       const struct perseus_moe_cuda_attr *attr)
{
    const uint64_t rows = perseus_moe_cuda_rows_max(pe->layer);
    const uint64_t bytes = rows * attr->hidden * sizeof(uint16_t);
    pe->rows = take(pe, bytes, "memory of rows by expert");
    pe->results = take(pe, bytes, "memory of the products' results");
    const uint32_t hosted = pe->hosted + attr->shared_experts;
    pe->counts = take(pe, hosted * sizeof *pe->counts, "memory of counts");
    const struct prs_gpu_moe_experts_attr experts = {
        .hidden = attr->hidden,
        .intermediate = attr->intermediate,
        .hosted = hosted,
        .is_swiglu = attr->form == PERSEUS_MOE_SWIGLU,
        .blocks_max = (uint32_t)(rows / PERSEUS_MOE_CUDA_BLOCK),
        .rows = pe->rows,
        .first = attr->first,
        .second = attr->second,
        .results = pe->results,
        .timeout_ms = attr->timeout_ms,
    };
    return pe->rows != NULL && pe->results != NULL && pe->counts != NULL &&
           prs_gpu_moe_experts_create(&experts, &pes->log, &pe->experts) == PERSEUS_OK;
}

static bool open_pe(struct prs_moe_gpu_pes *pes, uint32_t number)
{
    struct prs_moe_gpu_pe *pe = &pes->pe[number];
    struct perseus_moe_cuda_attr attr = prs_moe_gpu_attr(pes->setup, number);
    attr.ctas = pes->processors;
    bool is_open = prs_moe_gpu_done(cudaSetDevice(pe->gpu), "choosing the GPU") &&
                   prs_moe_gpu_done(cudaStreamCreateWithFlags(&pe->stream, cudaStreamNonBlocking),
                                    "making a stream");
    for (int i = 0; i < PRS_MOE_GPU_STAMPS && is_open; i++) {
        is_open = prs_moe_gpu_done(cudaEventCreate(&pe->stamps[i]), "making an event");
    }
    return is_open && send_weights(pes, pe, &attr) && send_tokens(pes, number) &&
           perseus_moe_cuda_create(&attr, pes->heaps, &pe->layer) == PERSEUS_OK &&
           open_split(pes, pe, &attr) &&
           prs_moe_gpu_done(cudaDeviceSynchronize(), "setting up a PE");
}

/* GPUs of one process reach each other's heaps. */
static bool join_gpus(const struct prs_moe_gpu_pes *pes)
{
    bool is_joined = true;
    for (int gpu = 0; gpu < (int)pes->setup->gpus; gpu++) {
        for (int peer = 0; peer < (int)pes->setup->gpus && is_joined; peer++) {
            is_joined = gpu == peer ||
                        (prs_moe_gpu_done(cudaSetDevice(gpu), "choosing the GPU") &&
                         prs_moe_gpu_done(cudaDeviceEnablePeerAccess(peer, 0), "peer access"));
        }
    }
    return is_joined;
}

static bool share_processors(struct prs_moe_gpu_pes *pes)
{
    struct cudaDeviceProp of;
    if (!prs_moe_gpu_done(cudaGetDeviceProperties(&of, 0), "asking for the GPU's properties")) {
        return false;
    }
    pes->processors = (uint32_t)of.multiProcessorCount * pes->setup->gpus / pes->n;
    snprintf(pes->gpu_name, sizeof pes->gpu_name, "%.60s", of.name);
    return true;
}

bool prs_moe_gpu_pes_start(struct prs_moe_gpu_pes *pes, const struct prs_moe_setup *setup,
                           const struct prs_moe_inputs *inputs)
{
    *pes = (struct prs_moe_gpu_pes){
        .setup = setup, .inputs = inputs, .log = prs_tool_log(), .n = prs_moe_setup_pes(setup)};
    bool is_started = share_processors(pes) && join_gpus(pes);
    for (uint32_t pe = 0; pe < pes->n && is_started; pe++) {
        is_started = open_heap(pes, pe);
    }
    for (uint32_t pe = 0; pe < pes->n && is_started; pe++) {
        is_started = open_pe(pes, pe);
    }
    return is_started;
}

void prs_moe_gpu_pes_stop(struct prs_moe_gpu_pes *pes)
{
    for (uint32_t i = 0; i < pes->n; i++) {
        struct prs_moe_gpu_pe *pe = &pes->pe[i];
        cudaSetDevice(pe->gpu);
        perseus_moe_cuda_destroy(pe->layer);
        prs_gpu_moe_experts_destroy(pe->experts);
        for (uint32_t k = 0; k < pe->n_arrays; k++) {
            cudaFree(pe->arrays[k]);
        }
        for (int k = 0; k < PRS_MOE_GPU_STAMPS && pe->stamps[k] != NULL; k++) {
            cudaEventDestroy(pe->stamps[k]);
        }
        if (pe->stream != NULL) {
            cudaStreamDestroy(pe->stream);
        }
    }
    for (int gpu = 0; pes->n > 0 && gpu < (int)pes->setup->gpus; gpu++) {
        for (int peer = 0; peer < (int)pes->setup->gpus; peer++) {
            cudaSetDevice(gpu);
            if (peer != gpu) {
                cudaDeviceDisablePeerAccess(peer);
            }
        }
    }
}

/* ---- outputs ---- */

static size_t values_of(const struct prs_moe_gpu_pes *pes)
{
    return (size_t)pes->inputs->tokens * pes->setup->config.hidden;
}

bool prs_moe_gpu_poison(struct prs_moe_gpu_pes *pes)
{
    const size_t bytes = values_of(pes) * sizeof(uint16_t);
    bool is_poisoned = true;
    for (uint32_t i = 0; i < pes->n && is_poisoned; i++) {
        const struct prs_moe_gpu_pe *pe = &pes->pe[i];
        is_poisoned =
            prs_moe_gpu_done(cudaSetDevice(pe->gpu), "choosing the GPU") &&
            prs_moe_gpu_done(cudaMemsetAsync(pe->input.y, 0xff, bytes, pe->stream), "poisoning");
    }
    return is_poisoned;
}

bool prs_moe_gpu_wait(struct prs_moe_gpu_pes *pes)
{
    bool is_well = true;
    for (uint32_t i = 0; i < pes->n; i++) {
        is_well =
            prs_moe_gpu_done(cudaStreamSynchronize(pes->pe[i].stream), "a forward") && is_well;
    }
    for (uint32_t i = 0; i < pes->n; i++) {
        is_well = perseus_moe_cuda_check(pes->pe[i].layer) == PERSEUS_OK && is_well;
        is_well = prs_gpu_moe_experts_check(pes->pe[i].experts) == PERSEUS_OK && is_well;
    }
    return is_well;
}

/* Adds up squares of one PE. */
static bool compare(const struct prs_moe_gpu_pes *pes, uint32_t number, double *difference,
                    double *expected)
{
    const size_t values = values_of(pes);
    uint16_t *bits = malloc(values * sizeof *bits);
    float *y = malloc(values * sizeof *y);
    bool is_there = bits != NULL && y != NULL &&
                    prs_moe_gpu_done(cudaMemcpy(bits, pes->pe[number].input.y,
                                                values * sizeof *bits, cudaMemcpyDeviceToHost),
                                     "copy of outputs");
    if (is_there) {
        double mine = 0, theirs = 0;
        prs_bf16_row_to_f32(y, bits, values);
        prs_reference_compare(y, pes->inputs->expected + number * values, values, &mine, &theirs);
        *difference += mine;
        *expected += theirs;
    }
    free(bits);
    free(y);
    return is_there;
}

static bool count(const struct prs_moe_gpu_pes *pes, uint32_t number, bool *is_right)
{
    const struct prs_moe_gpu_pe *pe = &pes->pe[number];
    const uint32_t experts = pes->setup->config.experts;
    const uint32_t hosted = pe->hosted + pes->setup->config.shared_experts;
    uint32_t *counts = malloc(hosted * sizeof *counts);
    bool is_there =
        counts != NULL && prs_moe_gpu_done(cudaMemcpy(counts, pe->counts, hosted * sizeof *counts,
                                                      cudaMemcpyDeviceToHost),
                                           "copy of counts");
    for (uint32_t i = 0; i < pe->hosted && is_there; i++) {
        uint32_t rows = 0;
        for (uint32_t source = 0; source < pes->n; source++) {
            rows += pes->inputs->counts[(size_t)source * experts + pe->first + i];
        }
        *is_right = *is_right && rows == counts[i];
    }
    for (uint32_t i = pe->hosted; i < hosted && is_there; i++) {
        *is_right = *is_right && counts[i] == pes->inputs->tokens;
    }
    free(counts);
    return is_there;
}

bool prs_moe_gpu_verify(struct prs_moe_gpu_pes *pes, bool has_counts, struct prs_moe_result *result)
{
    double difference = 0, expected = 0;
    bool is_there = true;
    for (uint32_t i = 0; i < pes->n && is_there && has_counts; i++) {
        is_there = count(pes, i, &result->is_right);
    }
    if (pes->inputs->expected == NULL) {
        result->error = NAN;
        return is_there;
    }
    for (uint32_t i = 0; i < pes->n && is_there; i++) {
        is_there = compare(pes, i, &difference, &expected);
    }
    const double error = expected > 0 ? sqrt(difference / expected) : sqrt(difference);
    if (!(error <= result->error)) { /* a NaN stays */
        result->error = error;
    }
    return is_there;
}
