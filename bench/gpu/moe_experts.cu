/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moe_experts [all|check|check-short|time] [MODEL]: both expert products with SwiGLU, checked
 * against f32 and timed; scripts/gpu/moe builds and runs it, docs/gpu-moe.md says what the numbers
 * are.
 */
#include <algorithm>
#include <cmath>

#include "cuda/moe/experts.h"
#include "moe_input.cuh"

int failures;

static void print_line(void *, enum perseus_log_level, const char *line)
{
    fprintf(stderr, "%s\n", line);
}

static const struct prs_log loud = {print_line, nullptr, PERSEUS_LOG_WARN, 0};

/* Experts with rows of their own, on the GPU. */
struct bench_experts {
    prs_gpu_moe_experts_attr attr = {};
    prs_gpu_moe_experts *experts = nullptr;
    std::vector<uint32_t> counts;
    uint32_t *counts_there = nullptr;
    uint32_t blocks = 0;

    bench_experts(uint32_t hidden, uint32_t intermediate, bool is_swiglu,
                  const std::vector<uint32_t> &rows, uint64_t seed)
        : counts(rows)
    {
        for (uint32_t n : counts) {
            blocks += (n + PRS_GPU_MOE_BLOCK - 1) / PRS_GPU_MOE_BLOCK;
        }
        const uint64_t hosted = counts.size(), all = (uint64_t)(blocks + 1) * PRS_GPU_MOE_BLOCK;
        const uint64_t matrix = (uint64_t)hidden * intermediate;
        attr.hidden = hidden;
        attr.intermediate = intermediate;
        attr.hosted = (uint32_t)hosted;
        attr.is_swiglu = is_swiglu;
        attr.blocks_max = blocks + 1;
        attr.rows = moe_random(all * hidden, seed + 1, 1.0f);
        attr.first = moe_random(hosted * matrix * (is_swiglu ? 2 : 1), seed + 2,
                                1.0f / sqrtf((float)hidden));
        attr.second = moe_random(hosted * matrix, seed + 3, 1.0f / sqrtf((float)intermediate));
        CHECK_CUDA(cudaMalloc(&attr.results, all * hidden * 2));
        CHECK_CUDA(cudaMemset(attr.results, 0xff, all * hidden * 2)); /* no numbers */
        counts_there = moe_send(counts);
        CHECK_OK(prs_gpu_moe_experts_create(&attr, &loud, &experts));
    }
    ~bench_experts()
    {
        prs_gpu_moe_experts_destroy(experts);
        cudaFree((void *)attr.rows);
        cudaFree((void *)attr.first);
        cudaFree((void *)attr.second);
        cudaFree(attr.results);
        cudaFree(counts_there);
    }
    void run(cudaStream_t stream)
    {
        CHECK_OK(prs_gpu_moe_experts_run(experts, counts_there, stream));
    }
};

/* Rows that are compared: all of an expert up to `each`, then evenly spread. */
static void sample(const std::vector<uint32_t> &counts, uint32_t each, std::vector<uint32_t> &rows,
                   std::vector<uint32_t> &experts)
{
    uint32_t block = 0;
    for (uint32_t e = 0; e < counts.size(); e++) {
        const uint32_t n = std::min(each, counts[e]);
        for (uint32_t i = 0; i < n; i++) {
            rows.push_back(block * PRS_GPU_MOE_BLOCK + (uint32_t)((uint64_t)i * counts[e] / n));
            experts.push_back(e);
        }
        block += (counts[e] + PRS_GPU_MOE_BLOCK - 1) / PRS_GPU_MOE_BLOCK;
    }
}

