/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moe_far.cuh: PEs that share one GPU, each with a heap, a proxy and a place in a layer over
 * put-with-signal, and forwards of all of them.
 */
#ifndef BENCH_GPU_MOE_FAR_CUH
#define BENCH_GPU_MOE_FAR_CUH

#include <perseus/device.h>

#include <algorithm>
#include <memory>

#include "cuda/moe/far/launch.h"
#include "moe_input.cuh"

static const uint32_t far_deadline_ms = 5000;

static void far_say(void *, enum perseus_log_level level, const char *text)
{
    if (level == PERSEUS_LOG_ERROR) {
        fprintf(stderr, "    %s\n", text);
    }
}

struct far_variant {
    const char *name;
    uint32_t protocol;
    bool vector;
    enum perseus_ordering ordering;
};

struct far_pe {
    perseus_device *device = nullptr;
    prs_moe_far far = {};
    perseus_moe_cuda_input input = {};
    std::vector<int> ids;
    std::vector<float> weights;
    uint32_t *counts = nullptr;
    cudaStream_t stream = nullptr;
    cudaEvent_t begin = nullptr, end = nullptr;
    std::vector<void *> memory;

    template <class T> T *keep(T *of)
    {
        memory.push_back((void *)of);
        return of;
    }
};

/* What all variants send. */
struct far_problem {
    prs_moe_far_shape shape;
    std::vector<__nv_bfloat16 *> x;
    std::vector<std::vector<int>> ids;
    std::vector<std::vector<float>> weights;
};

static perseus_device_group *far_make_group(far_pe &pe, uint32_t target, bool vector,
                                            const std::vector<uint64_t> &signals, uint32_t *numbers)
{
    const std::vector<int> targets(signals.size(), (int)target);
    const perseus_device_group_attr attr = {(uint32_t)signals.size(), targets.data(),
                                            signals.data(), PERSEUS_SIGNAL_SET, vector};
    perseus_device_group *group = nullptr;
    CHECK_OK(perseus_device_group_create(pe.device, &attr, numbers, &group));
    return group;
}

/* Offsets as round.cuh has them on the device. */
static void far_make_groups(far_pe &pe, bool vector)
{
    const prs_moe_far_shape &shape = pe.far.shape;
    const prs_moe_far_layout &layout = pe.far.layout;
    const uint32_t each = shape.experts / shape.n_pes; /* evenly, here */
    std::vector<perseus_device_group *> there(shape.n_pes), back(shape.n_pes);
    std::vector<uint32_t> there_numbers(shape.experts);
    std::vector<uint32_t> back_numbers(shape.n_pes * layout.hosted_max);
    for (uint32_t peer = 0; peer < shape.n_pes; peer++) {
        std::vector<uint64_t> arrived, answered;
        for (uint64_t i = 0; i < each; i++) {
            arrived.push_back(layout.arrived + (shape.me * layout.hosted_max + i) * 8);
            answered.push_back(layout.answered + (shape.me * each + i) * 8);
        }
        if (peer != shape.me) {
            there[peer] = far_make_group(pe, peer, vector, arrived, &there_numbers[peer * each]);
            back[peer] =
                far_make_group(pe, peer, vector, answered, &back_numbers[peer * layout.hosted_max]);
        }
    }
    pe.far.wire.there = pe.keep(moe_send(there));
    pe.far.wire.back = pe.keep(moe_send(back));
    pe.far.wire.there_numbers = pe.keep(moe_send(there_numbers));
    pe.far.wire.back_numbers = pe.keep(moe_send(back_numbers));
}

