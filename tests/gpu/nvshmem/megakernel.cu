/* SPDX-License-Identifier: Apache-2.0 */
/*
 * megakernel.cu: a Mixture-of-Experts layer in one persistent kernel, as FlashMoE is: one
 * put_signal for each remote expert, its answer by another one, flags polled with system-scope
 * atomics, and neither fence nor quiet inside a forward. 128 experts on two PEs: blocks 0 to 63
 * dispatch to the other PE's experts and take the answers, blocks 64 to 127 are this PE's experts.
 * 100 forwards; every answer is checked.
 */
#include <cuda/atomic>

#include "job.h"

#define EXPERTS   128
#define LOCAL     (EXPERTS / 2)
#define ROW_BYTES 4096
#define FORWARDS  100

struct layer {
    unsigned char *tokens, *inbox, *results, *outbox; /* LOCAL rooms of room_bytes each */
    uint64_t *arrived, *answered;                     /* by expert */
    int *errors;
    size_t room_bytes;
    int rows, rank; /* rows: mean of an expert */
    uint64_t first;
};

/* Rows for an expert of the other PE: uneven, and known to both sides. */
__device__ static size_t bytes_for(const struct layer &layer, int sender, int expert)
{
    int rows = layer.rows + ((expert * 7 + sender * 3) % 5 - 2) * layer.rows / 4;
    return (size_t)(rows < 1 ? 1 : rows) * ROW_BYTES;
}

__device__ static uint32_t token_word(int sender, int expert, size_t i, uint64_t forward)
{
    return (uint32_t)(i * 2246822519u) ^ (uint32_t)(sender * 977 + expert * 131) ^
           (uint32_t)(forward * 7919);
}

__device__ static uint32_t expert_of(uint32_t word)
{
    return word * 3u + 1u;
}

__device__ static void poll(uint64_t *flag, uint64_t value)
{
    if (threadIdx.x == 0) {
        cuda::atomic_ref<uint64_t, cuda::thread_scope_system> word(*flag);
        while (word.load(cuda::memory_order_acquire) < value) {
        }
    }
    __syncthreads();
}

/* After all threads have written the source. */
__device__ static void send(void *dest, const void *source, size_t bytes, uint64_t *flag,
                            uint64_t value, int pe)
{
    __threadfence_system(); /* the transport reads it */
    __syncthreads();
    if (threadIdx.x == 0) {
        nvshmem_putmem_signal_nbi(dest, source, bytes, flag, value, NVSHMEM_SIGNAL_SET, pe);
    }
}

__device__ static void dispatch_and_combine(const struct layer &layer, int expert, uint64_t forward)
{
    size_t bytes = bytes_for(layer, layer.rank, expert), at = expert * layer.room_bytes;
    uint32_t *tokens = (uint32_t *)(layer.tokens + at);
    for (size_t i = threadIdx.x; i < bytes / 4; i += blockDim.x) {
        tokens[i] = token_word(layer.rank, expert, i, forward);
    }
    send(layer.inbox + at, tokens, bytes, layer.arrived + expert, forward, !layer.rank);
    poll(layer.answered + expert, forward);
    const volatile uint32_t *results = (const volatile uint32_t *)(layer.results + at);
    for (size_t i = threadIdx.x; i < bytes / 4; i += blockDim.x) {
        if (results[i] != expert_of(token_word(layer.rank, expert, i, forward))) {
            atomicAdd(layer.errors, 1);
        }
    }
    __syncthreads();
}

__device__ static void be_expert(const struct layer &layer, int expert, uint64_t forward)
{
    size_t bytes = bytes_for(layer, !layer.rank, expert), at = expert * layer.room_bytes;
    poll(layer.arrived + expert, forward);
    const volatile uint32_t *tokens = (const volatile uint32_t *)(layer.inbox + at);
    uint32_t *outbox = (uint32_t *)(layer.outbox + at);
    for (size_t i = threadIdx.x; i < bytes / 4; i += blockDim.x) {
        outbox[i] = expert_of(tokens[i]);
    }
    send(layer.results + at, outbox, bytes, layer.answered + expert, forward, !layer.rank);
}

