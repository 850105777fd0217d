/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moe_forward [MODEL] [PES] [TOKENS] [CTAS]: whole forwards of a layer by put-with-signal through
 * the proxy and the copy engines, PEs sharing one GPU: the megakernel with each lever, and
 * dispatch, products and combine one after the other, in turns in one run. Outputs are checked
 * against f32. Copies within one GPU run on multiprocessors, so CTAs (of all PEs together) leave
 * it some.
 *
 * moe_forward check | check-short: the megakernel with other tokens each forward, under every mode;
 * check-short has one PE alone, for compute-sanitizer, under which kernels run one after the other.
 */
#include <cmath>

#include "moe_far.cuh"

enum { FORWARDS = 12, WARM = 3, ROUNDS = 3 };

struct row {
    far_variant variant;
    bool is_whole; /* one kernel, or three */
};

static const row table[] = {
    {{"megakernel, coupled + drain", PRS_MOE_FAR_COUPLED, false, PERSEUS_ORDERING_DRAIN}, true},
    {{"megakernel, coupled + nic-fence", PRS_MOE_FAR_COUPLED, false, PERSEUS_ORDERING_NIC_FENCE},
     true},
    {{"megakernel, decoupled + drain", PRS_MOE_FAR_DECOUPLED, true, PERSEUS_ORDERING_DRAIN}, true},
    {{"megakernel, decoupled + nic-fence", PRS_MOE_FAR_DECOUPLED, true, PERSEUS_ORDERING_NIC_FENCE},
     true},
    {{"phases, coupled + drain", PRS_MOE_FAR_COUPLED, false, PERSEUS_ORDERING_DRAIN}, false},
    {{"phases, decoupled + nic-fence", PRS_MOE_FAR_DECOUPLED, true, PERSEUS_ORDERING_NIC_FENCE},
     false},
};
enum { ROWS = sizeof table / sizeof table[0] };

static const struct prs_log loud = {far_say, nullptr, PERSEUS_LOG_WARN, 0};

/* A PE's experts over the rows of each half of its heap. */
struct whole_job : far_job {
    std::vector<prs_gpu_moe_experts *> experts[PRS_MOE_FAR_HALVES];

    uint32_t ctas; /* of a PE */

