/* SPDX-License-Identifier: Apache-2.0 */
/* checks.cu: everything else a program may ask of a transport, each checked by value. */
#include "job.h"

#define N 1000

static void report(struct job *job, const char *name, int wrong)
{
    job->failures += wrong != 0;
    int failures = sum_over_pes(wrong != 0);
    if (job->rank == 0) {
        printf("{\"part\": \"checks\", \"name\": \"%s\", \"ok\": %s}\n", name,
               failures == 0 ? "true" : "false");
        fflush(stdout);
    }
}

template <typename T> static T *symmetric(size_t n)
{
    return (T *)nvshmem_calloc(n, sizeof(T));
}

template <typename T> static T at(const T *address)
{
    T value;
    CUDA_CHECK(cudaMemcpy(&value, address, sizeof value, cudaMemcpyDefault));
    return value;
}

static int read_flag(int *wrong)
{
    int value = at(wrong);
    CUDA_CHECK(cudaMemset(wrong, 0, sizeof value));
    return value;
}

/* ---- atomics ---- */

__global__ static void add_all(uint64_t *wide, uint32_t *narrow, int size)
{
    int pe = threadIdx.x % size;
    nvshmem_uint64_atomic_add(wide, 3, pe);
    nvshmem_uint32_atomic_inc(narrow, pe);
    nvshmem_uint32_atomic_add(narrow + 1, 5, pe);
}

__global__ static void fetch_all(uint64_t *ticket, uint64_t *marks, int *wrong)
{
    uint64_t mine = nvshmem_uint64_atomic_fetch_inc(ticket, 0);
    if (nvshmem_uint64_atomic_swap(marks + mine, 7, 0) != 0) {
        atomicAdd(wrong, 1);
    }
}

/* One thread, one word of the next PE that only this PE touches. */
__global__ static void fetch_codes(uint64_t *words, uint32_t *halves, int rank, int size,
                                   int *wrong)
{
    int pe = (rank + 1) % size;
    uint64_t *word = words + rank;
    uint32_t *half = halves + rank;
    nvshmem_uint64_atomic_set(word, 12, pe);
    nvshmem_fence();
    *wrong += nvshmem_uint64_atomic_fetch(word, pe) != 12;
    *wrong += nvshmem_uint64_atomic_fetch_add(word, 30, pe) != 12;
    *wrong += nvshmem_uint64_atomic_compare_swap(word, 42, 99, pe) != 42;
    *wrong += nvshmem_uint64_atomic_compare_swap(word, 42, 5, pe) != 99;
    *wrong += nvshmem_uint64_atomic_fetch_and(word, 0x63, pe) != 99;
    *wrong += nvshmem_uint64_atomic_fetch_or(word, 0x100, pe) != 99;
    *wrong += nvshmem_uint64_atomic_fetch_xor(word, 0x1, pe) != (99 | 0x100);
    *wrong += nvshmem_uint64_atomic_swap(word, 1, pe) != (98 | 0x100);
    nvshmem_uint32_atomic_set(half, 12, pe);
    nvshmem_fence();
    *wrong += nvshmem_uint32_atomic_fetch_inc(half, pe) != 12;
    *wrong += nvshmem_uint32_atomic_fetch_add(half, 2, pe) != 13;
    *wrong += nvshmem_uint32_atomic_compare_swap(half, 15, 0x80000000u, pe) != 15;
    *wrong += nvshmem_uint32_atomic_swap(half, 3, pe) != 0x80000000u;
    *wrong += nvshmem_uint32_atomic_fetch(half, pe) != 3;
}

