/* SPDX-License-Identifier: Apache-2.0 */
/*
 * group.cu: the example of docs/nvshmem.md: tiles for another PE, each with a signal, before and
 * after a signal group took the place of put_signal. The receiver checks every tile when its signal
 * is seen, and answers.
 */
#include "job.h"
#include "perseus/nvshmem_group.cuh"

#define TILES_MAX 128
#define ROUNDS    20

struct work {
    unsigned char *source, *target;
    uint64_t *signals, *answer;
    int *counters; /* 0: receivers that are done; 1: errors; local */
    int tiles, group_tiles;
    size_t bytes;
    uint64_t first; /* value of the first round's signals */
};

__device__ static uint32_t tile_word(int tile, size_t word, uint64_t value)
{
    return (uint32_t)(word * 2654435761u) ^ (uint32_t)(tile * 40503) ^ (uint32_t)(value * 97);
}

__device__ static void wait_for(uint64_t *flag, uint64_t value)
{
    if (threadIdx.x == 0) {
        nvshmem_signal_wait_until(flag, NVSHMEM_CMP_GE, value);
    }
    __syncthreads();
}

__device__ static void fill_tile(const struct work &work, uint64_t value)
{
    uint32_t *at = (uint32_t *)(work.source + blockIdx.x * work.bytes);
    for (size_t i = threadIdx.x; i < work.bytes / 4; i += blockDim.x) {
        at[i] = tile_word(blockIdx.x, i, value);
    }
    __threadfence_system(); /* the transport reads it */
    __syncthreads();
}

/* Before: a put_signal for each tile. */
__global__ static void send_coupled(struct work work, int pe)
{
    for (uint64_t value = work.first; value < work.first + ROUNDS; value++) {
        size_t at = blockIdx.x * work.bytes;
        fill_tile(work, value);
        if (threadIdx.x == 0) {
            nvshmem_putmem_signal_nbi(work.target + at, work.source + at, work.bytes,
                                      work.signals + blockIdx.x, value, NVSHMEM_SIGNAL_SET, pe);
        }
        wait_for(work.answer, value);
    }
}

/* After: the same tiles, in groups. One line is another. */
__global__ static void send_grouped(struct work work, const perseus::nvshmem_group *groups)
{
    const perseus::nvshmem_group group = groups[blockIdx.x / work.group_tiles];
    unsigned member = blockIdx.x % work.group_tiles;
    for (uint64_t value = work.first; value < work.first + ROUNDS; value++) {
        size_t at = blockIdx.x * work.bytes;
        fill_tile(work, value);
        if (threadIdx.x == 0) {
            perseus::put_signal_nbi(group, member, work.target + at, work.source + at, work.bytes,
                                    value);
        }
        wait_for(work.answer, value);
    }
}

__global__ static void receive(struct work work, int pe)
{
    for (uint64_t value = work.first; value < work.first + ROUNDS; value++) {
        const volatile uint32_t *at =
            (const volatile uint32_t *)(work.target + blockIdx.x * work.bytes);
        int wrong = 0;
        wait_for(work.signals + blockIdx.x, value);
        for (size_t i = threadIdx.x; i < work.bytes / 4; i += blockDim.x) {
            wrong += at[i] != tile_word(blockIdx.x, i, value);
        }
        if (wrong > 0) {
            atomicAdd(&work.counters[1], 1);
        }
        __syncthreads();
        if (threadIdx.x == 0 && atomicAdd(&work.counters[0], 1) == work.tiles - 1) {
            work.counters[0] = 0;
            __threadfence();
            nvshmemx_signal_op(work.answer, value, NVSHMEM_SIGNAL_SET, pe);
        }
    }
}