    whole_job(const far_problem &of, const far_variant &variant, const moe_weights &weights,
              uint32_t all_ctas)
        : far_job(of, variant), ctas(all_ctas / of.shape.n_pes)
    {
        const uint64_t matrix = (uint64_t)weights.hidden * weights.intermediate;
        for (far_pe &pe : pes) {
            const prs_moe_far_shape &shape = pe.far.shape;
            const uint32_t hosted = shape.experts / shape.n_pes; /* evenly, here */
            prs_gpu_moe_experts_attr attr = {};
            attr.hidden = weights.hidden;
            attr.intermediate = weights.intermediate;
            attr.hosted = hosted;
            attr.is_swiglu = weights.is_swiglu;
            attr.blocks_max = (uint32_t)(pe.far.layout.rows_max / PRS_GPU_MOE_BLOCK);
            attr.first = weights.first + 2 * matrix * hosted * shape.me;
            attr.second = weights.second + matrix * hosted * shape.me;
            attr.timeout_ms = far_deadline_ms;
            for (int i = 0; i < PRS_MOE_FAR_HALVES; i++) {
                unsigned char *half = pe.far.wire.pe.heap + pe.far.layout.halves[i];
                attr.rows = half + pe.far.layout.rows;
                attr.results = half + pe.far.layout.results;
                experts[i].push_back(nullptr);
                CHECK_OK(prs_gpu_moe_experts_create(&attr, &loud, &experts[i].back()));
            }
        }
        CHECK_CUDA(cudaDeviceSynchronize());
    }
    ~whole_job()
    {
        for (auto &half : experts) {
            for (prs_gpu_moe_experts *of : half) {
                prs_gpu_moe_experts_destroy(of);
            }
        }
    }
    void launch_whole(uint64_t number)
    {
        for (size_t i = 0; i < pes.size(); i++) {
            prs_gpu_moe_experts_view view;
            prs_gpu_moe_experts_see(experts[number % PRS_MOE_FAR_HALVES][i], &view);
            CHECK_CUDA((cudaError_t)prs_moe_far_launch_forward(pes[i].far, view, pes[i].input,
                                                               number, ctas, pes[i].stream));
        }
    }
    /* All dispatches first, so that none waits long for another to be launched. */
    void launch_phases(uint64_t number)
    {
        for (far_pe &pe : pes) {
            CHECK_CUDA((cudaError_t)prs_moe_far_launch_dispatch(pe.far, pe.input, number, pe.counts,
                                                                ctas, pe.stream));
        }
        for (size_t i = 0; i < pes.size(); i++) {
            CHECK_OK(prs_gpu_moe_experts_run(experts[number % PRS_MOE_FAR_HALVES][i], pes[i].counts,
                                             pes[i].stream));
            CHECK_CUDA((cudaError_t)prs_moe_far_launch_combine(
                pes[i].far, pes[i].input, number, pes[i].far.layout.results, ctas, pes[i].stream));
        }
    }
    /* All PEs' products of the last forward again, by themselves; ms. */
    double products()
    {
        for (far_pe &pe : pes) {
            CHECK_CUDA(cudaStreamSynchronize(pe.stream));
        }
        cudaStream_t stream = pes[0].stream;
        CHECK_CUDA(cudaEventRecord(pes[0].begin, stream));
        for (size_t i = 0; i < pes.size(); i++) {
            CHECK_OK(prs_gpu_moe_experts_run(experts[(forwards - 1) % PRS_MOE_FAR_HALVES][i],
                                             pes[i].counts, stream));
        }
        CHECK_CUDA(cudaEventRecord(pes[0].end, stream));
        wait_for(stream);
        float ms = 0;
        CHECK_CUDA(cudaEventElapsedTime(&ms, pes[0].begin, pes[0].end));
        return ms;
    }
    /* Of every `stride`-th token of all PEs' last outputs. */
    double error(const moe_weights &weights, uint32_t stride) const
    {
        double difference = 0, norm = 0;
        for (const far_pe &pe : pes) {
            const uint32_t tokens = pe.input.tokens;
            const auto expected = moe_expect(weights, (const __nv_bfloat16 *)pe.input.x, pe.ids,
                                             pe.weights, tokens, pe.far.shape.top_k, stride);
            moe_compare(expected, (const __nv_bfloat16 *)pe.input.y, tokens, weights.hidden, stride,
                        &difference, &norm);
        }
        return norm == 0 ? sqrt(difference) : sqrt(difference / norm);
    }
    bool is_well()
    {
        for (auto &half : experts) {
            for (prs_gpu_moe_experts *of : half) {
                failed = prs_gpu_moe_experts_check(of) != PERSEUS_OK || failed;
            }
        }
        return !failed;
    }
};

struct measured {
    std::vector<double> times, products;
    double error = 0;
    bool failed = false;
    struct perseus_stats stats = {};
};

static void measure(const row &of, const far_problem &problem, const moe_weights &weights,
                    uint32_t ctas, measured &out)
{
    whole_job job(problem, of.variant, weights, ctas);
    const auto launch = [&](uint64_t number) {
        if (of.is_whole) {
            job.launch_whole(number);
        } else {
            job.launch_phases(number);
        }
    };
    job.forward(launch);
    for (int i = 0; i < FORWARDS && job.is_well(); i++) {
        const double ms = job.forward(launch);
        if (i >= WARM) {
            out.times.push_back(ms);
        }
    }
    const uint32_t stride = std::max(1u, problem.shape.tokens_max / 32);
    const double error = job.error(weights, stride);
    out.error = !(error <= out.error) ? error : out.error; /* no number stays */
    out.failed = out.failed || !job.is_well();
    perseus_device_stats(job.pes[0].device, PERSEUS_ALL_PES, &out.stats);
    for (int i = 0; i < ROUNDS && !of.is_whole && !out.failed; i++) {
        out.products.push_back(job.products());
    }
}

