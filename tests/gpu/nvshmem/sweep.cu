/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.cu: PE 0 sends tiles to PE 1, every tile from a thread block of its own; PE 1 checks each
 * tile the moment its signal is seen, and answers when it has seen all. */
#include "job.h"

/* ONE_BY_ONE: coupled, all from one thread, so that every fence stands between two tiles. WORDS: by
 * p, word after word. */
enum protocol { PUT_ONLY, COUPLED, ONE_BY_ONE, DECOUPLED, WORDS, PROTOCOLS };
static const char *const protocol_names[] = {"put-only", "coupled", "one-by-one", "decoupled", "p"};
#define WORDS_BYTES_MAX 1024

#define TRANSFERS_MAX 128

struct round_of {
    int transfers;
    size_t bytes;
    uint64_t value; /* of the signals; the payload depends on it, too */
};

struct buffers {
    unsigned char *source, *target;
    uint64_t *signals, *answer;
    int *counters; /* 0: sender, 1: receiver, 2: errors; local */
};

__device__ static uint32_t pattern(int transfer, size_t word, uint64_t value)
{
    return (uint32_t)(word * 2654435761u) ^ (uint32_t)(transfer * 40503) ^ (uint32_t)(value * 97);
}

__global__ static void fill(struct buffers buffers, struct round_of round)
{
    uint32_t *at = (uint32_t *)(buffers.source + blockIdx.x * round.bytes);
    for (size_t i = threadIdx.x; i < round.bytes / 4; i += blockDim.x) {
        at[i] = pattern(blockIdx.x, i, round.value);
    }
}

__global__ static void send(struct buffers buffers, struct round_of round, int protocol, int peer)
{
    int i = blockIdx.x;
    if (threadIdx.x != 0) {
        return;
    }
    unsigned char *target = buffers.target + i * round.bytes;
    const unsigned char *source = buffers.source + i * round.bytes;
    if (protocol == ONE_BY_ONE) {
        for (int j = 0; j < round.transfers && i == 0; j++) {
            nvshmem_putmem_signal_nbi(buffers.target + j * round.bytes,
                                      buffers.source + j * round.bytes, round.bytes,
                                      buffers.signals + j, round.value, NVSHMEM_SIGNAL_SET, peer);
        }
    } else if (protocol == COUPLED) {
        nvshmem_putmem_signal_nbi(target, source, round.bytes, buffers.signals + i, round.value,
                                  NVSHMEM_SIGNAL_SET, peer);
    } else {
        if (protocol == WORDS) {
            const uint32_t *words = (const uint32_t *)source;
            for (size_t word = 0; word < round.bytes / 4; word++) {
                nvshmem_uint32_p((uint32_t *)target + word, words[word], peer);
            }
        } else {
            nvshmem_putmem_nbi(target, source, round.bytes, peer);
        }
        __threadfence();
        if (atomicAdd(&buffers.counters[0], 1) == round.transfers - 1) {
            buffers.counters[0] = 0;
            if (protocol == PUT_ONLY || protocol == WORDS) {
                nvshmem_quiet();
                return;
            }
            nvshmem_fence();
            for (int j = 0; j < round.transfers; j++) {
                nvshmemx_signal_op(buffers.signals + j, round.value, NVSHMEM_SIGNAL_SET, peer);
            }
        }
    }
    if (protocol != PUT_ONLY && protocol != WORDS && i == 0) {
        nvshmem_signal_wait_until(buffers.answer, NVSHMEM_CMP_EQ, round.value);
    }
}

/* `waits`: for the signals; put-only rounds are checked after a barrier. */
__global__ static void receive(struct buffers buffers, struct round_of round, bool waits, int peer)
{
    int i = blockIdx.x;
    if (waits && threadIdx.x == 0) {
        nvshmem_signal_wait_until(buffers.signals + i, NVSHMEM_CMP_EQ, round.value);
    }
    __syncthreads();
    const volatile uint32_t *at = (const volatile uint32_t *)(buffers.target + i * round.bytes);
    int wrong = 0;
    for (size_t word = threadIdx.x; word < round.bytes / 4; word += blockDim.x) {
        wrong += at[word] != pattern(i, word, round.value);
    }
    if (wrong > 0) {
        atomicAdd(&buffers.counters[2], 1);
    }
    __syncthreads();
    if (waits && threadIdx.x == 0 && atomicAdd(&buffers.counters[1], 1) == round.transfers - 1) {
        buffers.counters[1] = 0;
        nvshmemx_signal_op(buffers.answer, round.value, NVSHMEM_SIGNAL_SET, peer);
    }
}

