// SPDX-License-Identifier: Apache-2.0
// Two processes, each a PE with its heap in GPU 0's memory, over libfabric: kernels put blocks with
// signals to the other PE; the host waits for each, and in the second half a kernel does.
//   nvcc -std=c++17 -arch=native gpu_processes.cu $(pkg-config --cflags --libs perseus)
#include <perseus/device.cuh>
#include <perseus/gpu.h>

#include <chrono>
#include <cstdio>
#include <unistd.h>

// Of the heap: what came, what goes, the signal, and how much of what came was wrong.
static const int numbers = 1024, mine = numbers, signal_at = 2 * numbers, wrong_at = signal_at + 1;
static const int rounds = 200, timeout_ms = 20000;

__global__ void send(perseus_device_pe pe, uint64_t *heap, uint64_t round)
{
    for (int i = threadIdx.x; i < numbers; i += blockDim.x) {
        heap[mine + i] = round * 1000000 + pe.my_pe * 100000 + i;
    }
    perseus_put_signal_nbi_block(pe, heap, heap + mine, numbers * sizeof *heap, heap + signal_at,
                                 round, PERSEUS_SIGNAL_SET, 1 - pe.my_pe);
}

__global__ void check(perseus_device_pe pe, uint64_t *heap, uint64_t round, bool waits)
{
    if (waits && threadIdx.x == 0) {
        perseus_signal_wait_until(pe, heap + signal_at, PERSEUS_CMP_EQ, round, timeout_ms,
                                  1 - pe.my_pe);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < numbers; i += blockDim.x) {
        if (heap[i] != round * 1000000 + (1 - pe.my_pe) * 100000 + i) {
            heap[wrong_at] = round;
        }
    }
}

static bool exchange(perseus_pe *pe, const perseus_device_pe &handle, uint64_t *heap, bool waits)
{
    const auto begin = std::chrono::steady_clock::now();
    uint64_t wrong = 1;
    cudaStream_t stream;
    bool is_right = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess;
    for (int i = 1; is_right && i <= rounds; i++) {
        const uint64_t round = i + (waits ? rounds : 0);
        send<<<1, 128, 0, stream>>>(handle, heap, round);
        is_right = waits || perseus_signal_wait_until(pe, heap + signal_at, PERSEUS_CMP_EQ, round,
                                                      timeout_ms, nullptr) == PERSEUS_OK;
        check<<<1, 128, 0, stream>>>(handle, heap, round, waits);
        cudaMemcpyAsync(&wrong, heap + wrong_at, sizeof wrong, cudaMemcpyDeviceToHost, stream);
        is_right = cudaStreamSynchronize(stream) == cudaSuccess && is_right && wrong == 0 &&
                   perseus_gpu_check(pe) == PERSEUS_OK && perseus_barrier_all(pe) == PERSEUS_OK;
    }
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    printf("PE %d, %s waits: %s, %.0f us a round\n", handle.my_pe, waits ? "a kernel" : "the host",
           is_right ? "right" : "WRONG", took.count() / rounds);
    return is_right;
}

int main()
{
    perseus_unique_id id;
    perseus_attr attr = {};
    attr.fabric = "libfabric", attr.heap_memory = PERSEUS_MEMORY_GPU;
    attr.bootstrap = PERSEUS_BOOTSTRAP_TCP, attr.unique_id = &id, attr.size = 2;
    bool is_open = perseus_unique_id_create(nullptr, &id) == PERSEUS_OK;
    attr.rank = fork() == 0; // before anything of CUDA
    perseus_pe *pe = nullptr;
    perseus_device_pe handle;
    void *heap = nullptr;
    is_open = is_open && perseus_init_attr(&attr, &pe) == PERSEUS_OK &&
              perseus_malloc(pe, (wrong_at + 1) * sizeof(uint64_t), &heap) == PERSEUS_OK;
    if (!is_open || perseus_gpu_pe_get(pe, &handle) != PERSEUS_OK) {
        return fprintf(stderr, "%s\n", perseus_last_error(pe)), 1;
    }
    uint64_t *words = (uint64_t *)heap;
    bool is_right = exchange(pe, handle, words, false) && exchange(pe, handle, words, true);
    return perseus_finalize(pe) != PERSEUS_OK || !is_right;
}
