/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moe_input.cuh: random inputs on the GPU, and a plain f32 reference of an expert's network that
 * shares nothing with what it checks.
 */
#ifndef BENCH_GPU_MOE_INPUT_CUH
#define BENCH_GPU_MOE_INPUT_CUH

#include <cuda_bf16.h>

#include <random>
#include <vector>

#include "gpu.cuh"

struct moe_model {
    const char *name;
    uint32_t hidden, intermediate, experts, top_k;
};

/* Of the anchors' tables (docs/gpu-moe.md). */
static const moe_model moe_models[] = {
    {"qwen3-30b", 2048, 768, 128, 8},
    {"gpt-oss-120b", 2880, 2880, 128, 4},
    {"deepseek-v3", 7168, 2048, 256, 8},
};

/* Values of the same variance as a normal distribution's, from a hash of their place. */
__global__ static void moe_fill(__nv_bfloat16 *out, uint64_t count, uint64_t seed, float scale)
{
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull + seed;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
        x ^= x >> 31;
        const float uniform = (float)(uint32_t)x * 2.3283064e-10f * 2.0f - 1.0f;
        out[i] = __float2bfloat16(uniform * 1.7320508f * scale);
    }
}

static inline __nv_bfloat16 *moe_random(uint64_t count, uint64_t seed, float scale)
{
    void *memory = nullptr;
    CHECK_CUDA(cudaMalloc(&memory, count * 2));
    moe_fill<<<1056, 256>>>((__nv_bfloat16 *)memory, count, seed, scale);
    CHECK_CUDA(cudaGetLastError());
    return (__nv_bfloat16 *)memory;
}

/* ids of `tokens` tokens, distinct within a token, uniform. */
static inline std::vector<int> moe_route(uint32_t tokens, uint32_t experts, uint32_t top_k,
                                         std::mt19937_64 &random)
{
    std::vector<int> ids((size_t)tokens * top_k), all(experts);
    for (uint32_t e = 0; e < experts; e++) {
        all[e] = (int)e;
    }
    for (uint32_t token = 0; token < tokens; token++) {
        for (uint32_t k = 0; k < top_k; k++) {
            std::swap(all[k], all[k + random() % (experts - k)]);
            ids[(size_t)token * top_k + k] = all[k];
        }
    }
    return ids;
}

/* One row a CTA, 256 threads: out[hidden] of one expert, in f32 from bf16 inputs; hidden_layer is
 * scratch of `intermediate` floats a CTA. rows[i], experts[i]: what CTA i computes. */
__global__ static void moe_reference(const __nv_bfloat16 *x, const __nv_bfloat16 *first,
                                     const __nv_bfloat16 *second, uint32_t hidden,
                                     uint32_t intermediate, bool is_swiglu, const uint32_t *rows,
                                     const uint32_t *experts, float *hidden_layer, float *out)
{
    const __nv_bfloat16 *row = x + (uint64_t)rows[blockIdx.x] * hidden;
    const uint64_t expert = experts[blockIdx.x];
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    float *middle = hidden_layer + (uint64_t)blockIdx.x * intermediate;
    first += expert * intermediate * hidden * (is_swiglu ? 2 : 1);
    second += expert * intermediate * hidden;
    for (uint32_t i = warp; i < intermediate; i += warps) {
        float gate = 0, up = 0;
        for (uint32_t k = lane; k < hidden; k += 32) {
            const float value = __bfloat162float(row[k]);
            gate += value * __bfloat162float(first[(uint64_t)i * hidden + k]);
            if (is_swiglu) {
                up += value * __bfloat162float(first[(uint64_t)(intermediate + i) * hidden + k]);
            }
        }
        for (int step = 16; step > 0; step /= 2) {
            gate += __shfl_xor_sync(~0u, gate, step);
            up += __shfl_xor_sync(~0u, up, step);
        }
        if (lane == 0) {
            middle[i] = is_swiglu ? gate / (1 + expf(-gate)) * up
                                  : gate * 0.5f * (1 + erff(gate * 0.70710678f));
        }
    }
    __syncthreads();
    for (uint32_t i = warp; i < hidden; i += warps) {
        float sum = 0;
        for (uint32_t k = lane; k < intermediate; k += 32) {
            sum += middle[k] * __bfloat162float(second[(uint64_t)i * intermediate + k]);
        }
        for (int step = 16; step > 0; step /= 2) {
            sum += __shfl_xor_sync(~0u, sum, step);
        }
        if (lane == 0) {
            out[(uint64_t)blockIdx.x * hidden + i] = sum;
        }
    }
}

