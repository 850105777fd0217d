/* SPDX-License-Identifier: Apache-2.0 */
/* alltoall.cu: an expert-parallel dispatch: 128 experts, top-k 8, every PE sends each remote expert
 * its tokens by put, fence, signal (unmodified device code), and waits for what is sent to its own
 * experts. */
#include "job.h"

#define EXPERTS 128
#define TOP_K   8
#define HIDDEN  2048 /* 2-byte values */

struct exchange {
    unsigned char *source, *target; /* EXPERTS rooms of room_bytes each */
    uint64_t *signals;              /* by (source PE, local expert) */
    int *errors;
    size_t room_bytes;
    int tokens, rank, size;
    uint64_t value;
};

/* Tokens of `source` PE for an expert: uneven, and known to both sides. */
__host__ __device__ static int tokens_for(const struct exchange *exchange, int source, int expert)
{
    int even = exchange->tokens * TOP_K / EXPERTS;
    return even + ((expert * 7 + source * 3) % 5 - 2) * even / 4;
}

__device__ static uint32_t word_of(int source, int expert, size_t i, uint64_t value)
{
    return (uint32_t)(i * 2246822519u) ^ (uint32_t)(source * 977 + expert * 131) ^ (uint32_t)value;
}

__global__ static void fill(struct exchange exchange)
{
    uint32_t *at = (uint32_t *)(exchange.source + blockIdx.x * exchange.room_bytes);
    for (size_t i = threadIdx.x; i < exchange.room_bytes / 4; i += blockDim.x) {
        at[i] = word_of(exchange.rank, blockIdx.x, i, exchange.value);
    }
}

/* Block = expert. Its owner's room for this source holds what arrives. */
__global__ static void dispatch(struct exchange exchange)
{
    int expert = blockIdx.x, local = EXPERTS / exchange.size, owner = expert / local;
    size_t bytes = (size_t)tokens_for(&exchange, exchange.rank, expert) * HIDDEN * 2;
    int room = exchange.rank * local + expert % local;
    if (owner != exchange.rank) {
        nvshmemx_putmem_nbi_block(exchange.target + room * exchange.room_bytes,
                                  exchange.source + expert * exchange.room_bytes, bytes, owner);
        __syncthreads();
        if (threadIdx.x == 0) {
            nvshmem_fence();
            nvshmemx_signal_op(exchange.signals + room, exchange.value, NVSHMEM_SIGNAL_SET, owner);
        }
        return;
    }
    /* This block's expert is ours: wait for every other PE's tokens. */
    for (int source = 0; source < exchange.size; source++) {
        int from = source * local + expert % local;
        if (source == exchange.rank) {
            continue;
        }
        if (threadIdx.x == 0) {
            nvshmem_signal_wait_until(exchange.signals + from, NVSHMEM_CMP_EQ, exchange.value);
        }
        __syncthreads();
        size_t words = (size_t)tokens_for(&exchange, source, expert) * HIDDEN / 2;
        const volatile uint32_t *at =
            (const volatile uint32_t *)(exchange.target + from * exchange.room_bytes);
        for (size_t i = threadIdx.x; i < words; i += blockDim.x) {
            if (at[i] != word_of(source, expert, i, exchange.value)) {
                atomicAdd(exchange.errors, 1);
            }
        }
    }
}

static float one_exchange(struct exchange *exchange, cudaStream_t stream)
{
    cudaEvent_t from, to;
    float ms;
    CUDA_CHECK(cudaEventCreate(&from));
    CUDA_CHECK(cudaEventCreate(&to));
    exchange->value++;
    fill<<<EXPERTS, 256, 0, stream>>>(*exchange);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    nvshmem_barrier_all();
    CUDA_CHECK(cudaEventRecord(from, stream));
    dispatch<<<EXPERTS, 256, 0, stream>>>(*exchange);
    CUDA_CHECK(cudaEventRecord(to, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaEventElapsedTime(&ms, from, to));
    nvshmem_barrier_all();
    CUDA_CHECK(cudaEventDestroy(from));
    CUDA_CHECK(cudaEventDestroy(to));
    return ms * 1000;
}

void run_alltoall(struct job *job)
{
    static const int tokens[] = {128, 256, 512, 1024};
    struct exchange exchange = {};
    cudaStream_t stream;
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    exchange.rank = job->rank;
    exchange.size = job->size;
    exchange.room_bytes = (size_t)tokens[3] * TOP_K / EXPERTS * 3 / 2 * HIDDEN * 2;
    exchange.source = (unsigned char *)nvshmem_malloc(EXPERTS * exchange.room_bytes);
    exchange.target = (unsigned char *)nvshmem_malloc(EXPERTS * exchange.room_bytes);
    exchange.signals = (uint64_t *)nvshmem_calloc(EXPERTS, sizeof(uint64_t));
    CUDA_CHECK(cudaMalloc(&exchange.errors, sizeof(int)));
    CUDA_CHECK(cudaMemset(exchange.errors, 0, sizeof(int)));
    float times[64];
    for (size_t t = 0; t < sizeof tokens / sizeof tokens[0]; t++) {
        exchange.tokens = tokens[t];
        int iterations = job->iterations < 64 ? job->iterations : 64;
        one_exchange(&exchange, stream);
        for (int i = 0; i < iterations; i++) {
            times[i] = one_exchange(&exchange, stream);
        }
        int errors = 0;
        CUDA_CHECK(cudaMemcpy(&errors, exchange.errors, sizeof errors, cudaMemcpyDefault));
        CUDA_CHECK(cudaMemset(exchange.errors, 0, sizeof errors));
        job->failures += errors;
        errors = sum_over_pes(errors);
        if (job->rank == 0) {
            printf(
                "{\"part\": \"alltoall\", \"tokens\": %d, \"us\": %.1f, \"payload_errors\": %d}\n",
                tokens[t], median(times, iterations), errors);
        }
    }
    nvshmem_free(exchange.source);
    nvshmem_free(exchange.target);
    nvshmem_free(exchange.signals);
    CUDA_CHECK(cudaFree(exchange.errors));
    CUDA_CHECK(cudaStreamDestroy(stream));
}