/* Microseconds on PE 0; on the others 0. */
static float one_round(const struct job *job, struct buffers buffers, struct round_of round,
                       enum protocol protocol, cudaStream_t stream)
{
    cudaEvent_t from, to;
    float ms = 0;
    CUDA_CHECK(cudaEventCreate(&from));
    CUDA_CHECK(cudaEventCreate(&to));
    fill<<<round.transfers, 256, 0, stream>>>(buffers, round);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    bool waits = protocol != PUT_ONLY && protocol != WORDS;
    if (job->rank == 1 && waits) {
        receive<<<round.transfers, 256, 0, stream>>>(buffers, round, true, 0);
    }
    nvshmem_barrier_all();
    if (job->rank == 0) {
        CUDA_CHECK(cudaEventRecord(from, stream));
        send<<<round.transfers, 32, 0, stream>>>(buffers, round, protocol, 1);
        CUDA_CHECK(cudaEventRecord(to, stream));
        CUDA_CHECK(cudaStreamSynchronize(stream));
        CUDA_CHECK(cudaEventElapsedTime(&ms, from, to));
    }
    CUDA_CHECK(cudaStreamSynchronize(stream));
    nvshmem_barrier_all();
    if (job->rank == 1 && !waits) {
        receive<<<round.transfers, 256, 0, stream>>>(buffers, round, false, 0);
        CUDA_CHECK(cudaStreamSynchronize(stream));
    }
    CUDA_CHECK(cudaEventDestroy(from));
    CUDA_CHECK(cudaEventDestroy(to));
    return ms * 1000;
}

static int round_iterations(const struct job *job, size_t bytes)
{
    int iterations = job->iterations < 64 ? job->iterations : 64;
    return bytes > (16 << 20) && iterations > 3 ? 3 : iterations;
}

void run_sweep(struct job *job)
{
    static const int transfers[] = {1, 8, 32, 96, 128};
    static const size_t sizes[] = {4,        256,       1 << 10, 4 << 10, 16 << 10,
                                   64 << 10, 256 << 10, 1 << 20, 4 << 20};
    struct buffers buffers;
    cudaStream_t stream;
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    buffers.source = (unsigned char *)nvshmem_malloc(job->bytes_max);
    buffers.target = (unsigned char *)nvshmem_malloc(job->bytes_max);
    buffers.signals = (uint64_t *)nvshmem_calloc(TRANSFERS_MAX, sizeof(uint64_t));
    buffers.answer = (uint64_t *)nvshmem_calloc(1, sizeof(uint64_t));
    CUDA_CHECK(cudaMalloc(&buffers.counters, 3 * sizeof(int)));
    CUDA_CHECK(cudaMemset(buffers.counters, 0, 3 * sizeof(int)));
    struct round_of round = {0, 0, 0};
    float times[64];
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (size_t t = 0; t < sizeof transfers / sizeof transfers[0]; t++) {
            round.transfers = transfers[t];
            round.bytes = sizes[s];
            for (int p = 0; p < PROTOCOLS && round.transfers * round.bytes <= job->bytes_max; p++) {
                if (p == WORDS && round.bytes > WORDS_BYTES_MAX) {
                    continue;
                }
                int iterations = round_iterations(job, round.transfers * round.bytes);
                for (int i = -1; i < iterations; i++) { /* one to warm up */
                    round.value++;
                    float us = one_round(job, buffers, round, (enum protocol)p, stream);
                    if (i >= 0) {
                        times[i] = us;
                    }
                }
                int errors = 0;
                CUDA_CHECK(
                    cudaMemcpy(&errors, buffers.counters + 2, sizeof errors, cudaMemcpyDefault));
                CUDA_CHECK(cudaMemset(buffers.counters + 2, 0, sizeof errors));
                job->failures += errors;
                errors = sum_over_pes(errors);
                if (job->rank == 0) {
                    printf("{\"part\": \"sweep\", \"protocol\": \"%s\", \"transfers\": %d, "
                           "\"bytes\": %zu, \"us\": %.1f, \"payload_errors\": %d}\n",
                           protocol_names[p], round.transfers, round.bytes,
                           median(times, iterations), errors);
                }
            }
        }
    }
    nvshmem_free(buffers.source);
    nvshmem_free(buffers.target);
    nvshmem_free(buffers.signals);
    nvshmem_free(buffers.answer);
    CUDA_CHECK(cudaFree(buffers.counters));
    CUDA_CHECK(cudaStreamDestroy(stream));
}
