/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moe_layer [all|check|check-short|time] [MODEL]: whole forwards by the megakernel, of one PE and
 * of several that share the GPU, checked against f32 and timed; scripts/gpu/moe builds and runs it.
 * check-short has one PE alone, for compute-sanitizer, under which kernels run one after the other.
 */
#include <algorithm>
#include <cmath>

#include <perseus/moe_cuda.h>

#include "cuda/moe/experts.h"
#include "moe_input.cuh"

int failures;

static void print_line(void *, enum perseus_log_level, const char *line)
{
    fprintf(stderr, "%s\n", line);
}

static const struct prs_log loud = {print_line, nullptr, PERSEUS_LOG_WARN, 0};

struct bench_shape {
    uint32_t hidden, intermediate, experts, top_k, tokens_max, n_pes;
    bool is_swiglu;
};

/* How a forward's tokens choose. */
enum bench_routing { ROUTING_RANDOM, ROUTING_ONE_EXPERT, ROUTING_HOLES, ROUTING_NOBODY };

/* One PE's share of a forward. */
struct bench_tokens {
    uint32_t tokens = 0;
    std::vector<int> ids;
    std::vector<float> weights;
    __nv_bfloat16 *x = nullptr;
    void *ids_there = nullptr;
    float *weights_there = nullptr;
    __nv_bfloat16 *y = nullptr;

    perseus_moe_cuda_input input(uint32_t id_bytes) const
    {
        return {tokens, id_bytes, x, ids_there, weights_there, y};
    }
    void drop()
    {
        for (void *memory : {(void *)x, ids_there, (void *)weights_there, (void *)y}) {
            cudaFree(memory);
        }
        *this = bench_tokens();
    }
};

static bench_tokens make_tokens(const bench_shape &shape, uint32_t tokens, bench_routing routing,
                                uint32_t id_bytes, std::mt19937_64 &random)
{
    bench_tokens made;
    made.tokens = tokens;
    made.ids = moe_route(tokens, shape.experts, shape.top_k, random);
    made.weights.resize(made.ids.size());
    for (size_t i = 0; i < made.ids.size(); i++) {
        made.weights[i] = (float)(random() % 1000 + 1) / 1000.0f;
        if (routing == ROUTING_NOBODY || (routing == ROUTING_HOLES && random() % 3 == 0) ||
            (routing == ROUTING_ONE_EXPERT && i % shape.top_k != 0)) {
            made.ids[i] = -1;
            made.weights[i] = NAN; /* must not matter */
        } else if (routing == ROUTING_ONE_EXPERT) {
            made.ids[i] = (int)shape.experts - 1;
        }
    }
    made.x = moe_random((uint64_t)std::max(tokens, 1u) * shape.hidden, random(), 1.0f);
    made.weights_there = moe_send(made.weights);
    if (id_bytes == 8) {
        made.ids_there = moe_send(std::vector<int64_t>(made.ids.begin(), made.ids.end()));
    } else {
        made.ids_there = moe_send(made.ids);
    }
    const size_t bytes = (size_t)std::max(tokens, 1u) * shape.hidden * 2;
    CHECK_CUDA(cudaMalloc(&made.y, bytes));
    CHECK_CUDA(cudaMemset(made.y, 0xff, bytes)); /* no numbers */
    return made;
}

static uint32_t processors()
{
    int count = 0;
    CHECK_CUDA(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0));
    return (uint32_t)count;
}

struct bench_layer {
    bench_shape shape;
    __nv_bfloat16 *first, *second;
    std::vector<void *> heaps;
    std::vector<perseus_moe_cuda *> pes;
    std::vector<cudaStream_t> streams;
    std::vector<uint32_t> hosted; /* experts of each PE, and their weights */
    std::vector<const void *> firsts, seconds;
    std::vector<prs_gpu_moe_experts_attr> split;
    std::vector<prs_gpu_moe_experts *> experts;
    std::vector<uint32_t *> counts;

