/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.cuh: what the GPU benchmarks share. */
#ifndef BENCH_GPU_GPU_CUH
#define BENCH_GPU_GPU_CUH

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#define CHECK_CUDA(call)                                                  \
    do {                                                                  \
        cudaError_t error_ = (call);                                      \
        if (error_ != cudaSuccess) {                                      \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
                    cudaGetErrorString(error_));                          \
            exit(1);                                                      \
        }                                                                 \
    } while (0)

#define CHECK_OK(call)                                                                     \
    do {                                                                                   \
        int status_ = (int)(call);                                                         \
        if (status_ != 0) {                                                                \
            fprintf(stderr, "%s:%d: %s: status %d\n", __FILE__, __LINE__, #call, status_); \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

static inline uint64_t now_ns()
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void *on_gpu(size_t bytes)
{
    void *memory = nullptr;
    CHECK_CUDA(cudaMalloc(&memory, bytes));
    CHECK_CUDA(cudaMemset(memory, 0, bytes));
    return memory;
}

static inline void *pinned(size_t bytes)
{
    void *memory = nullptr;
    CHECK_CUDA(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped));
    memset(memory, 0, bytes);
    return memory;
}

/* Without the driver's own waiting, which takes turns with the proxies at the driver's locks. */
static inline void wait_for(cudaStream_t stream)
{
    cudaError_t error;
    while ((error = cudaStreamQuery(stream)) == cudaErrorNotReady) {
        struct timespec pause = {0, 2000000};
        nanosleep(&pause, nullptr);
    }
    CHECK_CUDA(error);
}

/* What only scripts/gpu/put-signal runs; bench.h has the others. */
void bench_copies(int gpus);
void bench_proxy();
int check_device(int gpus, bool short_one); /* how many failed */

#endif
