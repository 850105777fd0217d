/* SPDX-License-Identifier: Apache-2.0 */
/* The proxy's own time for a descriptor: PE 0's proxy is stepped by hand while, or after, a kernel
 * fills its ring, and the time of the driver's calls is taken out. */
#include <perseus/device.cuh>
#include <perseus/device.h>

#include <algorithm>
#include <vector>

#include "gpu.cuh"
#include "proxy_step.h"

static const int pes = 8, transfers = 96, rounds = 50, warm = 5;
static const size_t heap_bytes = 8 << 20, data_at = 1 << 20, source_at = 4 << 20;

__global__ static void send(perseus_device_pe pe, uint32_t bytes, bool signals, uint64_t round)
{
    const int transfer = (int)blockIdx.x, target = 1 + transfer % (pe.n_pes - 1);
    unsigned char *dst = pe.heap + data_at + (uint64_t)transfer * bytes;
    unsigned char *src = pe.heap + source_at + (uint64_t)transfer * bytes;
    perseus_put_signal_nbi_warp(pe, dst, src, bytes,
                                signals ? (uint64_t *)pe.heap + transfer : nullptr, round,
                                PERSEUS_SIGNAL_SET, target);
}

struct job {
    perseus_device *device[pes];
    cudaStream_t stream;
    bool waits; /* for the kernel before the first step */
};

static bool is_sent(void *context)
{
    const job *running = (const job *)context;
    cudaError_t error = cudaStreamQuery(running->stream);
    if (error != cudaErrorNotReady) {
        CHECK_CUDA(error);
    }
    return error == cudaSuccess;
}

static void open(job *opened, enum perseus_ordering ordering)
{
    struct perseus_device_contact contacts[pes];
    for (int i = 0; i < pes; i++) {
        perseus_device_attr attr = {};
        attr.my_pe = i;
        attr.n_pes = pes;
        attr.ordering = ordering;
        attr.heap_bytes = heap_bytes;
        CHECK_OK(perseus_device_open(&attr, &opened->device[i]));
        CHECK_OK(perseus_device_contact(opened->device[i], &contacts[i]));
    }
    CHECK_OK(proxy_connect(opened->device[0], contacts));
    for (int i = 1; i < pes; i++) {
        CHECK_OK(perseus_device_start(opened->device[i], contacts));
    }
    proxy_watch_driver(opened->device[0]);
    CHECK_CUDA(cudaStreamCreateWithFlags(&opened->stream, cudaStreamNonBlocking));
}

static void measure(const char *name, enum perseus_ordering ordering, bool signals, bool waits)
{
    job opened = {};
    perseus_device_pe pe;
    std::vector<double> own, driver, steps;
    open(&opened, ordering);
    perseus_device_pe_get(opened.device[0], &pe);
    for (int round = 1; round <= rounds + warm; round++) {
        proxy_time time;
        send<<<transfers, 32, 0, opened.stream>>>(pe, 4096, signals, (uint64_t)round);
        CHECK_CUDA(cudaGetLastError());
        if (waits) {
            wait_for(opened.stream);
        }
        CHECK_OK(proxy_step_all(opened.device[0], is_sent, &opened, &time));
        if (round > warm) {
            own.push_back((double)time.own_ns / transfers);
            driver.push_back((double)time.driver_ns / transfers);
            steps.push_back(time.steps);
        }
    }
    for (std::vector<double> *values : {&own, &driver, &steps}) {
        std::sort(values->begin(), values->end());
    }
    printf("%-10s %-10s %-16s %8.0f %8.0f %8.0f\n", name, perseus_ordering_name(ordering),
           waits ? "all at once" : "as they come", own[rounds / 2], driver[rounds / 2],
           steps[rounds / 2]);
    for (perseus_device *device : opened.device) {
        perseus_device_close(device);
    }
    CHECK_CUDA(cudaStreamDestroy(opened.stream));
}

void bench_proxy()
{
    printf(
        "\nThe proxy of PE 0: %d transfers of 4 KiB to 7 PEs of the same GPU; ns for a transfer, "
        "its own and in the driver's calls, medians of %d rounds\n\n%-10s %-10s %-16s %8s %8s "
        "%8s\n",
        transfers, rounds, "protocol", "ordering", "descriptors", "own", "driver", "steps");
    for (bool waits : {true, false}) {
        measure("put-only", PERSEUS_ORDERING_NIC_FENCE, false, waits);
        measure("coupled", PERSEUS_ORDERING_NIC_FENCE, true, waits);
        measure("coupled", PERSEUS_ORDERING_DEFERRED, true, waits);
    }
}