    bench_layer(const bench_shape &of, uint32_t timeout_ms, std::mt19937_64 &random) : shape(of)
    {
        const uint64_t matrix = (uint64_t)shape.hidden * shape.intermediate;
        const uint64_t first_matrix = matrix * (shape.is_swiglu ? 2 : 1);
        first = moe_random(shape.experts * first_matrix, random(), 1 / sqrtf((float)shape.hidden));
        second = moe_random(shape.experts * matrix, random(), 1 / sqrtf((float)shape.intermediate));
        perseus_moe_cuda_attr attr = {};
        attr.hidden = shape.hidden;
        attr.intermediate = shape.intermediate;
        attr.experts = shape.experts;
        attr.top_k = shape.top_k;
        attr.form = shape.is_swiglu ? PERSEUS_MOE_SWIGLU : PERSEUS_MOE_TWO_MATRIX;
        attr.tokens_max = shape.tokens_max;
        attr.n_pes = shape.n_pes;
        attr.timeout_ms = timeout_ms;
        attr.ctas = processors() / shape.n_pes;
        attr.log = print_line;
        attr.log_level = PERSEUS_LOG_WARN;
        uint64_t bytes = 0;
        CHECK_OK(perseus_moe_cuda_heap_bytes(&attr, &bytes));
        for (uint32_t pe = 0; pe < shape.n_pes; pe++) {
            heaps.push_back(on_gpu(bytes));
        }
        pes.resize(shape.n_pes);
        streams.resize(shape.n_pes);
        for (uint32_t pe = 0; pe < shape.n_pes; pe++) {
            const uint32_t each = shape.experts / shape.n_pes, more = shape.experts % shape.n_pes;
            const uint64_t begin = (uint64_t)pe * each + std::min(pe, more);
            attr.my_pe = pe;
            attr.first = first + begin * first_matrix;
            attr.second = second + begin * matrix;
            hosted.push_back(each + (pe < more));
            firsts.push_back(attr.first);
            seconds.push_back(attr.second);
            CHECK_OK(perseus_moe_cuda_create(&attr, heaps.data(), &pes[pe]));
            CHECK_CUDA(cudaStreamCreateWithFlags(&streams[pe], cudaStreamNonBlocking));
        }
        CHECK_CUDA(cudaDeviceSynchronize());
    }
    ~bench_layer()
    {
        for (uint32_t pe = 0; pe < shape.n_pes; pe++) {
            perseus_moe_cuda_destroy(pes[pe]);
            cudaFree(heaps[pe]);
            cudaStreamDestroy(streams[pe]);
        }
        for (size_t pe = 0; pe < experts.size(); pe++) {
            prs_gpu_moe_experts_destroy(experts[pe]);
            cudaFree((void *)split[pe].rows);
            cudaFree(split[pe].results);
            cudaFree(counts[pe]);
        }
        cudaFree(first);
        cudaFree(second);
    }
    void launch(const std::vector<bench_tokens> &tokens, uint32_t id_bytes)
    {
        for (uint32_t pe = 0; pe < shape.n_pes; pe++) {
            const perseus_moe_cuda_input input = tokens[pe].input(id_bytes);
            CHECK_OK(perseus_moe_cuda_forward(pes[pe], &input, streams[pe]));
        }
    }
    /* The same by dispatch, the experts' products by themselves, and combine. */
    void launch_split(const std::vector<bench_tokens> &tokens, uint32_t id_bytes)
    {
        make_split();
        for (uint32_t pe = 0; pe < shape.n_pes; pe++) {
            const perseus_moe_cuda_input input = tokens[pe].input(id_bytes);
            CHECK_OK(perseus_moe_dispatch(pes[pe], &input, (void *)split[pe].rows, counts[pe],
                                          streams[pe]));
            CHECK_OK(prs_gpu_moe_experts_run(experts[pe], counts[pe], streams[pe]));
            CHECK_OK(perseus_moe_combine(pes[pe], &input, split[pe].results, streams[pe]));
        }
    }
    void make_split()
    {
        for (uint32_t pe = (uint32_t)experts.size(); pe < shape.n_pes; pe++) {
            const uint64_t rows = perseus_moe_cuda_rows_max(pes[pe]), hidden = shape.hidden;
            prs_gpu_moe_experts_attr attr = {};
            attr.hidden = shape.hidden;
            attr.intermediate = shape.intermediate;
            attr.hosted = hosted[pe];
            attr.is_swiglu = shape.is_swiglu;
            attr.blocks_max = (uint32_t)(rows / PRS_GPU_MOE_BLOCK);
            attr.first = firsts[pe];
            attr.second = seconds[pe];
            attr.rows = on_gpu(rows * hidden * 2);
            attr.results = on_gpu(rows * hidden * 2);
            split.push_back(attr);
            counts.push_back((uint32_t *)on_gpu(shape.experts * sizeof(uint32_t)));
            experts.push_back(nullptr);
            CHECK_OK(prs_gpu_moe_experts_create(&attr, &loud, &experts.back()));
        }
        CHECK_CUDA(cudaDeviceSynchronize());
    }
    bool wait()
    {
        bool right = true;
        for (uint32_t pe = 0; pe < shape.n_pes; pe++) {
            CHECK_CUDA(cudaStreamSynchronize(streams[pe]));
        }
        for (uint32_t pe = 0; pe < shape.n_pes; pe++) {
            right = perseus_moe_cuda_check(pes[pe]) == PERSEUS_OK && right;
        }
        return right;
    }
};

