/* SPDX-License-Identifier: Apache-2.0 */
/* Checks before anything is timed: every scope, order and error path once, on real kernels. Small
 * enough for compute-sanitizer. */
#include <perseus/device.cuh>
#include <perseus/device.h>

#include "gpu.cuh"

static const int pes = 4, words = 512, rounds = 8;
static const size_t heap_bytes = 4 << 20, data_at = 1 << 16, source_at = 2 << 20;

enum how { THREAD, WARP, BLOCK, ADD, GROUP, HOWS };
static const char *const how_names[] = {"thread", "warp", "block", "add", "group"};

__device__ static uint64_t word_of(int from, uint64_t round, uint32_t index)
{
    return (uint64_t)from << 48 | round << 32 | index;
}

/* What the kernels are given, in pinned memory. */
struct shared {
    uint32_t wrong;
    perseus_device_pe pe[pes];
    perseus_device_group *groups[pes];
    uint32_t numbers[pes][pes];
};

/* Every PE sends to every other one and checks what it gets, the moment it sees the signal. One
 * block of four warps a PE; the PEs of one GPU are one launch, so that they run together
 * everywhere. */
__global__ void exchange(shared *given, int first, int stride, int how)
{
    const int self = first + (int)blockIdx.x * stride;
    const perseus_device_pe pe = given->pe[self];
    perseus_device_group *group = given->groups[self];
    const uint32_t *numbers = given->numbers[self];
    uint32_t *wrong = &given->wrong;
    for (uint64_t round = 1; round <= rounds; round++) {
        uint64_t *source = (uint64_t *)(pe.heap + source_at) + round % 2 * words;
        for (uint32_t i = threadIdx.x; i < words; i += blockDim.x) {
            source[i] = word_of(pe.my_pe, round, i);
        }
        __syncthreads();
        for (int to = 0, nth = 0; to < pe.n_pes; to++) {
            if (to == pe.my_pe) {
                continue;
            }
            uint64_t *data =
                (uint64_t *)(pe.heap + data_at) + pe.my_pe * 2 * words + round % 2 * words;
            uint64_t *signal = (uint64_t *)pe.heap + pe.my_pe;
            perseus_status status = PERSEUS_OK;
            if (how == THREAD || how == ADD) {
                if (threadIdx.x == 0) {
                    status = perseus_put_signal_nbi(
                        pe, data, source, words * 8, signal, how == ADD ? 1 : round,
                        how == ADD ? PERSEUS_SIGNAL_ADD : PERSEUS_SIGNAL_SET, to);
                }
            } else if (how == WARP) {
                if (threadIdx.x < 32) {
                    status = perseus_put_signal_nbi_warp(pe, data, source, words * 8, signal, round,
                                                         PERSEUS_SIGNAL_SET, to);
                }
            } else if (how == BLOCK) {
                status = perseus_put_signal_nbi_block(pe, data, source, words * 8, signal, round,
                                                      PERSEUS_SIGNAL_SET, to);
            } else {
                status = perseus_signal_group_put_block(pe, group, numbers[nth++], data, source,
                                                        words * 8, round);
            }
            if (status != PERSEUS_OK && threadIdx.x == 0) {
                atomicAdd(wrong, 1000000u);
            }
        }
        for (int from = 0; from < pe.n_pes; from++) {
            if (from == pe.my_pe) {
                continue;
            }
            if (perseus_signal_wait_until_block(pe, (uint64_t *)pe.heap + from, PERSEUS_CMP_GE,
                                                round, 10000, from) != PERSEUS_OK) {
                if (threadIdx.x == 0) {
                    atomicAdd(wrong, 1000u);
                }
                return;
            }
            const uint64_t *data =
                (const uint64_t *)(pe.heap + data_at) + from * 2 * words + round % 2 * words;
            for (uint32_t i = threadIdx.x; i < words; i += blockDim.x) {
                if (data[i] != word_of(from, round, i)) {
                    atomicAdd(wrong, 1u);
                }
            }
        }
        perseus_status status = perseus_quiet_block(pe);
        if (status != PERSEUS_OK && threadIdx.x == 0) {
            atomicAdd(wrong, 1000000u);
        }
    }
}

__global__ void wait_in_vain(perseus_device_pe pe)
{
    perseus_signal_wait_until_block(pe, (uint64_t *)(pe.heap + 88), PERSEUS_CMP_EQ, 7, 50, 1);
}

__global__ void send_garbage(perseus_device_pe pe, int *status)
{
    prs_desc_slot bad = {};
    bad.desc.kind = 77;
    bad.desc.peer = 2;
    bad.desc.ticket = PRS_DESC_NO_TICKET;
    prs_device_push(pe, bad, false);
    status[0] = perseus_quiet(pe);
    *(uint64_t *)(pe.heap + source_at) = 42;
    status[1] = perseus_put_signal_nbi(pe, pe.heap + data_at, pe.heap + source_at, 8,
                                       (uint64_t *)pe.heap + 40, 1, PERSEUS_SIGNAL_SET, 1);
}

__global__ void expect_42(perseus_device_pe pe, int *status)
{
    status[2] = perseus_signal_wait_until(pe, (uint64_t *)pe.heap + 40, PERSEUS_CMP_EQ, 1, 5000, 0);
    status[3] = *(uint64_t *)(pe.heap + data_at) != 42;
}

static void keep(void *user, enum perseus_log_level level, const char *text)
{
    if (level == PERSEUS_LOG_ERROR) {
        snprintf((char *)user, 512, "%s", text);
    }
}

struct job {
    int gpus;
    perseus_device *device[pes];
    perseus_device_pe pe[pes];
    char message[512];
};