static void check_atomics(struct job *job, int *wrong)
{
    uint64_t *wide = symmetric<uint64_t>(8), *ticket = symmetric<uint64_t>(8);
    uint64_t *marks = symmetric<uint64_t>(64 * (size_t)job->size);
    uint32_t *narrow = symmetric<uint32_t>(64);
    int bad = 0;
    add_all<<<1, 64>>>(wide, narrow, job->size);
    CUDA_CHECK(cudaDeviceSynchronize());
    nvshmem_barrier_all();
    bad += at(wide) != 3 * 64 || at(narrow) != 64 || at(narrow + 1) != 5 * 64;
    report(job, "atomic add, 8 and 4 bytes, self and remote", bad);
    fetch_all<<<1, 32>>>(ticket, marks, wrong);
    CUDA_CHECK(cudaDeviceSynchronize());
    nvshmem_barrier_all();
    bad = read_flag(wrong);
    if (job->rank == 0) {
        bad += at(ticket) != 32u * (unsigned)job->size;
    }
    report(job, "fetch-increment gives every number once", bad);
    fetch_codes<<<1, 1>>>(wide + 2, narrow + 4, job->rank, job->size, wrong);
    CUDA_CHECK(cudaDeviceSynchronize());
    nvshmem_barrier_all();
    report(job, "fetching atomics, every code", read_flag(wrong));
    nvshmem_free(wide);
    nvshmem_free(ticket);
    nvshmem_free(marks);
    nvshmem_free(narrow);
}

/* ---- atomic sums of floats, since 3.7 ---- */

#if NVSHMEM_VENDOR_MAJOR_VERSION > 3 || NVSHMEM_VENDOR_MINOR_VERSION >= 7
#include <cuda_fp16.h>

__global__ static void add_floats(__half *half, float *single, double *twice, int size)
{
    int pe = threadIdx.x % size;
    nvshmemx_half_atomic_add(half, __float2half(1.0f), pe);
    nvshmemx_float_atomic_add(single, 0.5f, pe);
    nvshmemx_double_atomic_add(twice, 0.25, pe);
}

/* One thread, words of the next PE that only this PE touches: what comes back, and where rounding
 * shows. */
__global__ static void fetch_floats(__half *half, float *single, double *twice, int pe, int *wrong)
{
    *wrong += nvshmemx_double_atomic_fetch_add(twice, 1e16, pe) != 0.0;
    *wrong += nvshmemx_double_atomic_fetch_add(twice, 1.0, pe) != 1e16;
    *wrong += nvshmemx_double_atomic_fetch_add(twice, 0.0, pe) != 1e16;
    *wrong += nvshmemx_float_atomic_fetch_add(single, 16777216.0f, pe) != 0.0f;
    *wrong += nvshmemx_float_atomic_fetch_add(single, 1.0f, pe) != 0.0f + 16777216.0f;
    *wrong += nvshmemx_float_atomic_fetch_add(single, 0.0f, pe) != 16777216.0f;
    *wrong += __half2float(nvshmemx_half_atomic_fetch_add(half, __float2half(2050.0f), pe)) != 0.0f;
    *wrong += __half2float(nvshmemx_half_atomic_fetch_add(half, __float2half(1.0f), pe)) != 2050.0f;
    *wrong += __half2float(nvshmemx_half_atomic_fetch_add(half, __float2half(0.0f), pe)) != 2052.0f;
}

static void check_floats(struct job *job, int *wrong)
{
    __half *half = symmetric<__half>(64);
    float *single = symmetric<float>(64);
    double *twice = symmetric<double>(64);
    int next = (job->rank + 1) % job->size;
    add_floats<<<1, 64>>>(half, single, twice, job->size);
    CUDA_CHECK(cudaDeviceSynchronize());
    nvshmem_barrier_all();
    report(job, "atomic sums of half, float and double",
           __half2float(at(half)) != 64 || at(single) != 32 || at(twice) != 16);
    fetch_floats<<<1, 1>>>(half + 16 + job->rank, single + 16 + job->rank, twice + 16 + job->rank,
                           next, wrong);
    CUDA_CHECK(cudaDeviceSynchronize());
    nvshmem_barrier_all();
    report(job, "fetching atomic sums, rounded to nearest even", read_flag(wrong));
    nvshmem_free(half);
    nvshmem_free(single);
    nvshmem_free(twice);
}
#else
static void check_floats(struct job *, int *)
{
}
#endif

/* ---- p, g, strided; NVSHMEM itself refuses strided transfers (iput, iget) to PEs that it reaches
 * by a transport ---- */

__global__ static void put_values(int *there, int rank, int pe)
{
    for (int i = threadIdx.x; i < N; i += blockDim.x) {
        nvshmem_int_p(there + i, rank * 10000 + i, pe);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        nvshmem_quiet();
    }
}

/* Every STRIDE-th word, as a column of a matrix: by p, and by puts of one word. */
#define STRIDE 17