/* Adds up squares of difference and norm over every `stride`-th token. */
static void compare(const bench_layer &layer, const bench_tokens &of, uint32_t stride,
                    double *difference, double *norm)
{
    const bench_shape &shape = layer.shape;
    const moe_weights weights = {layer.first, layer.second, shape.hidden, shape.intermediate,
                                 shape.is_swiglu};
    const std::vector<double> expected =
        moe_expect(weights, of.x, of.ids, of.weights, of.tokens, shape.top_k, stride);
    moe_compare(expected, of.y, of.tokens, shape.hidden, stride, difference, norm);
}

/* `forwards` with other tokens each, two of them under way; is_split: every other one in two
 * halves. */
static void check(const char *what, const bench_shape &shape, bench_routing routing,
                  uint32_t forwards, uint64_t seed, bool is_split = false)
{
    std::mt19937_64 random(seed);
    bench_layer layer(shape, 5000, random);
    double worst = 0;
    bool ended_well = true;
    for (uint32_t done = 0; done < forwards; done += 2) {
        std::vector<bench_tokens> tokens[2];
        const uint32_t id_bytes = done % 4 < 2 ? 4 : 8;
        for (uint32_t i = 0; i < 2; i++) {
            for (uint32_t pe = 0; pe < shape.n_pes; pe++) {
                const uint32_t n =
                    done == 0 ? shape.tokens_max : (uint32_t)(random() % (shape.tokens_max + 1));
                tokens[i].push_back(make_tokens(shape, n, routing, id_bytes, random));
            }
        }
        CHECK_CUDA(cudaDeviceSynchronize());
        layer.launch(tokens[0], id_bytes);
        if (is_split) {
            layer.launch_split(tokens[1], id_bytes);
        } else {
            layer.launch(tokens[1], id_bytes);
        }
        ended_well = layer.wait() && ended_well;
        for (uint32_t i = 0; i < 2; i++) {
            double difference = 0, norm = 0;
            for (bench_tokens &of : tokens[i]) {
                compare(layer, of, 1, &difference, &norm);
                of.drop();
            }
            const double error = norm == 0 ? sqrt(difference) : sqrt(difference / norm);
            worst = !(error <= worst) ? error : worst;
        }
        if (!ended_well) {
            break;
        }
    }
    const bool right = ended_well && worst < 1e-2;
    failures += !right;
    printf("check %-40s %s  error %.2e\n", what, right ? "ok" : "WRONG", worst);
}