static bool report(const moe_model &model, uint32_t n_pes, uint32_t tokens,
                   const measured (&results)[ROWS])
{
    const double vanilla = far_median(results[0].times);
    bool right = true;
    printf("\n%s, %u PEs of one GPU, %u tokens each, medians of %d forwards; products alone %.3f "
           "ms\n\n%-34s %9s %8s %8s %8s %10s\n",
           model.name, n_pes, tokens, ROUNDS * (FORWARDS - WARM),
           far_median(results[ROWS - 1].products), "row", "ms", "gain", "fences", "drains",
           "error");
    for (int i = 0; i < ROWS; i++) {
        const measured &of = results[i];
        const double ms = far_median(of.times);
        const bool is_right = !of.failed && of.error < 1e-2;
        printf("%-34s %9.3f %7.2fx %8llu %8llu %10.2e%s\n", table[i].variant.name, ms, vanilla / ms,
               (unsigned long long)of.stats.fences / FORWARDS,
               (unsigned long long)of.stats.drains / FORWARDS, of.error,
               is_right    ? ""
               : of.failed ? "  FAILED"
                           : "  WRONG");
        right = right && is_right;
    }
    return right;
}

enum choices { ALL_USED, HOLES, ONE_EXPERT, NOBODY };

/* New tokens for a PE, at most as many as before; choices that are not used have no weight. */
static void renew(far_pe &pe, uint32_t tokens, choices how, std::mt19937_64 &random)
{
    const prs_moe_far_shape &shape = pe.far.shape;
    pe.ids = moe_route(tokens, shape.experts, shape.top_k, random);
    pe.weights.resize(pe.ids.size());
    for (size_t i = 0; i < pe.ids.size(); i++) {
        const bool is_used = how == ALL_USED || (how == HOLES && random() % 3 != 0) ||
                             (how == ONE_EXPERT && i % shape.top_k == 0);
        pe.ids[i] = !is_used ? -1 : how == ONE_EXPERT ? (int)shape.experts - 1 : pe.ids[i];
        pe.weights[i] = is_used ? (float)(random() % 1000 + 1) / 1000.0f : NAN;
    }
    pe.input.tokens = tokens;
    CHECK_CUDA(cudaMemcpy((void *)pe.input.ids, pe.ids.data(), pe.ids.size() * sizeof(int),
                          cudaMemcpyHostToDevice));
    CHECK_CUDA(cudaMemcpy((void *)pe.input.weights, pe.weights.data(),
                          pe.weights.size() * sizeof(float), cudaMemcpyHostToDevice));
}

/* True: right. */
static bool check(const char *what, const moe_model &model, uint32_t n_pes, uint32_t tokens,
                  choices how, uint32_t forwards, std::mt19937_64 &random)
{
    static const perseus_ordering modes[] = {PERSEUS_ORDERING_DRAIN, PERSEUS_ORDERING_DRAIN_PEER,
                                             PERSEUS_ORDERING_DEFERRED, PERSEUS_ORDERING_NIC_FENCE,
                                             PERSEUS_ORDERING_COUNTED};
    const far_problem problem = far_make_problem(model, n_pes, tokens, random);
    const uint64_t matrix = (uint64_t)model.hidden * model.intermediate * model.experts;
    __nv_bfloat16 *first = moe_random(2 * matrix, random(), 1 / sqrtf((float)model.hidden));
    __nv_bfloat16 *second = moe_random(matrix, random(), 1 / sqrtf((float)model.intermediate));
    const moe_weights weights = {first, second, model.hidden, model.intermediate, true};
    CHECK_CUDA(cudaDeviceSynchronize());
    double worst = 0;
    bool is_well = true;
    for (uint32_t protocol : {PRS_MOE_FAR_COUPLED, PRS_MOE_FAR_DECOUPLED}) {
        for (perseus_ordering mode : modes) {
            whole_job job(problem, {"", protocol, true, mode}, weights, 8 * n_pes);
            const auto launch = [&](uint64_t number) { job.launch_whole(number); };
            job.forward(launch);
            for (uint32_t i = 0; i < forwards && is_well; i++) {
                for (far_pe &pe : job.pes) {
                    renew(pe, i == 0 ? tokens : (uint32_t)(random() % (tokens + 1)), how, random);
                }
                job.forward(launch);
                const double error = job.error(weights, 1);
                worst = !(error <= worst) ? error : worst;
                is_well = job.is_well();
            }
        }
    }
    for (void *memory : {(void *)first, (void *)second}) {
        cudaFree(memory);
    }
    for (__nv_bfloat16 *x : problem.x) {
        cudaFree(x);
    }
    const bool right = is_well && worst < 1e-2;
    printf("check %-44s %s  error %.2e\n", what, right ? "ok" : "WRONG", worst);
    return right;
}