__global__ static void put_columns(int *there, const int *here, int pe)
{
    for (int i = threadIdx.x; i < N / STRIDE; i += blockDim.x) {
        nvshmem_int_p(there + i * STRIDE, here[i * STRIDE], pe);
        nvshmem_int_put_nbi(there + i * STRIDE + 1, here + i * STRIDE + 1, 1, pe);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        nvshmem_quiet();
    }
}

__global__ static void get_values(int *there, int pe, int *wrong)
{
    for (int i = threadIdx.x; i < N; i += blockDim.x) {
        if (nvshmem_int_g(there + i, pe) != pe * 7 + i) {
            atomicAdd(wrong, 1);
        }
    }
}

static void check_values(struct job *job, int *wrong)
{
    int next = (job->rank + 1) % job->size, before = (job->rank + job->size - 1) % job->size;
    int *area = symmetric<int>(N), *known = symmetric<int>(N), host[N];
    put_values<<<1, 128>>>(area, job->rank, next);
    CUDA_CHECK(cudaDeviceSynchronize());
    nvshmem_barrier_all();
    CUDA_CHECK(cudaMemcpy(host, area, sizeof host, cudaMemcpyDefault));
    int bad = 0;
    for (int i = 0; i < N; i++) {
        bad += host[i] != before * 10000 + i;
        host[i] = job->rank * 7 + i;
    }
    report(job, "p", bad);
    CUDA_CHECK(cudaMemcpy(known, host, sizeof host, cudaMemcpyDefault));
    nvshmem_barrier_all();
    get_values<<<1, 64>>>(known, next, wrong);
    CUDA_CHECK(cudaDeviceSynchronize());
    report(job, "g", read_flag(wrong));
    nvshmem_barrier_all();
    CUDA_CHECK(cudaMemset(area, 0, N * sizeof(int)));
    nvshmem_barrier_all();
    put_columns<<<1, 64>>>(area, known, next);
    CUDA_CHECK(cudaDeviceSynchronize());
    nvshmem_barrier_all();
    CUDA_CHECK(cudaMemcpy(host, area, sizeof host, cudaMemcpyDefault));
    bad = 0;
    for (int i = 0; i < N; i++) {
        bool sent = i % STRIDE < 2 && i / STRIDE < N / STRIDE;
        bad += host[i] != (sent ? before * 7 + i : 0);
    }
    report(job, "strided, by p and single words", bad);
    nvshmem_barrier_all();
    nvshmem_free(area);
    nvshmem_free(known);
}

/* ---- blocking, host-side, user buffers, large ---- */

__global__ static void round_trip(char *area, char *back, size_t bytes, int pe, int *wrong)
{
    nvshmem_putmem(area, back, bytes, pe);
    nvshmem_getmem(back + bytes, area, bytes, pe);
    for (size_t i = 0; i < bytes; i++) {
        *wrong += back[i] != back[bytes + i];
    }
}

static void check_transfers(struct job *job, int *wrong)
{
    int next = (job->rank + 1) % job->size;
    size_t bytes = 100001;
    char *area = symmetric<char>(bytes), *back = symmetric<char>(2 * bytes);
    char *host = (char *)malloc(bytes), *again = (char *)malloc(bytes);
    for (size_t i = 0; i < bytes; i++) {
        host[i] = (char)(i * 31 + (size_t)job->rank);
    }
    CUDA_CHECK(cudaMemcpy(back, host, bytes, cudaMemcpyDefault));
    nvshmem_barrier_all();
    round_trip<<<1, 1>>>(area, back, 5000, next, wrong);
    CUDA_CHECK(cudaDeviceSynchronize());
    report(job, "blocking put and get on the device", read_flag(wrong));
    nvshmem_barrier_all();
    nvshmem_putmem(area, back, bytes, next);
    nvshmem_quiet();
    nvshmem_getmem(back + bytes, area, bytes, next);
    CUDA_CHECK(cudaMemcpy(again, back + bytes, bytes, cudaMemcpyDefault));
    int bad = 0;
    for (size_t i = 5000 + 5000; i < bytes; i++) {
        bad += host[i] != again[i];
    }
    report(job, "put and get on the host", bad);
    nvshmem_barrier_all();
    free(host);
    free(again);
    nvshmem_free(area);
    nvshmem_free(back);
    size_t large = (size_t)96 << 20; /* the heap grows, chunks are crossed */
    char *more = symmetric<char>(large);
    CUDA_CHECK(cudaMemset(more, job->rank + 1, large / 2));
    nvshmem_barrier_all();
    nvshmem_putmem(more + large / 2, more, large / 2, next);
    nvshmem_barrier_all();
    char first = at(more + large / 2), last = at(more + large - 1);
    char expected = (char)((job->rank + job->size - 1) % job->size + 1);
    report(job, "a large put", first != expected || last != expected);
    nvshmem_free(more);
}