static void open(job *opened, int gpus, const char *provider, enum perseus_ordering ordering,
                 int per_node)
{
    struct perseus_device_contact contacts[pes];
    opened->gpus = gpus;
    opened->message[0] = '\0';
    for (int i = 0; i < pes; i++) {
        perseus_device_attr attr = {};
        attr.my_pe = i;
        attr.n_pes = pes;
        attr.gpu = i % gpus;
        attr.provider = provider;
        attr.ordering = ordering;
        attr.heap_bytes = heap_bytes;
        attr.ring_slots = 64;
        attr.pes_per_node = per_node;
        attr.log = keep;
        attr.log_user = opened->message;
        CHECK_OK(perseus_device_open(&attr, &opened->device[i]));
        CHECK_OK(perseus_device_contact(opened->device[i], &contacts[i]));
    }
    for (int i = 0; i < pes; i++) {
        CHECK_OK(perseus_device_start(opened->device[i], contacts));
        perseus_device_pe_get(opened->device[i], &opened->pe[i]);
    }
}

static void close(job *opened)
{
    for (int i = 0; i < pes; i++) {
        perseus_device_close(opened->device[i]);
    }
}

static int check_exchange(int gpus, const char *provider, enum perseus_ordering ordering,
                          int per_node, int how)
{
    job opened;
    shared *given = (shared *)pinned(sizeof *given);
    cudaStream_t streams[pes];
    open(&opened, gpus, provider, ordering, per_node);
    for (int i = 0; i < pes; i++) {
        int targets[pes];
        uint64_t signals[pes];
        uint32_t n = 0;
        for (int to = 0; to < pes; to++) {
            targets[n] = to;
            signals[n] = (uint64_t)i * 8;
            n += to != i;
        }
        perseus_device_group_attr attr = {n, targets, signals, PERSEUS_SIGNAL_SET, false};
        given->pe[i] = opened.pe[i];
        if (how == GROUP) {
            CHECK_OK(perseus_device_group_create(opened.device[i], &attr, given->numbers[i],
                                                 &given->groups[i]));
        }
    }
    for (int gpu = 0; gpu < gpus; gpu++) {
        CHECK_CUDA(cudaSetDevice(gpu));
        CHECK_CUDA(cudaStreamCreateWithFlags(&streams[gpu], cudaStreamNonBlocking));
        exchange<<<pes / gpus, 128, 0, streams[gpu]>>>(given, gpu, gpus, how);
        CHECK_CUDA(cudaGetLastError());
    }
    for (int gpu = 0; gpu < gpus; gpu++) {
        CHECK_CUDA(cudaSetDevice(gpu));
        wait_for(streams[gpu]);
        CHECK_CUDA(cudaStreamDestroy(streams[gpu]));
    }
    bool failed = false;
    for (int i = 0; i < pes; i++) {
        failed |= perseus_device_check(opened.device[i]) != PERSEUS_OK;
    }
    failed |= given->wrong != 0;
    printf("  %d GPU %-7s %-10s %d a node, by %-7s %s\n", gpus, provider,
           perseus_ordering_name(ordering), per_node, how_names[how], failed ? "FAILED" : "ok");
    if (failed) {
        printf("    wrong %u; %s\n", given->wrong, opened.message);
    }
    close(&opened);
    CHECK_CUDA(cudaSetDevice(0));
    cudaFreeHost(given);
    return failed;
}

static int check_errors()
{
    job opened;
    int *status = (int *)pinned(64);
    open(&opened, 1, "batch", PERSEUS_ORDERING_AUTO, 0);
    wait_in_vain<<<2, 64>>>(opened.pe[0]);
    CHECK_CUDA(cudaDeviceSynchronize());
    bool told = perseus_device_check(opened.device[0]) == PERSEUS_TIMEOUT &&
                strstr(opened.message, "heap offset 88, from PE 1: it is 0, awaited 7") != nullptr;
    printf("  a wait past its deadline: %s\n    %s\n", told ? "ok" : "FAILED", opened.message);
    send_garbage<<<1, 1>>>(opened.pe[0], status);
    CHECK_CUDA(cudaDeviceSynchronize());
    expect_42<<<1, 1>>>(opened.pe[1], status);
    CHECK_CUDA(cudaDeviceSynchronize());
    bool ended =
        status[0] == PERSEUS_INVALID_ARGUMENT && status[1] == 0 && status[2] == 0 && status[3] == 0;
    printf("  a malformed descriptor ends its peer only: %s (%d %d %d %d)\n",
           ended ? "ok" : "FAILED", status[0], status[1], status[2], status[3]);
    close(&opened);
    cudaFreeHost(status);
    return !told + !ended;
}

int check_device(int gpus, bool short_one)
{
    int failures = 0;
    printf("Checks: %d PEs, %d rounds, payload checked the moment its signal is seen\n", pes,
           rounds);
    for (int used = 1; used <= gpus; used++) {
        for (int how = 0; how < HOWS; how++) {
            failures += check_exchange(used, "batch", PERSEUS_ORDERING_NIC_FENCE, 0, how);
            if (short_one) {
                continue;
            }
            for (enum perseus_ordering mode :
                 {PERSEUS_ORDERING_DRAIN, PERSEUS_ORDERING_DRAIN_PEER, PERSEUS_ORDERING_DEFERRED,
                  PERSEUS_ORDERING_COUNTED}) {
                failures += check_exchange(used, "batch", mode, 0, how);
            }
            failures += check_exchange(used, "stream", PERSEUS_ORDERING_FIFO, 0, how);
            if (how != GROUP) {
                failures += check_exchange(used, "batch", PERSEUS_ORDERING_AUTO, pes, how);
            }
        }
    }
    return failures + check_errors();
}