__global__ static void megakernel(struct layer layer)
{
    for (uint64_t forward = layer.first; forward < layer.first + FORWARDS; forward++) {
        if (blockIdx.x < LOCAL) {
            dispatch_and_combine(layer, blockIdx.x, forward);
        } else {
            be_expert(layer, blockIdx.x - LOCAL, forward);
        }
    }
}

static void run_one(struct job *job, struct layer *layer, int tokens, int top_k,
                    cudaStream_t stream)
{
    cudaEvent_t from, to;
    float times[3];
    CUDA_CHECK(cudaEventCreate(&from));
    CUDA_CHECK(cudaEventCreate(&to));
    layer->rows = tokens * top_k / EXPERTS;
    for (int i = 0; i < 3; i++) {
        void *arguments[] = {layer};
        nvshmem_barrier_all();
        CUDA_CHECK(cudaEventRecord(from, stream));
        if (nvshmemx_collective_launch((const void *)megakernel, EXPERTS, 256, arguments, 0,
                                       stream) != 0) {
            exit(1);
        }
        CUDA_CHECK(cudaEventRecord(to, stream));
        CUDA_CHECK(cudaStreamSynchronize(stream));
        CUDA_CHECK(cudaEventElapsedTime(&times[i], from, to));
        nvshmem_barrier_all();
        layer->first += FORWARDS;
    }
    int errors = 0;
    CUDA_CHECK(cudaMemcpy(&errors, layer->errors, sizeof errors, cudaMemcpyDefault));
    CUDA_CHECK(cudaMemset(layer->errors, 0, sizeof errors));
    job->failures += errors;
    errors = sum_over_pes(errors);
    if (job->rank == 0) {
        printf("{\"part\": \"megakernel\", \"tokens\": %d, \"top_k\": %d, \"us\": %.1f, "
               "\"payload_errors\": %d}\n",
               tokens, top_k, median(times, 3) * 1000 / FORWARDS, errors);
        fflush(stdout);
    }
    CUDA_CHECK(cudaEventDestroy(from));
    CUDA_CHECK(cudaEventDestroy(to));
}

void run_megakernel(struct job *job)
{
    static const int tokens[] = {256, 1024}, top_ks[] = {2, 8};
    struct layer layer = {};
    cudaStream_t stream;
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    layer.rank = job->rank;
    layer.first = 1;
    layer.room_bytes = (size_t)(tokens[1] * top_ks[1] / EXPERTS) * 3 / 2 * ROW_BYTES;
    layer.tokens = (unsigned char *)nvshmem_malloc(LOCAL * layer.room_bytes);
    layer.inbox = (unsigned char *)nvshmem_malloc(LOCAL * layer.room_bytes);
    layer.results = (unsigned char *)nvshmem_malloc(LOCAL * layer.room_bytes);
    layer.outbox = (unsigned char *)nvshmem_malloc(LOCAL * layer.room_bytes);
    layer.arrived = (uint64_t *)nvshmem_calloc(LOCAL, sizeof(uint64_t));
    layer.answered = (uint64_t *)nvshmem_calloc(LOCAL, sizeof(uint64_t));
    CUDA_CHECK(cudaMalloc(&layer.errors, sizeof(int)));
    CUDA_CHECK(cudaMemset(layer.errors, 0, sizeof(int)));
    for (int k = 0; k < 2; k++) {
        for (int t = 0; t < 2; t++) {
            run_one(job, &layer, tokens[t], top_ks[k], stream);
        }
    }
    nvshmem_free(layer.tokens);
    nvshmem_free(layer.inbox);
    nvshmem_free(layer.results);
    nvshmem_free(layer.outbox);
    nvshmem_free(layer.arrived);
    nvshmem_free(layer.answered);
    CUDA_CHECK(cudaFree(layer.errors));
    CUDA_CHECK(cudaStreamDestroy(stream));
}