/* ---- collectives, and signals by ADD ---- */

__global__ static void add_signals(char *area, uint64_t *signal, int pe)
{
    for (int i = 0; i < 64; i++) {
        nvshmem_putmem_signal_nbi(area, area, 8, signal, 1, NVSHMEM_SIGNAL_ADD, pe);
    }
    nvshmem_signal_wait_until(signal, NVSHMEM_CMP_EQ, 64);
}

__global__ static void barriers(int *counter, int size, int *wrong)
{
    for (int i = 1; i <= 50; i++) {
        nvshmem_int_atomic_inc(counter, 0);
        nvshmem_barrier_all();
        if (nvshmem_int_g(counter, 0) < i * size) {
            *wrong += 1;
        }
        nvshmem_barrier_all();
    }
}

static void check_collectives(struct job *job, int *wrong)
{
    int n = 4096, bad = 0, size = job->size;
    int *in = symmetric<int>((size_t)n * (size_t)size),
        *out = symmetric<int>((size_t)n * (size_t)size);
    int *host = (int *)malloc((size_t)n * (size_t)size * sizeof(int));
    for (int i = 0; i < n * size; i++) {
        host[i] = job->rank * 1000 + i;
    }
    CUDA_CHECK(cudaMemcpy(in, host, (size_t)n * (size_t)size * sizeof(int), cudaMemcpyDefault));
    nvshmem_barrier_all();
    nvshmem_int_sum_reduce(NVSHMEM_TEAM_WORLD, out, in, (size_t)n);
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(host, out, (size_t)n * sizeof(int), cudaMemcpyDefault));
    for (int i = 0; i < n; i++) {
        bad += host[i] != 1000 * size * (size - 1) / 2 + size * i;
    }
    report(job, "reduce", bad);
    nvshmem_barrier_all();
    bad = 0;
    nvshmem_int_alltoall(NVSHMEM_TEAM_WORLD, out, in, (size_t)n);
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(host, out, (size_t)n * (size_t)size * sizeof(int), cudaMemcpyDefault));
    for (int i = 0; i < n * size; i++) {
        bad += host[i] != i / n * 1000 + job->rank * n + i % n;
    }
    report(job, "alltoall", bad);
    nvshmem_barrier_all();
    int *counter = symmetric<int>(1);
    void *arguments[] = {&counter, &size, &wrong};
    nvshmemx_collective_launch((const void *)barriers, 1, 1, arguments, 0, 0);
    CUDA_CHECK(cudaDeviceSynchronize());
    report(job, "device barriers", read_flag(wrong));
    uint64_t *signal = symmetric<uint64_t>(1);
    char *area = symmetric<char>(8);
    nvshmem_barrier_all();
    add_signals<<<1, 1>>>(area, signal, (job->rank + 1) % size);
    CUDA_CHECK(cudaDeviceSynchronize());
    report(job, "put_signal with ADD", at(signal) != 64);
    nvshmem_free(counter);
    nvshmem_free(signal);
    nvshmem_free(area);
    nvshmem_free(in);
    nvshmem_free(out);
    free(host);
}

void run_checks(struct job *job)
{
    int *wrong;
    CUDA_CHECK(cudaMalloc(&wrong, sizeof(int)));
    CUDA_CHECK(cudaMemset(wrong, 0, sizeof(int)));
    check_collectives(job, wrong);
    check_atomics(job, wrong);
    check_floats(job, wrong);
    check_values(job, wrong);
    check_transfers(job, wrong);
    CUDA_CHECK(cudaFree(wrong));
}