static bool check_all(bool is_short, std::mt19937_64 &random)
{
    const uint32_t n = is_short ? 2 : 8;
    bool right = check("one PE", {"", 256, 128, 8, 2}, 1, 200, ALL_USED, n, random);
    right = check("one PE, ids of -1", {"", 200, 136, 9, 4}, 1, 130, HOLES, n, random) && right;
    right = check("one PE, nobody chooses", {"", 64, 64, 4, 2}, 1, 50, NOBODY, n, random) && right;
    if (is_short) {
        return right;
    }
    right = check("two PEs", {"", 256, 128, 8, 2}, 2, 200, ALL_USED, n, random) && right;
    right = check("three PEs, ids of -1", {"", 256, 192, 12, 4}, 3, 150, HOLES, n, random) && right;
    right = check("four PEs, one expert takes all", {"", 128, 128, 8, 2}, 4, 700, ONE_EXPERT, n,
                  random) &&
            right;
    right = check("eight PEs", {"", 512, 256, 64, 8}, 8, 256, ALL_USED, n, random) && right;
    right =
        check("eight PEs, 60 forwards a mode", {"", 128, 64, 16, 4}, 8, 96, HOLES, 60, random) &&
        right;
    return check("gpt-oss's widths", {"", 2880, 2880, 8, 4}, 2, 100, ALL_USED, 2, random) && right;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : moe_models[0].name;
    std::mt19937_64 random(now_ns());
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
    setvbuf(stdout, nullptr, _IOLBF, 0);
    if (strcmp(name, "check") == 0 || strcmp(name, "check-short") == 0) {
        return check_all(strcmp(name, "check-short") == 0, random) ? 0 : 1;
    }
    const uint32_t n_pes = argc > 2 ? (uint32_t)atoi(argv[2]) : 8;
    const uint32_t tokens = argc > 3 ? (uint32_t)atoi(argv[3]) : 1024;
    const uint32_t ctas = argc > 4 ? (uint32_t)atoi(argv[4]) : 112;
    const moe_model *model = nullptr;
    for (const moe_model &of : moe_models) {
        model = strcmp(of.name, name) == 0 ? &of : model;
    }
    if (model == nullptr || n_pes == 0 || model->experts % n_pes != 0 || tokens == 0 ||
        ctas < n_pes) {
        fprintf(stderr,
                "moe_forward [MODEL] [PES] [TOKENS] [CTAS]: no such model, or PEs that do not "
                "share its experts evenly\n");
        return 2;
    }
    const far_problem problem = far_make_problem(*model, n_pes, tokens, random);
    const uint64_t matrix = (uint64_t)model->hidden * model->intermediate * model->experts;
    const moe_weights weights = {
        moe_random(2 * matrix, random(), 1 / sqrtf((float)model->hidden)),
        moe_random(matrix, random(), 1 / sqrtf((float)model->intermediate)), model->hidden,
        model->intermediate, true};
    CHECK_CUDA(cudaDeviceSynchronize());
    static measured results[ROWS];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < ROWS; i++) {
            measure(table[i], problem, weights, ctas, results[i]);
        }
    }
    const bool right = report(*model, n_pes, tokens, results);
    printf("\n%s\n", right ? "all right" : "SOMETHING IS WRONG");
    return right ? 0 : 1;
}