/* Microseconds of a round on PE 0. */
static float one_run(const struct job *job, struct work *work, const perseus::nvshmem_group *groups,
                     cudaStream_t stream)
{
    cudaEvent_t from, to;
    float ms = 0;
    CUDA_CHECK(cudaEventCreate(&from));
    CUDA_CHECK(cudaEventCreate(&to));
    nvshmem_barrier_all();
    CUDA_CHECK(cudaEventRecord(from, stream));
    if (job->rank == 1) {
        receive<<<work->tiles, 256, 0, stream>>>(*work, 0);
    } else if (groups != NULL) {
        send_grouped<<<work->tiles, 256, 0, stream>>>(*work, groups);
    } else {
        send_coupled<<<work->tiles, 256, 0, stream>>>(*work, 1);
    }
    CUDA_CHECK(cudaEventRecord(to, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaEventElapsedTime(&ms, from, to));
    nvshmem_barrier_all();
    CUDA_CHECK(cudaEventDestroy(from));
    CUDA_CHECK(cudaEventDestroy(to));
    work->first += ROUNDS;
    return ms * 1000 / ROUNDS;
}

static void report(struct job *job, struct work *work, const char *protocol, float us)
{
    int errors = 0;
    CUDA_CHECK(cudaMemcpy(&errors, work->counters + 1, sizeof errors, cudaMemcpyDefault));
    CUDA_CHECK(cudaMemset(work->counters + 1, 0, sizeof errors));
    job->failures += errors;
    errors = sum_over_pes(errors);
    if (job->rank == 0) {
        printf("{\"part\": \"group\", \"protocol\": \"%s\", \"transfers\": %d, \"bytes\": %zu, "
               "\"us\": %.1f, \"payload_errors\": %d}\n",
               protocol, work->tiles, work->bytes, us, errors);
        fflush(stdout);
    }
}

static void compare(struct job *job, struct work *work, cudaStream_t stream)
{
    static const struct {
        const char *name;
        int tiles;
        bool one_put;
    } kinds[] = {
        {"group-8", 8, false}, {"group-all", TILES_MAX, false}, {"group-one-put", TILES_MAX, true}};
    float times[16];
    int runs = job->iterations < 5 ? job->iterations : 5;
    one_run(job, work, NULL, stream);
    for (int i = 0; i < runs; i++) {
        times[i] = one_run(job, work, NULL, stream);
    }
    report(job, work, "coupled", median(times, runs));
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        perseus::nvshmem_group groups[TILES_MAX], *on_device;
        work->group_tiles = kinds[k].tiles < work->tiles ? kinds[k].tiles : work->tiles;
        int n = work->tiles / work->group_tiles;
        for (int g = 0; g < n; g++) {
            if (!perseus::group_create(&groups[g], (unsigned)work->group_tiles,
                                       work->signals + g * work->group_tiles, 1,
                                       kinds[k].one_put)) {
                exit(1);
            }
        }
        CUDA_CHECK(cudaMalloc(&on_device, sizeof groups));
        CUDA_CHECK(cudaMemcpy(on_device, groups, sizeof groups, cudaMemcpyDefault));
        for (int i = -1; i < runs; i++) {
            times[i < 0 ? 0 : i] = one_run(job, work, on_device, stream);
        }
        report(job, work, kinds[k].name, median(times, runs));
        CUDA_CHECK(cudaFree(on_device));
        for (int g = 0; g < n; g++) {
            perseus::group_destroy(&groups[g]);
        }
    }
}

void run_group(struct job *job)
{
    static const size_t sizes[] = {4 << 10, 64 << 10};
    struct work work = {};
    cudaStream_t stream;
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    work.tiles = 96;
    work.first = 1;
    work.source = (unsigned char *)nvshmem_malloc((size_t)work.tiles * sizes[1]);
    work.target = (unsigned char *)nvshmem_malloc((size_t)work.tiles * sizes[1]);
    work.signals = (uint64_t *)nvshmem_calloc(TILES_MAX, sizeof(uint64_t));
    work.answer = (uint64_t *)nvshmem_calloc(1, sizeof(uint64_t));
    CUDA_CHECK(cudaMalloc(&work.counters, 2 * sizeof(int)));
    CUDA_CHECK(cudaMemset(work.counters, 0, 2 * sizeof(int)));
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        work.bytes = sizes[s];
        compare(job, &work, stream);
    }
    nvshmem_free(work.source);
    nvshmem_free(work.target);
    nvshmem_free(work.signals);
    nvshmem_free(work.answer);
    CUDA_CHECK(cudaFree(work.counters));
    CUDA_CHECK(cudaStreamDestroy(stream));
}