template <class T> static std::vector<T> moe_fetch(const void *device, size_t count)
{
    std::vector<T> host(count);
    CHECK_CUDA(cudaMemcpy(host.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost));
    return host;
}

template <class T> static T *moe_send(const std::vector<T> &host)
{
    void *memory = nullptr;
    CHECK_CUDA(cudaMalloc(&memory, (host.empty() ? 1 : host.size()) * sizeof(T)));
    CHECK_CUDA(cudaMemcpy(memory, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    return (T *)memory;
}

/* Weights of a layer, in GPU memory. */
struct moe_weights {
    const __nv_bfloat16 *first, *second;
    uint32_t hidden, intermediate;
    bool is_swiglu;
};

/* Outputs of every `stride`-th of `tokens` tokens by the reference, [tokens, hidden]; the others
 * are zero. ids of -1 are not used. */
static inline std::vector<double> moe_expect(const moe_weights &of, const __nv_bfloat16 *x,
                                             const std::vector<int> &ids,
                                             const std::vector<float> &weights, uint32_t tokens,
                                             uint32_t top_k, uint32_t stride)
{
    std::vector<uint32_t> rows, experts;
    std::vector<float> used;
    for (uint32_t token = 0; token < tokens; token += stride) {
        for (uint32_t k = 0; k < top_k; k++) {
            const size_t choice = (size_t)token * top_k + k;
            if (ids[choice] >= 0) {
                rows.push_back(token);
                experts.push_back((uint32_t)ids[choice]);
                used.push_back(weights[choice]);
            }
        }
    }
    std::vector<double> expected((size_t)tokens * of.hidden);
    if (rows.empty()) {
        return expected;
    }
    uint32_t *rows_there = moe_send(rows), *experts_there = moe_send(experts);
    float *middle = (float *)on_gpu(rows.size() * of.intermediate * sizeof(float));
    float *out = (float *)on_gpu(rows.size() * of.hidden * sizeof(float));
    moe_reference<<<(unsigned)rows.size(), 256>>>(x, of.first, of.second, of.hidden,
                                                  of.intermediate, of.is_swiglu, rows_there,
                                                  experts_there, middle, out);
    CHECK_CUDA(cudaDeviceSynchronize());
    const std::vector<float> results = moe_fetch<float>(out, rows.size() * of.hidden);
    for (size_t i = 0; i < rows.size(); i++) {
        for (uint32_t c = 0; c < of.hidden; c++) {
            expected[(size_t)rows[i] * of.hidden + c] +=
                (double)used[i] * (double)results[i * of.hidden + c];
        }
    }
    for (void *memory : {(void *)rows_there, (void *)experts_there, (void *)middle, (void *)out}) {
        cudaFree(memory);
    }
    return expected;
}

/* Adds up squares of difference and of what is expected, over every `stride`-th token of y. */
static inline void moe_compare(const std::vector<double> &expected, const __nv_bfloat16 *y,
                               uint32_t tokens, uint32_t hidden, uint32_t stride,
                               double *difference, double *norm)
{
    const auto got = moe_fetch<__nv_bfloat16>(y, (size_t)tokens * hidden);
    for (uint32_t token = 0; token < tokens; token += stride) {
        for (uint32_t c = 0; c < hidden; c++) {
            const size_t at = (size_t)token * hidden + c;
            const double apart = (double)__bfloat162float(got[at]) - expected[at];
            *difference += apart * apart;
            *norm += expected[at] * expected[at];
        }
    }
}

#endif