static void check_all(bool is_short, uint64_t seed)
{
    const uint32_t n = is_short ? 2 : 8;
    check("one PE", {256, 128, 8, 2, 200, 1, true}, ROUTING_RANDOM, n, seed);
    check("one PE, two-matrix form", {128, 256, 5, 3, 77, 1, false}, ROUTING_RANDOM, n, seed + 1);
    check("one PE, one expert takes all", {128, 128, 8, 4, 700, 1, true}, ROUTING_ONE_EXPERT, n,
          seed + 2);
    check("one PE, ids of -1", {200, 136, 9, 4, 130, 1, true}, ROUTING_HOLES, n, seed + 3);
    check("one PE, nobody chooses", {64, 64, 4, 2, 50, 1, true}, ROUTING_NOBODY, n, seed + 4);
    check("one PE, split", {200, 136, 9, 4, 330, 1, true}, ROUTING_HOLES, n, seed + 11, true);
    if (!is_short) {
        check("three PEs, split", {256, 192, 11, 4, 150, 3, true}, ROUTING_HOLES, n, seed + 12,
              true);
        check("two PEs, one expert takes all, split", {128, 128, 8, 2, 700, 2, true},
              ROUTING_ONE_EXPERT, n, seed + 13, true);
        check("two PEs", {256, 128, 8, 2, 200, 2, true}, ROUTING_RANDOM, n, seed + 5);
        check("three PEs, uneven experts, ids of -1", {256, 192, 11, 4, 150, 3, true},
              ROUTING_HOLES, n, seed + 6);
        check("four PEs, one expert takes all", {128, 128, 8, 2, 300, 4, true}, ROUTING_ONE_EXPERT,
              n, seed + 7);
        check("eight PEs", {512, 256, 64, 8, 256, 8, true}, ROUTING_RANDOM, n, seed + 8);
        check("two PEs, 300 forwards", {128, 64, 16, 4, 96, 2, true}, ROUTING_HOLES, 300, seed + 9);
        check("gpt-oss's widths", {2880, 2880, 8, 4, 100, 2, true}, ROUTING_RANDOM, 2, seed + 10);
    }
}

/* Rows come in another order each time; the outputs are the same bits. */
static void check_bits(std::mt19937_64 &random)
{
    const bench_shape shape = {256, 384, 16, 4, 500, 2, true};
    bench_layer layer(shape, 5000, random);
    std::vector<bench_tokens> tokens;
    for (uint32_t pe = 0; pe < shape.n_pes; pe++) {
        tokens.push_back(make_tokens(shape, shape.tokens_max, ROUTING_HOLES, 4, random));
    }
    CHECK_CUDA(cudaDeviceSynchronize());
    const size_t values = (size_t)shape.tokens_max * shape.hidden;
    std::vector<uint16_t> before[2];
    bool right = true;
    for (int i = 0; i < 10; i++) {
        layer.launch(tokens, 4);
        right = layer.wait() && right;
        for (uint32_t pe = 0; pe < shape.n_pes; pe++) {
            const std::vector<uint16_t> now = moe_fetch<uint16_t>(tokens[pe].y, values);
            right = right && (i == 0 || now == before[pe]);
            before[pe] = now;
        }
    }
    failures += !right;
    printf("check %-40s %s\n", "two PEs, the same bits ten times", right ? "ok" : "WRONG");
    for (bench_tokens &of : tokens) {
        of.drop();
    }
}

/* A PE whose peer never launches, and an id that is no expert. */
static void check_faults(std::mt19937_64 &random)
{
    const bench_shape shape = {128, 128, 8, 2, 64, 2, true};
    {
        bench_layer layer(shape, 300, random);
        std::vector<bench_tokens> tokens = {make_tokens(shape, 64, ROUTING_RANDOM, 4, random)};
        const perseus_moe_cuda_input input = tokens[0].input(4);
        CHECK_OK(perseus_moe_cuda_forward(layer.pes[0], &input, layer.streams[0]));
        CHECK_CUDA(cudaStreamSynchronize(layer.streams[0]));
        const bool told = perseus_moe_cuda_check(layer.pes[0]) == PERSEUS_TIMEOUT;
        failures += !told;
        printf("check %-40s %s\n", "a peer that never comes", told ? "ok" : "WRONG");
        tokens[0].drop();
    }
    bench_shape alone = shape;
    alone.n_pes = 1;
    bench_layer layer(alone, 300, random);
    bench_tokens tokens = make_tokens(alone, 64, ROUTING_RANDOM, 4, random);
    tokens.ids[5] = 8;
    CHECK_CUDA(cudaMemcpy(tokens.ids_there, tokens.ids.data(), tokens.ids.size() * sizeof(int),
                          cudaMemcpyHostToDevice));
    layer.launch({tokens}, 4);
    CHECK_CUDA(cudaStreamSynchronize(layer.streams[0]));
    const bool told = perseus_moe_cuda_check(layer.pes[0]) == PERSEUS_INVALID_ARGUMENT;
    failures += !told;
    printf("check %-40s %s\n", "an id that is no expert", told ? "ok" : "WRONG");
    tokens.drop();
}

