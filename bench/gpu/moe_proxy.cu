/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moe_proxy [PES] [TOKENS]: dispatch and combine of qwen3-30b by put-with-signal through the proxy
 * and the copy engines, PEs sharing one GPU: vanilla, each lever, both, and a ceiling, in turns in
 * one run. Experts double their rows; every output is checked.
 */
#include <perseus/device.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "cuda/moe/far/launch.h"
#include "moe_input.cuh"

enum { FORWARDS = 12, WARM = 3, ROUNDS = 3, CTAS = 128 };
static const uint32_t deadline_ms = 5000;

static void say(void *, enum perseus_log_level level, const char *text)
{
    if (level == PERSEUS_LOG_ERROR) {
        fprintf(stderr, "    %s\n", text);
    }
}

struct variant {
    const char *name;
    uint32_t protocol;
    bool vector;
    enum perseus_ordering ordering;
};

static const variant variants[] = {
    {"coupled + drain", PRS_MOE_FAR_COUPLED, false, PERSEUS_ORDERING_DRAIN},
    {"coupled + nic-fence", PRS_MOE_FAR_COUPLED, false, PERSEUS_ORDERING_NIC_FENCE},
    {"decoupled + drain", PRS_MOE_FAR_DECOUPLED, true, PERSEUS_ORDERING_DRAIN},
    {"decoupled + nic-fence", PRS_MOE_FAR_DECOUPLED, true, PERSEUS_ORDERING_NIC_FENCE},
    {"ceiling, put-only", PRS_MOE_FAR_PUT_ONLY, false, PERSEUS_ORDERING_NIC_FENCE},
};
enum { VARIANTS = sizeof variants / sizeof variants[0] };

/* All rows of a PE's experts, doubled. */
__global__ void experts(const uint4 *rows, uint4 *results, const uint32_t *counts, uint32_t hosted,
                        uint32_t eights)
{
    uint64_t first = 0;
    for (uint32_t e = 0; e < hosted; e++) {
        const uint32_t n = counts[e] * eights, step = gridDim.x * blockDim.x;
        for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
            uint4 value = rows[first + i];
            __nv_bfloat162 *pairs = (__nv_bfloat162 *)&value;
            for (int k = 0; k < 4; k++) {
                pairs[k] = __hadd2(pairs[k], pairs[k]);
            }
            results[first + i] = value;
        }
        const uint64_t block = PERSEUS_MOE_CUDA_BLOCK;
        first += (counts[e] + block - 1) / block * block * eights;
    }
}

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
struct problem {
    prs_moe_far_shape shape;
    std::vector<__nv_bfloat16 *> x;
    std::vector<std::vector<int>> ids;
    std::vector<std::vector<float>> weights;
};

static perseus_device_group *make_group(far_pe &pe, uint32_t target, bool vector,
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
static void make_groups(far_pe &pe, bool vector)
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
            there[peer] = make_group(pe, peer, vector, arrived, &there_numbers[peer * each]);
            back[peer] =
                make_group(pe, peer, vector, answered, &back_numbers[peer * layout.hosted_max]);
        }
    }
    pe.far.wire.there = pe.keep(moe_send(there));
    pe.far.wire.back = pe.keep(moe_send(back));
    pe.far.wire.there_numbers = pe.keep(moe_send(there_numbers));
    pe.far.wire.back_numbers = pe.keep(moe_send(back_numbers));
}

static void open_pe(far_pe &pe, const problem &of, uint32_t me, const variant &variant)
{
    pe.far.shape = of.shape;
    pe.far.shape.me = me;
    pe.far.protocol = variant.protocol;
    pe.far.timeout_ms = deadline_ms;
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
    attr.timeout_ms = deadline_ms;
    attr.log = say;
    CHECK_OK(perseus_device_open(&attr, &pe.device));
    CHECK_CUDA(cudaStreamCreateWithFlags(&pe.stream, cudaStreamNonBlocking));
    CHECK_CUDA(cudaEventCreate(&pe.begin));
    CHECK_CUDA(cudaEventCreate(&pe.end));
}

struct far_job {
    std::vector<far_pe> pes;
    bool failed = false;
    uint64_t forwards = 0;