static void far_open_pe(far_pe &pe, const far_problem &of, uint32_t me, const far_variant &variant)
{
    pe.far.shape = of.shape;
    pe.far.shape.me = me;
    pe.far.protocol = variant.protocol;
    pe.far.timeout_ms = far_deadline_ms;
    prs_moe_far_lay(&pe.far.shape, &pe.far.layout);
    prs_moe_far_own_lay(&pe.far.shape, pe.keep(on_gpu(prs_moe_far_own_bytes(&pe.far.shape))),
                        &pe.far.own);
    pe.ids = of.ids[me];
    pe.weights = of.weights[me];
    const size_t bytes = (size_t)of.shape.tokens_max * of.shape.hidden * 2;
    pe.input = {of.shape.tokens_max,
                4,
                of.x[me],
                pe.keep(moe_send(pe.ids)),
                pe.keep(moe_send(pe.weights)),
                pe.keep(on_gpu(bytes))};
    pe.counts = (uint32_t *)pe.keep(on_gpu(pe.far.layout.hosted_max * sizeof(uint32_t)));
    perseus_device_attr attr = {};
    attr.my_pe = (int)me;
    attr.n_pes = (int)of.shape.n_pes;
    attr.provider = "batch";
    attr.ordering = variant.ordering;
    attr.heap_bytes = pe.far.layout.heap_bytes;
    attr.timeout_ms = far_deadline_ms;
    attr.log = far_say;
    CHECK_OK(perseus_device_open(&attr, &pe.device));
    CHECK_CUDA(cudaStreamCreateWithFlags(&pe.stream, cudaStreamNonBlocking));
    CHECK_CUDA(cudaEventCreate(&pe.begin));
    CHECK_CUDA(cudaEventCreate(&pe.end));
}

struct far_job {
    std::vector<far_pe> pes;
    bool failed = false, has_begun = false;
    uint64_t forwards = 0;

    far_job(const far_problem &of, const far_variant &variant) : pes(of.shape.n_pes)
    {
        std::vector<struct perseus_device_contact> contacts(pes.size());
        for (uint32_t i = 0; i < pes.size(); i++) {
            far_open_pe(pes[i], of, i, variant);
            CHECK_OK(perseus_device_contact(pes[i].device, &contacts[i]));
        }
        for (far_pe &pe : pes) {
            CHECK_OK(perseus_device_start(pe.device, contacts.data()));
            perseus_device_pe_get(pe.device, &pe.far.wire.pe);
            far_make_groups(pe, variant.vector);
        }
    }
    ~far_job()
    {
        for (far_pe &pe : pes) {
            cudaStreamDestroy(pe.stream);
            cudaEventDestroy(pe.begin);
            cudaEventDestroy(pe.end);
            perseus_device_close(pe.device);
            for (void *memory : pe.memory) {
                cudaFree(memory);
            }
        }
    }
    /* `launch(number)` puts one forward of every PE into its stream. Ms of the slowest PE's. The
     * first one only has kernels that return at once. */
    template <class Launch> double forward(Launch launch)
    {
        const bool is_idle = !has_begun;
        double slowest = 0;
        has_begun = true;
        for (far_pe &pe : pes) {
            const size_t bytes = (size_t)pe.input.tokens * pe.far.shape.hidden * 2;
            pe.far.is_idle = is_idle;
            CHECK_CUDA(cudaMemsetAsync(pe.input.y, 0xff, bytes, pe.stream));
        }
        for (far_pe &pe : pes) {
            CHECK_CUDA(cudaEventRecord(pe.begin, pe.stream));
        }
        launch(forwards);
        for (far_pe &pe : pes) {
            CHECK_CUDA(cudaEventRecord(pe.end, pe.stream));
        }
        forwards += !is_idle;
        for (far_pe &pe : pes) {
            wait_for(pe.stream);
        }
        for (far_pe &pe : pes) {
            float ms = 0;
            uint32_t status = 0;
            CHECK_CUDA(cudaEventElapsedTime(&ms, pe.begin, pe.end));
            CHECK_CUDA(cudaMemcpy(&status, pe.far.own.failed, 4, cudaMemcpyDeviceToHost));
            failed = failed || status != 0 || perseus_device_check(pe.device) != PERSEUS_OK;
            slowest = std::max(slowest, (double)ms);
        }
        return slowest;
    }
};

static far_problem far_make_problem(const moe_model &model, uint32_t n_pes, uint32_t tokens,
                                    std::mt19937_64 &random)
{
    far_problem made = {{model.hidden, model.experts, model.top_k, tokens, n_pes, 0}, {}, {}, {}};
    for (uint32_t pe = 0; pe < n_pes; pe++) {
        made.x.push_back(moe_random((uint64_t)tokens * model.hidden, random(), 1.0f));
        made.ids.push_back(moe_route(tokens, model.experts, model.top_k, random));
        made.weights.emplace_back(made.ids[pe].size());
        for (float &weight : made.weights[pe]) {
            weight = (float)(random() % 1000 + 1) / 1000.0f;
        }
    }
    CHECK_CUDA(cudaDeviceSynchronize());
    return made;
}

static double far_median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values.empty() ? NAN : values[values.size() / 2];
}

#endif