/* Forwards one behind the other, as graph replays of one PE or as launches of several; ms
 * of one. */
static double time_forwards(bench_layer &layer, const std::vector<bench_tokens> &tokens, int rounds)
{
    std::vector<float> times;
    cudaEvent_t begin, end;
    CHECK_CUDA(cudaEventCreate(&begin));
    CHECK_CUDA(cudaEventCreate(&end));
    cudaGraphExec_t replay = nullptr;
    if (layer.shape.n_pes == 1) {
        cudaGraph_t graph;
        CHECK_CUDA(cudaStreamBeginCapture(layer.streams[0], cudaStreamCaptureModeGlobal));
        layer.launch(tokens, 4);
        CHECK_CUDA(cudaStreamEndCapture(layer.streams[0], &graph));
        CHECK_CUDA(cudaGraphInstantiate(&replay, graph, 0));
        cudaGraphDestroy(graph);
    }
    for (int round = -2; round < rounds; round++) {
        const int inside = 5;
        CHECK_CUDA(cudaEventRecord(begin, layer.streams[0]));
        for (int i = 0; i < inside; i++) {
            if (replay != nullptr) {
                CHECK_CUDA(cudaGraphLaunch(replay, layer.streams[0]));
            } else {
                layer.launch(tokens, 4);
            }
        }
        CHECK_CUDA(cudaEventRecord(end, layer.streams[0]));
        if (!layer.wait()) {
            failures++;
            break;
        }
        float ms = 0;
        CHECK_CUDA(cudaEventElapsedTime(&ms, begin, end));
        if (round >= 0) {
            times.push_back(ms / inside);
        }
    }
    if (replay != nullptr) {
        cudaGraphExecDestroy(replay);
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    std::sort(times.begin(), times.end());
    return times.empty() ? NAN : times[times.size() / 2];
}

/* `tokens` for all PEs together; half of the model's experts, as one of two GPUs has them. */
static void time_model(const moe_model &model, uint32_t tokens, uint32_t n_pes,
                       std::mt19937_64 &random)
{
    const bench_shape shape = {model.hidden, model.intermediate, model.experts / 2,
                               model.top_k,  tokens / n_pes,     n_pes,
                               true};
    bench_layer layer(shape, 5000, random);
    std::vector<bench_tokens> all;
    for (uint32_t pe = 0; pe < n_pes; pe++) {
        all.push_back(make_tokens(shape, shape.tokens_max, ROUTING_RANDOM, 4, random));
    }
    CHECK_CUDA(cudaDeviceSynchronize());
    const double ms = time_forwards(layer, all, 9);
    double difference = 0, norm = 0;
    for (bench_tokens &of : all) {
        compare(layer, of, std::max(1u, shape.tokens_max / 16), &difference, &norm);
        of.drop();
    }
    const double error = sqrt(difference / norm);
    failures += !(error < 1e-2);
    printf("%-13s %4u %6u %8u %9.4f %10.2e\n", model.name, n_pes, tokens, tokens * model.top_k, ms,
           error);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "all", *only = argc > 2 ? argv[2] : "";
    /* Kernels of several PEs wait for each other: none may be loaded behind another that runs. */
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
    std::mt19937_64 random(now_ns());
    setvbuf(stdout, nullptr, _IOLBF, 0);
    if (strcmp(what, "time") != 0) {
        check_all(strcmp(what, "check-short") == 0, random());
        if (strcmp(what, "check-short") != 0) {
            check_bits(random);
        }
        check_faults(random);
    }
    if (strcmp(what, "all") == 0 || strcmp(what, "time") == 0) {
        printf("\n%-13s %4s %6s %8s %9s %10s\n", "model", "PEs", "S", "rows", "ms", "error");
        for (const moe_model &model : moe_models) {
            for (uint32_t tokens = 256; tokens <= 16384; tokens *= 4) {
                if (strstr(model.name, only) == nullptr) {
                    continue;
                }
                time_model(model, tokens, 1, random);
                if (strcmp(model.name, "qwen3-30b") == 0 && tokens <= 4096) {
                    time_model(model, tokens, 2, random);
                    time_model(model, tokens, 4, random);
                    time_model(model, tokens, 8, random);
                }
            }
        }
    }
    printf("\n%d failures\n", failures);
    return failures != 0;
}