/* Relative Frobenius error of the sampled rows; NaN if one was not written. */
static double error_of(const bench_experts &bench, uint32_t each)
{
    std::vector<uint32_t> rows, experts;
    sample(bench.counts, each, rows, experts);
    if (rows.empty()) {
        return 0;
    }
    const uint32_t hidden = bench.attr.hidden;
    uint32_t *rows_there = moe_send(rows), *experts_there = moe_send(experts);
    float *middle = (float *)on_gpu(rows.size() * bench.attr.intermediate * sizeof(float));
    float *out = (float *)on_gpu(rows.size() * hidden * sizeof(float));
    moe_reference<<<(unsigned)rows.size(), 256>>>(
        (const __nv_bfloat16 *)bench.attr.rows, (const __nv_bfloat16 *)bench.attr.first,
        (const __nv_bfloat16 *)bench.attr.second, hidden, bench.attr.intermediate,
        bench.attr.is_swiglu, rows_there, experts_there, middle, out);
    CHECK_CUDA(cudaDeviceSynchronize());
    const std::vector<float> expected = moe_fetch<float>(out, rows.size() * hidden);
    double difference = 0, norm = 0;
    for (size_t i = 0; i < rows.size(); i++) {
        const std::vector<__nv_bfloat16> row = moe_fetch<__nv_bfloat16>(
            (const __nv_bfloat16 *)bench.attr.results + (uint64_t)rows[i] * hidden, hidden);
        for (uint32_t k = 0; k < hidden; k++) {
            const double want = expected[i * hidden + k], got = (double)__bfloat162float(row[k]);
            difference += (got - want) * (got - want);
            norm += want * want;
        }
    }
    for (void *memory : {(void *)rows_there, (void *)experts_there, (void *)middle, (void *)out}) {
        cudaFree(memory);
    }
    return sqrt(difference / norm);
}

/* Rows that belong to no expert must stay as they were. */
static bool strays(const bench_experts &bench)
{
    uint32_t block = 0;
    for (uint32_t n : bench.counts) {
        const uint32_t blocks = (n + PRS_GPU_MOE_BLOCK - 1) / PRS_GPU_MOE_BLOCK;
        const size_t over = (size_t)blocks * PRS_GPU_MOE_BLOCK - n;
        const std::vector<uint16_t> rest =
            moe_fetch<uint16_t>((const uint16_t *)bench.attr.results +
                                    ((uint64_t)block * PRS_GPU_MOE_BLOCK + n) * bench.attr.hidden,
                                over * bench.attr.hidden);
        if (std::any_of(rest.begin(), rest.end(), [](uint16_t value) { return value != 0xffff; })) {
            return true;
        }
        block += blocks;
    }
    return false;
}

static void check(const char *what, uint32_t hidden, uint32_t intermediate, bool is_swiglu,
                  const std::vector<uint32_t> &counts, uint64_t seed)
{
    bench_experts bench(hidden, intermediate, is_swiglu, counts, seed);
    double worst = 0;
    bool stray = false;
    for (int i = 0; i < 3; i++) {
        CHECK_CUDA(cudaMemset(bench.attr.results, 0xff,
                              (size_t)(bench.blocks + 1) * PRS_GPU_MOE_BLOCK * hidden * 2));
        bench.run(nullptr);
        CHECK_CUDA(cudaDeviceSynchronize());
        CHECK_OK(prs_gpu_moe_experts_check(bench.experts));
        const double error = error_of(bench, 300);
        worst = !(error <= worst) ? error : worst;
        stray = stray || strays(bench);
    }
    const bool right = worst < 1e-2 && !stray;
    failures += !right;
    printf("check %-34s %s  error %.2e%s\n", what, right ? "ok" : "WRONG", worst,
           stray ? ", rows of nobody written" : "");
}

