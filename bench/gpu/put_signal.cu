/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The paper's section 3.3 with CTAs as producers and the copy engines as the NIC. PE 0 sends; a
 * persistent kernel puts and signals, on the other side persistent kernels wait and check each
 * payload the moment they see its signal. us: until a quiet behind everything has its answer; seen
 * us: until all has been seen and checked (put-only: signaled after its quiet, for the check
 * alone).
 */
#include <perseus/device.cuh>
#include <perseus/device.h>

#include <algorithm>
#include <vector>

#include "bench.h"
#include "gpu.cuh"

static const int pes = 8, transfers = 96, senders = 32, receivers_each = 4, rounds = 30, warm = 5;
static const uint32_t deadline_ms = 4000;
static const size_t heap_bytes = 64 << 20, data_at = 1 << 20, source_at = 32 << 20;

enum protocol { PUT_ONLY, COUPLED, DECOUPLED, PROTOCOLS };

struct plan {
    int protocol;
    uint32_t bytes;
    int n_targets;
    int first_target;
    perseus_device_group *group[pes];
    uint32_t numbers[transfers];
    uint32_t *barrier;   /* GPU 0 */
    uint64_t *times;     /* pinned; ns by round */
    uint64_t *all_seen;  /* pinned; ns until all was seen */
    uint64_t *submitted; /* pinned; ns until all was in the ring */
    uint64_t *seen;      /* GPU 0; by receiving block: rounds */
    uint64_t *bad;       /* pinned; by receiving block: words that were wrong */
    uint32_t *stop;      /* pinned: a wait has failed, everybody ends */
    int is_idle;         /* the launch that loads the code */
};

__device__ static uint64_t word_of(uint64_t round, int transfer, uint32_t index)
{
    return round << 32 | (uint64_t)transfer << 20 | (index & 0xfffff);
}

/* Seldom: a kernel that polls host memory takes PCIe from the copy engines, which then need ten
 * times as long for a copy. */
__device__ static bool gone(const plan &plan, uint64_t since)
{
    __nanosleep(200);
    const uint64_t waited = prs_now_ns() - since;
    return waited > 1000000 && (waited >> 10) % 1024 == 0 ? *(volatile uint32_t *)plan.stop != 0
                                                          : waited > deadline_ms * 1000000ull;
}

/* All sending blocks. */
__device__ static bool meet(const plan &plan, uint32_t *phase)
{
    __shared__ int met;
    __syncthreads();
    if (threadIdx.x == 0) {
        const uint32_t target = ++*phase * gridDim.x;
        const uint64_t since = prs_now_ns();
        met = 1;
        prs_add_acq_rel_gpu(plan.barrier, 1);
        while (prs_add_acq_rel_gpu(plan.barrier, 0) < target) {
            if (gone(plan, since)) {
                *(volatile uint32_t *)plan.stop = 1;
                met = 0;
                break;
            }
        }
    }
    __syncthreads();
    return met;
}

__device__ static int target_of(const plan &plan, int transfer)
{
    return plan.first_target + transfer % plan.n_targets;
}

__device__ static perseus_status send(const perseus_device_pe &pe, const plan &plan, int transfer,
                                      uint64_t round)
{
    unsigned char *dst = pe.heap + data_at + (uint64_t)transfer * plan.bytes;
    unsigned char *src = pe.heap + source_at + (uint64_t)transfer * plan.bytes;
    uint64_t *signal =
        (uint64_t *)pe.heap + (transfer % plan.n_targets) * transfers + transfer / plan.n_targets;
    const int target = target_of(plan, transfer);
    switch (plan.protocol) {
    case PUT_ONLY:
        return perseus_put_nbi_block(pe, dst, src, plan.bytes, target);
    case COUPLED:
        return perseus_put_signal_nbi_block(pe, dst, src, plan.bytes, signal, round,
                                            PERSEUS_SIGNAL_SET, target);
    default:
        return perseus_signal_group_put_block(pe, plan.group[transfer % plan.n_targets],
                                              plan.numbers[transfer], dst, src, plan.bytes, round);
    }
}