    far_job(const problem &of, const variant &variant) : pes(of.shape.n_pes)
    {
        std::vector<struct perseus_device_contact> contacts(pes.size());
        for (uint32_t i = 0; i < pes.size(); i++) {
            open_pe(pes[i], of, i, variant);
            CHECK_OK(perseus_device_contact(pes[i].device, &contacts[i]));
        }
        for (far_pe &pe : pes) {
            CHECK_OK(perseus_device_start(pe.device, contacts.data()));
            perseus_device_pe_get(pe.device, &pe.far.wire.pe);
            make_groups(pe, variant.vector);
        }
        launch_all(true);
        for (far_pe &pe : pes) {
            wait_for(pe.stream);
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
    /* All PEs' dispatches first, so that none waits long for another to be launched. */
    void launch_all(bool is_idle)
    {
        const uint32_t ctas = CTAS / (uint32_t)pes.size();
        const uint64_t number = forwards;
        for (far_pe &pe : pes) {
            const size_t bytes = (size_t)pe.input.tokens * pe.far.shape.hidden * 2;
            pe.far.is_idle = is_idle;
            CHECK_CUDA(cudaMemsetAsync(pe.input.y, 0xff, bytes, pe.stream));
        }
        for (far_pe &pe : pes) {
            CHECK_CUDA(cudaEventRecord(pe.begin, pe.stream));
            CHECK_CUDA((cudaError_t)prs_moe_far_launch_dispatch(pe.far, pe.input, number, pe.counts,
                                                                ctas, pe.stream));
        }
        for (far_pe &pe : pes) {
            const prs_moe_far_layout &layout = pe.far.layout;
            unsigned char *half = pe.far.wire.pe.heap + layout.halves[number % PRS_MOE_FAR_HALVES];
            experts<<<ctas, 256, 0, pe.stream>>>(
                (const uint4 *)(half + layout.rows), (uint4 *)(half + layout.results), pe.counts,
                pe.far.shape.experts / pe.far.shape.n_pes, pe.far.shape.hidden / 8);
            CHECK_CUDA(cudaGetLastError());
            CHECK_CUDA((cudaError_t)prs_moe_far_launch_combine(pe.far, pe.input, number,
                                                               layout.results, ctas, pe.stream));
            CHECK_CUDA(cudaEventRecord(pe.end, pe.stream));
        }
    }
    /* One forward of all PEs; ms of the slowest one's dispatch, experts and combine. */
    double forward()
    {
        double slowest = 0;
        launch_all(false);
        forwards++;
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
    /* Of all PEs' last outputs: relative Frobenius error. */
    double error() const
    {
        double difference = 0, norm = 0;
        for (const far_pe &pe : pes) {
            const uint32_t hidden = pe.far.shape.hidden, top_k = pe.far.shape.top_k;
            const size_t values = (size_t)pe.input.tokens * hidden;
            const auto x = moe_fetch<__nv_bfloat16>(pe.input.x, values);
            const auto y = moe_fetch<__nv_bfloat16>(pe.input.y, values);
            for (size_t i = 0; i < values; i++) {
                double weight = 0;
                for (uint32_t k = 0; k < top_k; k++) {
                    weight += pe.weights[i / hidden * top_k + k];
                }
                const double expected = 2 * weight * (double)__bfloat162float(x[i]);
                const double apart = (double)__bfloat162float(y[i]) - expected;
                difference += apart * apart;
                norm += expected * expected;
            }
        }
        return sqrt(difference / norm);
    }
};

static problem make_problem(uint32_t n_pes, uint32_t tokens, std::mt19937_64 &random)
{
    const moe_model &model = moe_models[0];
    problem made = {{model.hidden, model.experts, model.top_k, tokens, n_pes, 0}, {}, {}, {}};
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

static double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values.empty() ? NAN : values[values.size() / 2];
}

/* The variants in turns, ROUNDS times. False: something was wrong. */
static bool measure(uint32_t n_pes, uint32_t tokens, std::mt19937_64 &random)
{
    const problem of = make_problem(n_pes, tokens, random);
    std::vector<double> times[VARIANTS];
    double errors[VARIANTS] = {};
    bool failed[VARIANTS] = {};
    struct perseus_stats stats[VARIANTS] = {};
    bool right = true;
    for (int round = 0; round < ROUNDS; round++) {
        for (int v = 0; v < VARIANTS; v++) {
            far_job job(of, variants[v]);
            for (int i = 0; i < FORWARDS && !job.failed; i++) {
                const double ms = job.forward();
                if (i >= WARM) {
                    times[v].push_back(ms);
                }
            }
            const double error = job.error();
            errors[v] = !(error <= errors[v]) ? error : errors[v]; /* no number stays */
            perseus_device_stats(job.pes[0].device, PERSEUS_ALL_PES, &stats[v]);
            failed[v] = failed[v] || job.failed;
            right = right && !job.failed && errors[v] < 1e-2;
        }
    }
    printf("\n%u PEs of one GPU, %u tokens each, qwen3-30b, medians of %d forwards without "
           "products\n\n%-24s %9s %8s %10s %8s %8s %10s\n",
           n_pes, tokens, ROUNDS * (FORWARDS - WARM), "variant", "ms", "gain", "of ceiling",
           "fences", "drains", "error");
    const double vanilla = median(times[0]), ceiling = median(times[VARIANTS - 1]);
    for (int v = 0; v < VARIANTS; v++) {
        const double ms = median(times[v]);
        printf("%-24s %9.3f %7.2fx %10.2f %8llu %8llu %10.2e%s\n", variants[v].name, ms,
               vanilla / ms, ms / ceiling, (unsigned long long)stats[v].fences / FORWARDS,
               (unsigned long long)stats[v].drains / FORWARDS, errors[v],
               failed[v]          ? "  FAILED"
               : errors[v] < 1e-2 ? ""
                                  : "  WRONG");
    }
    for (__nv_bfloat16 *x : of.x) {
        cudaFree(x);
    }
    return right;
}

int main(int argc, char **argv)
{
    const uint32_t only = argc > 1 ? (uint32_t)atoi(argv[1]) : 0;
    const uint32_t tokens = argc > 2 ? (uint32_t)atoi(argv[2]) : 1024;
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
    setvbuf(stdout, nullptr, _IOLBF, 0);
    std::mt19937_64 random(now_ns());
    bool right = true;
    for (uint32_t n_pes : {4u, 8u}) {
        if (only == 0 || only == n_pes) {
            right = measure(n_pes, tokens, random) && right;
        }
    }
    printf("\n%s\n", right ? "all right" : "SOMETHING IS WRONG");
    return right ? 0 : 1;
}