static void check_all(uint64_t seed)
{
    check("64 x 128, one block", 64, 128, true, {128}, seed);
    check("one row", 64, 128, true, {1}, seed + 10);
    check("odd rows, empty experts", 256, 192, true, {0, 63, 64, 65, 0, 129, 1, 300}, seed + 20);
    check("widths beside the tiles", 200, 136, true, {70, 5, 200}, seed + 30);
    check("8 x 8", 8, 8, true, {130, 2}, seed + 40);
    check("nothing at all", 64, 64, true, {0, 0, 0}, seed + 50);
    check("one expert takes all", 512, 256, true, {0, 0, 4099, 0}, seed + 60);
    check("two-matrix form", 256, 520, false, {100, 0, 257, 33}, seed + 70);
    check("gpt-oss's widths", 2880, 2880, true, {17, 140, 3}, seed + 80);
    check("qwen3-30b's widths", 2048, 768, true, {32, 129, 0, 260}, seed + 90);
}

static double median_ms(bench_experts &bench, int rounds)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    CHECK_CUDA(cudaStreamCreate(&stream));
    CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    bench.run(stream);
    CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
    CHECK_CUDA(cudaGraphInstantiate(&replay, graph, 0));
    std::vector<cudaEvent_t> events(rounds + 1);
    for (cudaEvent_t &event : events) {
        CHECK_CUDA(cudaEventCreate(&event));
    }
    for (int i = 0; i < 5; i++) {
        CHECK_CUDA(cudaGraphLaunch(replay, stream));
    }
    for (int i = 0; i <= rounds; i++) {
        CHECK_CUDA(cudaEventRecord(events[i], stream));
        if (i < rounds) {
            CHECK_CUDA(cudaGraphLaunch(replay, stream));
        }
    }
    CHECK_CUDA(cudaStreamSynchronize(stream));
    std::vector<float> times(rounds);
    for (int i = 0; i < rounds; i++) {
        CHECK_CUDA(cudaEventElapsedTime(&times[i], events[i], events[i + 1]));
    }
    for (cudaEvent_t event : events) {
        cudaEventDestroy(event);
    }
    cudaGraphExecDestroy(replay);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    std::sort(times.begin(), times.end());
    return times[rounds / 2];
}

/* The rows that one of two GPUs gets, which hosts half of the experts. */
static void time_model(const moe_model &model, uint32_t tokens, std::mt19937_64 &random)
{
    const uint32_t hosted = model.experts / 2;
    std::vector<uint32_t> counts(hosted);
    uint64_t rows = 0;
    for (int id : moe_route(2 * tokens, model.experts, model.top_k, random)) {
        if ((uint32_t)id < hosted) {
            counts[id]++;
            rows++;
        }
    }
    bench_experts bench(model.hidden, model.intermediate, true, counts, random());
    const double ms = median_ms(bench, 30);
    CHECK_OK(prs_gpu_moe_experts_check(bench.experts));
    const double error = error_of(bench, 4);
    failures += !(error < 1e-2);
    const double matrix = (double)model.hidden * model.intermediate;
    const double flops = 6.0 * (double)rows * matrix, bytes = 6.0 * hosted * matrix;
    printf("%-13s %6u %8llu %6u %9.4f %8.0f %8.2f %10.2e\n", model.name, tokens,
           (unsigned long long)rows, bench.blocks, ms, flops / ms * 1e-9, bytes / ms * 1e-9, error);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "all", *only = argc > 2 ? argv[2] : "";
    std::mt19937_64 random(now_ns());
    setvbuf(stdout, nullptr, _IOLBF, 0);
    if (strcmp(what, "time") != 0) {
        check_all(random());
    }
    if (strcmp(what, "all") == 0 || strcmp(what, "time") == 0) {
        printf("\n%-13s %6s %8s %6s %9s %8s %8s %10s\n", "model", "S", "rows", "blocks", "ms",
               "TFLOP/s", "TB/s", "error");
        for (const moe_model &model : moe_models) {
            for (uint32_t tokens = 256; tokens <= 16384; tokens *= 4) {
                if (strstr(model.name, only) != nullptr) {
                    time_model(model, tokens, random);
                }
            }
        }
    }
    printf("\n%d failures\n", failures);
    return failures != 0;
}