__global__ void sender(perseus_device_pe pe, plan plan)
{
    uint32_t phase = 0;
    if (plan.is_idle) {
        return;
    }
    for (uint64_t round = 1; round <= rounds + warm; round++) {
        for (int t = blockIdx.x; t < transfers; t += gridDim.x) {
            uint64_t *src = (uint64_t *)(pe.heap + source_at + (uint64_t)t * plan.bytes);
            for (uint32_t i = threadIdx.x; i < plan.bytes / 8; i += blockDim.x) {
                src[i] = word_of(round, t, i);
            }
        }
        if (!meet(plan, &phase)) {
            return;
        }
        const uint64_t start = prs_now_ns();
        for (int t = blockIdx.x; t < transfers; t += gridDim.x) {
            if (send(pe, plan, t, round) != PERSEUS_OK) {
                *(volatile uint32_t *)plan.stop = 1;
            }
        }
        if (!meet(plan, &phase)) {
            return;
        }
        if (blockIdx.x == 0 && threadIdx.x == 0) {
            plan.submitted[round - 1] = prs_now_ns() - start;
            if (perseus_quiet(pe) != PERSEUS_OK) {
                *(volatile uint32_t *)plan.stop = 1;
            }
            plan.times[round - 1] = prs_now_ns() - start;
            for (int i = 0; plan.protocol == PUT_ONLY && i < plan.n_targets; i++) {
                /* lets the others check */
                perseus_signal_op_nbi(pe, (uint64_t *)pe.heap + i * transfers, round,
                                      PERSEUS_SIGNAL_SET, plan.first_target + i);
            }
            for (int i = 0; i < plan.n_targets * receivers_each; i++) {
                while (prs_load_acquire_sys(&plan.seen[i]) < round) {
                    if (gone(plan, start)) {
                        *(volatile uint32_t *)plan.stop = 1;
                        break;
                    }
                }
            }
            plan.all_seen[round - 1] = prs_now_ns() - start;
        }
        if (!meet(plan, &phase)) {
            return;
        }
    }
}

/* receivers_each blocks for one PE. */
__global__ void receiver(perseus_device_pe pe, plan plan, int which)
{
    const int mine = which * receivers_each + blockIdx.x;
    if (plan.is_idle) {
        return;
    }
    for (uint64_t round = 1; round <= rounds + warm; round++) {
        uint64_t wrong = 0;
        for (int nth = blockIdx.x; nth * plan.n_targets + which < transfers;
             nth += receivers_each) {
            const int t = nth * plan.n_targets + which;
            uint64_t *signal =
                (uint64_t *)pe.heap + which * transfers + (plan.protocol == PUT_ONLY ? 0 : nth);
            if (perseus_signal_wait_until_block(pe, signal, PERSEUS_CMP_GE, round, deadline_ms,
                                                0) != PERSEUS_OK) {
                *(volatile uint32_t *)plan.stop = 1;
                return;
            }
            const uint64_t *data = (const uint64_t *)(pe.heap + data_at + (uint64_t)t * plan.bytes);
            for (uint32_t i = threadIdx.x; i < plan.bytes / 8; i += blockDim.x) {
                wrong += data[i] != word_of(round, t, i);
            }
        }
        if (wrong != 0) {
            atomicAdd((unsigned long long *)&plan.bad[mine], (unsigned long long)wrong);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            prs_store_release_sys(&plan.seen[mine], round);
        }
    }
}

static void say(void *, enum perseus_log_level level, const char *text)
{
    if (level == PERSEUS_LOG_ERROR) {
        fprintf(stderr, "    %s\n", text);
    }
}

static double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values.empty() ? 0 : values[values.size() / 2];
}

struct result {
    double us, seen_us, submit_us;
    struct perseus_stats stats;
    bool failed;
};

static void make_groups(perseus_device *device, plan *plan, bool vector)
{
    for (int i = 0; i < plan->n_targets; i++) {
        int targets[transfers];
        uint64_t signals[transfers];
        uint32_t numbers[transfers];
        uint32_t n = 0;
        for (int t = i; t < transfers; t += plan->n_targets, n++) {
            targets[n] = plan->first_target + i;
            signals[n] = (uint64_t)(i * transfers + (int)n) * 8;
        }
        perseus_device_group_attr attr = {n, targets, signals, PERSEUS_SIGNAL_SET, vector};
        CHECK_OK(perseus_device_group_create(device, &attr, numbers, &plan->group[i]));
        for (uint32_t k = 0; k < n; k++) {
            plan->numbers[i + (int)k * plan->n_targets] = numbers[k];
        }
    }
}

static int gpu_of(int gpus, int pe)
{
    return gpus == 1 || pe == 0 ? 0 : 1; /* the peers of PE 0 on the other GPU, if there is one */
}

struct job {
    int gpus;
    perseus_device *device[pes];
    perseus_device_pe pe[pes];
    cudaStream_t streams[pes];
};

