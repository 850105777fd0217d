// SPDX-License-Identifier: Apache-2.0
// PEs of perseus_init, each a thread of this program, with their heaps in GPU 0's memory: a kernel
// of each sends a block of numbers to its right neighbour; the host's threads wait for the signal
// and read it.
//   nvcc -std=c++17 -arch=native gpu_heap.cu $(pkg-config --cflags --libs perseus)
#include <perseus/device.cuh>
#include <perseus/gpu.h>

#include <cstdio>
#include <thread>
#include <vector>

static const int n_pes = 4, numbers = 1024;

__global__ void send(perseus_device_pe pe, uint64_t *received, uint64_t *mine, uint64_t *signal)
{
    for (int i = threadIdx.x; i < numbers; i += blockDim.x) {
        mine[i] = pe.my_pe * 1000 + i;
    }
    perseus_put_signal_nbi_block(pe, received, mine, numbers * sizeof *mine, signal, 1,
                                 PERSEUS_SIGNAL_SET, (pe.my_pe + 1) % pe.n_pes);
}

static bool exchange(perseus_pe *pe)
{
    const int left = (perseus_my_pe(pe) + n_pes - 1) % n_pes;
    void *received = nullptr, *mine = nullptr, *signal = nullptr;
    std::vector<uint64_t> copy(numbers);
    perseus_device_pe handle;
    if (perseus_malloc(pe, numbers * sizeof(uint64_t), &received) != PERSEUS_OK ||
        perseus_malloc(pe, numbers * sizeof(uint64_t), &mine) != PERSEUS_OK ||
        perseus_malloc(pe, sizeof(uint64_t), &signal) != PERSEUS_OK ||
        perseus_gpu_pe_get(pe, &handle) != PERSEUS_OK) {
        return false;
    }
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    send<<<1, 128, 0, stream>>>(handle, (uint64_t *)received, (uint64_t *)mine, (uint64_t *)signal);
    bool is_right = perseus_signal_wait_until(pe, (uint64_t *)signal, PERSEUS_CMP_EQ, 1, 10000,
                                              nullptr) == PERSEUS_OK;
    cudaMemcpyAsync(copy.data(), received, numbers * sizeof(uint64_t), cudaMemcpyDeviceToHost,
                    stream);
    is_right = cudaStreamSynchronize(stream) == cudaSuccess && is_right;
    for (int i = 0; i < numbers; i++) {
        is_right = is_right && copy[i] == (uint64_t)(left * 1000 + i);
    }
    return perseus_barrier_all(pe) == PERSEUS_OK && perseus_gpu_check(pe) == PERSEUS_OK && is_right;
}

int main()
{
    struct perseus_unique_id id;
    std::vector<std::thread> threads;
    int right = 0;
    if (perseus_unique_id_create(nullptr, &id) != PERSEUS_OK) {
        return 1;
    }
    for (int rank = 0; rank < n_pes; rank++) {
        threads.emplace_back([&id, &right, rank] {
            perseus_attr attr = {};
            attr.heap_memory = PERSEUS_MEMORY_GPU;
            attr.bootstrap = PERSEUS_BOOTSTRAP_TCP;
            attr.unique_id = &id;
            attr.rank = rank;
            attr.size = n_pes;
            perseus_pe *pe = nullptr;
            if (perseus_init_attr(&attr, &pe) != PERSEUS_OK) {
                fprintf(stderr, "PE %d: %s\n", rank, perseus_last_error(nullptr));
            } else if (exchange(pe) && perseus_finalize(pe) == PERSEUS_OK) {
                __atomic_fetch_add(&right, 1, __ATOMIC_RELAXED);
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    printf("%d of %d PEs got what was sent\n", right, n_pes);
    return right != n_pes;
}
