/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver takes for copies from GPU 0 to GPU 0 or 1, with and without a kernel that runs:
 * the time of the submitting call, and until an event behind it is seen. */
#include <algorithm>
#include <vector>

#include "gpu.cuh"

/* Never longer than some seconds. Looks at `watched`, host memory or the GPU's own, all the time,
 * and at `stop` seldom. */
__global__ static void spin(volatile int *watched, volatile int *stop)
{
    const long long start = clock64();
    for (uint32_t i = 1; *watched == 0 && clock64() - start < 4000000000ll; i++) {
        if (i % 16384 == 0 && *stop != 0) {
            break;
        }
    }
}

struct timing {
    double submit, total;
};

static timing time_copies(unsigned char *target, unsigned char *source, int n, int batched,
                          bool overlap, cudaStream_t stream, cudaEvent_t event)
{
    std::vector<double> submits, totals;
    for (int round = 0; round < 25; round++) {
        void *targets[96];
        const void *sources[96];
        size_t sizes[96], first = 0;
        for (int i = 0; i < n; i++) {
            targets[i] = target + i * 8192;
            sources[i] = source + i * 8192;
            sizes[i] = 4096;
        }
        cudaMemcpyAttributes attributes = {};
        attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
        attributes.flags = overlap ? cudaMemcpyFlagPreferOverlapWithCompute : 0;
        const uint64_t start = now_ns();
        if (batched) {
            CHECK_CUDA(cudaMemcpyBatchAsync((const void **)targets, sources, sizes, n, &attributes,
                                            &first, 1, stream));
        } else {
            for (int i = 0; i < n; i++) {
                CHECK_CUDA(
                    cudaMemcpyAsync(targets[i], sources[i], sizes[i], cudaMemcpyDefault, stream));
            }
        }
        CHECK_CUDA(cudaEventRecord(event, stream));
        submits.push_back((double)(now_ns() - start) / 1e3);
        while (cudaEventQuery(event) == cudaErrorNotReady) {
        }
        totals.push_back((double)(now_ns() - start) / 1e3);
    }
    std::sort(submits.begin(), submits.end());
    std::sort(totals.begin(), totals.end());
    return {submits[12], totals[12]};
}

void bench_copies(int gpus)
{
    printf(
        "\nCopies of 4 KiB, us: the submitting call, and until the event behind it is seen\n\n%-8s "
        "%-12s %6s %-16s %8s %8s\n",
        "to", "kernel looks", "copies", "by", "submit", "total");
    static const char *const kernel_names[] = {"-", "own memory", "host memory"};
    int *stop = (int *)pinned(64);
    CHECK_CUDA(cudaSetDevice(0));
    if (gpus > 1) {
        cudaDeviceEnablePeerAccess(1, 0);
    }
    int *watched = (int *)on_gpu(64);
    unsigned char *source = (unsigned char *)on_gpu(1 << 21),
                  *local = (unsigned char *)on_gpu(1 << 21), *far = nullptr;
    cudaStream_t stream, kernels;
    cudaEvent_t event;
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK_CUDA(cudaStreamCreateWithFlags(&kernels, cudaStreamNonBlocking));
    CHECK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    if (gpus > 1) {
        CHECK_CUDA(cudaSetDevice(1));
        far = (unsigned char *)on_gpu(1 << 21);
        CHECK_CUDA(cudaSetDevice(0));
    }
    for (int to = 0; to < gpus; to++) {
        for (int running = 0; running < 3; running++) {
            for (int n : {1, 96}) {
                for (int by = 0; by < 3; by++) {
                    static const char *const names[] = {"one by one", "batch", "batch, engines"};
                    time_copies(to ? far : local, source, n, by > 0, by == 2, stream, event);
                    *stop = 0;
                    if (running) {
                        spin<<<32, 32, 0, kernels>>>(running == 1 ? watched : stop, stop);
                    }
                    timing one =
                        time_copies(to ? far : local, source, n, by > 0, by == 2, stream, event);
                    *(volatile int *)stop = 1;
                    wait_for(kernels);
                    printf("%-8s %-12s %6d %-16s %8.1f %8.1f\n", to ? "GPU 1" : "GPU 0",
                           kernel_names[running], n, names[by], one.submit, one.total);
                }
            }
        }
    }
}