static void open(job *job, const char *provider, enum perseus_ordering ordering)
{
    struct perseus_device_contact contacts[pes];
    for (int i = 0; i < pes; i++) {
        perseus_device_attr attr = {};
        attr.my_pe = i;
        attr.n_pes = pes;
        attr.gpu = gpu_of(job->gpus, i);
        attr.provider = provider;
        attr.ordering = ordering;
        attr.heap_bytes = heap_bytes;
        attr.timeout_ms = deadline_ms;
        attr.log = say;
        CHECK_OK(perseus_device_open(&attr, &job->device[i]));
        CHECK_OK(perseus_device_contact(job->device[i], &contacts[i]));
    }
    for (int i = 0; i < pes; i++) {
        CHECK_OK(perseus_device_start(job->device[i], contacts));
        perseus_device_pe_get(job->device[i], &job->pe[i]);
        CHECK_CUDA(cudaSetDevice(gpu_of(job->gpus, i)));
        CHECK_CUDA(cudaStreamCreateWithFlags(&job->streams[i], cudaStreamNonBlocking));
    }
    if (job->gpus > 1) {
        CHECK_CUDA(cudaSetDevice(1));
        cudaDeviceEnablePeerAccess(0, 0); /* or it is already */
        cudaGetLastError();
    }
    CHECK_CUDA(cudaSetDevice(0));
}

static void launch_all(const job *job, const plan &plan)
{
    for (int i = pes - 1; i >= 0; i--) {
        CHECK_CUDA(cudaSetDevice(gpu_of(job->gpus, i)));
        if (i > 0) {
            receiver<<<receivers_each, 128, 0, job->streams[i]>>>(job->pe[i], plan, i - 1);
        } else {
            sender<<<senders, 128, 0, job->streams[i]>>>(job->pe[0], plan);
        }
        CHECK_CUDA(cudaGetLastError());
    }
}

static void wait_all(const job *job)
{
    for (int i = 0; i < pes; i++) {
        CHECK_CUDA(cudaSetDevice(gpu_of(job->gpus, i)));
        wait_for(job->streams[i]);
    }
    CHECK_CUDA(cudaSetDevice(0));
}

/* The first launch into each stream comes before any kernel that waits: what the driver sets up for
 * it waits for kernels that run. */
static void launch(const job *job, plan *plan)
{
    plan->is_idle = 1;
    launch_all(job, *plan);
    wait_all(job);
    plan->is_idle = 0;
    launch_all(job, *plan);
    wait_all(job);
}

static plan make_plan(int protocol, uint32_t bytes)
{
    plan plan = {};
    uint64_t *shared = (uint64_t *)pinned(4096 * sizeof(uint64_t));
    plan.protocol = protocol;
    plan.bytes = bytes;
    plan.n_targets = pes - 1;
    plan.first_target = 1;
    plan.barrier = (uint32_t *)on_gpu(64);
    plan.seen = (uint64_t *)on_gpu(1024 * sizeof(uint64_t));
    plan.times = shared;
    plan.submitted = shared + 256;
    plan.all_seen = shared + 512;
    plan.bad = shared + 1024;
    plan.stop = (uint32_t *)(shared + 2048);
    return plan;
}

static double median_us(const uint64_t *ns)
{
    std::vector<double> values;
    for (int i = warm; i < rounds + warm; i++) {
        values.push_back((double)ns[i] / 1e3);
    }
    return median(values);
}

static result take_result(const job *job, const plan &plan)
{
    result result = {};
    uint64_t bad = 0;
    for (int i = 0; i < plan.n_targets * receivers_each; i++) {
        bad += plan.bad[i];
    }
    for (int i = 0; i < pes; i++) {
        result.failed |= perseus_device_check(job->device[i]) != PERSEUS_OK;
    }
    result.failed |= bad != 0 || *plan.stop != 0;
    if (result.failed) {
        fprintf(stderr, "    wrong words %llu, stopped %u\n", (unsigned long long)bad, *plan.stop);
    }
    result.us = median_us(plan.times);
    result.submit_us = median_us(plan.submitted);
    result.seen_us = median_us(plan.all_seen);
    perseus_device_stats(job->device[0], PERSEUS_ALL_PES, &result.stats);
    return result;
}

static result run(int gpus, const char *provider, enum perseus_ordering ordering, int protocol,
                  bool vector, uint32_t bytes)
{
    job job = {};
    job.gpus = gpus;
    open(&job, provider, ordering);
    plan plan = make_plan(protocol, bytes);
    if (protocol == DECOUPLED) {
        make_groups(job.device[0], &plan, vector);
    }
    launch(&job, &plan);
    result result = take_result(&job, plan);
    for (int i = 0; i < pes; i++) {
        CHECK_CUDA(cudaStreamDestroy(job.streams[i]));
        perseus_device_close(job.device[i]);
    }
    CHECK_CUDA(cudaSetDevice(0));
    cudaFree(plan.barrier);
    cudaFree(plan.seen);
    cudaFreeHost(plan.times);
    return result;
}

