/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moe_split.cu: dispatch and combine around experts of one's own, in a CUDA graph; one PE. Expert e
 * multiplies by e + 1, token t is all t + 1, its choices count a half each. Prints "0 wrong".
 */
#include <cstdio>
#include <cstdlib>
#include <cuda_bf16.h>
#include <perseus/moe_cuda.h>

#define CHECK(call) ((int)(call) == 0 ? (void)0 : (printf("%s failed\n", #call), exit(1)))
enum { HIDDEN = 64, EXPERTS = 6, TOP_K = 2, TOKENS = 5, BLOCK = PERSEUS_MOE_CUDA_BLOCK };

/* All rows of all experts, in place: a thread a column. */
__global__ void my_experts(__nv_bfloat16 *rows, const uint32_t *counts)
{
    for (int e = 0; e < EXPERTS; e++) {
        for (uint32_t i = 0; i < counts[e]; i++) {
            __nv_bfloat16 &value = rows[i * HIDDEN + threadIdx.x];
            value = __float2bfloat16(__bfloat162float(value) * (float)(e + 1));
        }
        rows += (counts[e] + BLOCK - 1) / BLOCK * BLOCK * HIDDEN;
    }
}

template <class T> static T *on_gpu(size_t count, const T *from = nullptr)
{
    void *memory = nullptr;
    CHECK(cudaMalloc(&memory, count * sizeof(T)));
    CHECK(cudaMemset(memory, 0, count * sizeof(T)));
    CHECK(from != nullptr && cudaMemcpy(memory, from, count * sizeof(T), cudaMemcpyDefault));
    return (T *)memory;
}

int main()
{
    __nv_bfloat16 x[TOKENS * HIDDEN], y[TOKENS * HIDDEN];
    const int32_t ids[TOKENS][TOP_K] = {{0, 1}, {5, 2}, {2, 3}, {3, 5}, {4, 0}};
    const float weights[TOKENS * TOP_K] = {.5f, .5f, .5f, .5f, .5f, .5f, .5f, .5f, .5f, .5f};
    for (int i = 0; i < TOKENS * HIDDEN; i++) {
        x[i] = __float2bfloat16((float)(i / HIDDEN + 1));
    }
    perseus_moe_cuda_attr attr = {};
    attr.hidden = HIDDEN, attr.experts = EXPERTS, attr.top_k = TOP_K, attr.tokens_max = TOKENS;
    attr.n_pes = 1;
    attr.log = [](void *, perseus_log_level, const char *text) { fprintf(stderr, "%s\n", text); };
    perseus_moe_cuda *moe = nullptr;
    uint64_t bytes = 0;
    CHECK(perseus_moe_cuda_heap_bytes(&attr, &bytes));
    void *heap = on_gpu<char>(bytes);
    CHECK(perseus_moe_cuda_create(&attr, &heap, &moe));
    __nv_bfloat16 *rows = on_gpu<__nv_bfloat16>(perseus_moe_cuda_rows_max(moe) * HIDDEN);
    uint32_t *counts = on_gpu<uint32_t>(EXPERTS);
    void *x_there = on_gpu(TOKENS * HIDDEN, x), *ids_there = on_gpu(TOKENS * TOP_K, ids[0]);
    float *weights_there = on_gpu(TOKENS * TOP_K, weights);
    void *y_there = on_gpu<__nv_bfloat16>(TOKENS * HIDDEN);
    const perseus_moe_cuda_input input = {TOKENS, 4, x_there, ids_there, weights_there, y_there};
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t forward = nullptr;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(perseus_moe_dispatch(moe, &input, rows, counts, stream));
    my_experts<<<1, HIDDEN, 0, stream>>>(rows, counts);
    CHECK(perseus_moe_combine(moe, &input, rows, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&forward, graph, 0));
    CHECK(cudaGraphLaunch(forward, stream));
    CHECK(cudaGraphLaunch(forward, stream));
    CHECK(cudaMemcpy(y, y_there, sizeof y, cudaMemcpyDefault)); /* behind the stream */
    CHECK(perseus_moe_cuda_check(moe));
    int wrong = 0;
    for (int i = 0; i < TOKENS * HIDDEN; i++) {
        const int *of = ids[i / HIDDEN];
        wrong += __bfloat162float(y[i]) != (i / HIDDEN + 1) * (of[0] + of[1] + 2) * 0.5f;
    }
    printf("%d wrong\n", wrong);
    perseus_moe_cuda_destroy(moe);
    return wrong != 0;
}
