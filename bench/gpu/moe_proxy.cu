/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moe_proxy [PES] [TOKENS]: dispatch and combine of qwen3-30b by put-with-signal through the proxy
 * and the copy engines, PEs sharing one GPU: vanilla, each lever, both, and a ceiling, in turns in
 * one run. Experts double their rows; every output is checked.
 */
#include <cmath>

#include "moe_far.cuh"

enum { FORWARDS = 12, WARM = 3, ROUNDS = 3, CTAS = 128 /* of all PEs together */ };

static const far_variant variants[] = {
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

/* One forward of all PEs. All dispatches first, so that none waits long for another to be
 * launched. */
static void launch_all(far_job &job, uint64_t number)
{
    const uint32_t ctas = CTAS / (uint32_t)job.pes.size();
    for (far_pe &pe : job.pes) {
        CHECK_CUDA((cudaError_t)prs_moe_far_launch_dispatch(pe.far, pe.input, number, pe.counts,
                                                            ctas, pe.stream));
    }
    for (far_pe &pe : job.pes) {
        const prs_moe_far_layout &layout = pe.far.layout;
        unsigned char *half = pe.far.wire.pe.heap + layout.halves[number % PRS_MOE_FAR_HALVES];
        experts<<<ctas, 256, 0, pe.stream>>>(
            (const uint4 *)(half + layout.rows), (uint4 *)(half + layout.results), pe.counts,
            pe.far.shape.experts / pe.far.shape.n_pes, pe.far.shape.hidden / 8);
        CHECK_CUDA(cudaGetLastError());
        CHECK_CUDA((cudaError_t)prs_moe_far_launch_combine(pe.far, pe.input, number, layout.results,
                                                           ctas, pe.stream));
    }
}

/* Of all PEs' last outputs: relative Frobenius error. */
static double error_of(const far_job &job)
{
    double difference = 0, norm = 0;
    for (const far_pe &pe : job.pes) {
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

/* The variants in turns, ROUNDS times. False: something was wrong. */
static bool measure(uint32_t n_pes, uint32_t tokens, std::mt19937_64 &random)
{
    const far_problem of = far_make_problem(moe_models[0], n_pes, tokens, random);
    std::vector<double> times[VARIANTS];
    double errors[VARIANTS] = {};
    bool failed[VARIANTS] = {};
    struct perseus_stats stats[VARIANTS] = {};
    bool right = true;
    for (int round = 0; round < ROUNDS; round++) {
        for (int v = 0; v < VARIANTS; v++) {
            far_job job(of, variants[v]);
            const auto launch = [&](uint64_t number) { launch_all(job, number); };
            job.forward(launch);
            for (int i = 0; i < FORWARDS && !job.failed; i++) {
                const double ms = job.forward(launch);
                if (i >= WARM) {
                    times[v].push_back(ms);
                }
            }
            const double error = error_of(job);
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
    const double vanilla = far_median(times[0]), ceiling = far_median(times[VARIANTS - 1]);
    for (int v = 0; v < VARIANTS; v++) {
        const double ms = far_median(times[v]);
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