struct kind {
    const char *name;
    int protocol;
    bool vector;
    enum perseus_ordering ordering;
    const char *provider;
};

static const struct kind kinds[] = {
    {"put-only", PUT_ONLY, false, PERSEUS_ORDERING_NIC_FENCE, "batch"},
    {"coupled", COUPLED, false, PERSEUS_ORDERING_DRAIN, "batch"},
    {"coupled", COUPLED, false, PERSEUS_ORDERING_DRAIN_PEER, "batch"},
    {"coupled", COUPLED, false, PERSEUS_ORDERING_DEFERRED, "batch"},
    {"coupled", COUPLED, false, PERSEUS_ORDERING_NIC_FENCE, "batch"},
    {"coupled", COUPLED, false, PERSEUS_ORDERING_COUNTED, "batch"},
    {"coupled", COUPLED, false, PERSEUS_ORDERING_FIFO, "stream"},
    {"decoupled", DECOUPLED, false, PERSEUS_ORDERING_DRAIN, "batch"},
    {"decoupled", DECOUPLED, false, PERSEUS_ORDERING_DEFERRED, "batch"},
    {"decoupled", DECOUPLED, false, PERSEUS_ORDERING_NIC_FENCE, "batch"},
    {"decoupled", DECOUPLED, false, PERSEUS_ORDERING_COUNTED, "batch"},
    {"decoupled", DECOUPLED, false, PERSEUS_ORDERING_FIFO, "stream"},
    {"vector", DECOUPLED, true, PERSEUS_ORDERING_DRAIN, "batch"},
    {"vector", DECOUPLED, true, PERSEUS_ORDERING_DEFERRED, "batch"},
    {"vector", DECOUPLED, true, PERSEUS_ORDERING_NIC_FENCE, "batch"},
    {"vector", DECOUPLED, true, PERSEUS_ORDERING_COUNTED, "batch"},
    {"vector", DECOUPLED, true, PERSEUS_ORDERING_FIFO, "stream"},
};

static void print_row(const bench_put_signal_row &row)
{
    printf("%-10s %-10s %-7s %9.1f %8.0f%% %9.1f %9.1f %9.1f %7llu %6llu %8llu%s\n", row.protocol,
           perseus_ordering_name(row.ordering), row.provider, row.us, 100 * row.share, row.fence_us,
           row.seen_us, row.submit_us, (unsigned long long)row.fences,
           (unsigned long long)row.drains, (unsigned long long)row.messages,
           row.failed ? "  FAILED" : "");
}

static bench_put_signal_row measure(int gpus, const struct kind &kind, uint32_t bytes,
                                    double *ceiling)
{
    const result one = run(gpus, kind.provider, kind.ordering, kind.protocol, kind.vector, bytes);
    const uint64_t all = rounds + warm;
    *ceiling = kind.protocol == PUT_ONLY ? one.us : *ceiling;
    bench_put_signal_row row = {};
    row.protocol = kind.name;
    row.provider = kind.provider;
    row.ordering = kind.ordering;
    row.bytes = bytes;
    row.gpus = gpus;
    row.us = one.us;
    row.share = *ceiling / one.us;
    row.seen_us = one.seen_us;
    row.submit_us = one.submit_us;
    row.fence_us = (double)one.stats.drain_ns / 1e3 / (double)all;
    row.fences = one.stats.fences / all;
    row.drains = one.stats.drains / all;
    row.messages = one.stats.signal_messages / all;
    row.failed = one.failed;
    return row;
}

bool bench_put_signal(int gpus, const uint32_t *bytes, int n, bench_put_signal_fn each,
                      void *context)
{
    bool failed = false;
    for (int i = 0; i < n; i++) {
        printf("\n%d transfers of %u KiB from PE 0 to 7 PEs on %s, %d sending CTAs, medians of %d "
               "rounds\n\n%-10s %-10s %-7s %9s %9s %9s %9s %9s %7s %6s %8s\n",
               transfers, bytes[i] / 1024, gpus == 1 ? "the same GPU" : "the other GPU", senders,
               rounds, "protocol", "ordering", "copies", "us", "share", "fence us", "seen us",
               "submit us", "fences", "drains", "messages");
        double ceiling = 0;
        for (const struct kind &kind : kinds) {
            const bench_put_signal_row row = measure(gpus, kind, bytes[i], &ceiling);
            print_row(row);
            failed |= row.failed;
            if (each != nullptr) {
                each(context, &row);
            }
        }
    }
    return !failed;
}
