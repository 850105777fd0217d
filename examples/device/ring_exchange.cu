// SPDX-License-Identifier: Apache-2.0
// Device PEs in a ring, all on GPU 0: each kernel sends a block of numbers to its right neighbour,
// with a signal behind it, and checks what its left neighbour sent.
//   nvcc -std=c++17 -arch=native ring_exchange.cu $(pkg-config --cflags --libs perseus_device)
#include <perseus/device.cuh>
#include <perseus/device.h>

#include <cstdio>

static const int n_pes = 4, numbers = 1024;

__global__ void exchange(perseus_device_pe pe, int *wrong)
{
    uint64_t *signal = (uint64_t *)pe.heap, *received = signal + 8, *mine = received + numbers;
    const int right = (pe.my_pe + 1) % pe.n_pes, left = (pe.my_pe + pe.n_pes - 1) % pe.n_pes;
    for (int i = threadIdx.x; i < numbers; i += blockDim.x) {
        mine[i] = pe.my_pe * 1000 + i;
    }
    perseus_put_signal_nbi_block(pe, received, mine, numbers * sizeof *mine, signal, 1,
                                 PERSEUS_SIGNAL_SET, right);
    if (perseus_signal_wait_until_block(pe, signal, PERSEUS_CMP_EQ, 1, 5000, left) != PERSEUS_OK) {
        return; // perseus_device_check tells what was awaited
    }
    for (int i = threadIdx.x; i < numbers; i += blockDim.x) {
        if (received[i] != (uint64_t)(left * 1000 + i)) {
            atomicAdd(wrong, 1);
        }
    }
    perseus_quiet_block(pe); // the source may change
}

static void say(void *, enum perseus_log_level, const char *text)
{
    fprintf(stderr, "%s\n", text);
}

int main()
{
    perseus_device *device[n_pes] = {};
    struct perseus_device_contact contacts[n_pes];
    cudaStream_t streams[n_pes];
    int *wrong = nullptr, failed = 0;
    for (int i = 0; i < n_pes; i++) {
        perseus_device_attr attr = {};
        attr.my_pe = i;
        attr.n_pes = n_pes;
        attr.log = say;
        if (perseus_device_open(&attr, &device[i]) != PERSEUS_OK ||
            perseus_device_contact(device[i], &contacts[i]) != PERSEUS_OK) {
            return 1;
        }
        cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking);
    }
    cudaMallocHost(&wrong, sizeof *wrong);
    *wrong = 0;
    for (int i = 0; i < n_pes; i++) {
        failed |= perseus_device_start(device[i], contacts) != PERSEUS_OK;
    }
    for (int i = 0; i < n_pes && !failed; i++) {
        perseus_device_pe pe;
        perseus_device_pe_get(device[i], &pe);
        exchange<<<1, 128, 0, streams[i]>>>(pe, wrong);
    }
    for (int i = 0; i < n_pes; i++) {
        cudaStreamSynchronize(streams[i]);
        failed |= perseus_device_check(device[i]) != PERSEUS_OK;
    }
    for (int i = 0; i < n_pes; i++) {
        perseus_device_close(device[i]);
    }
    printf("%d PEs, %d wrong numbers\n", n_pes, *wrong);
    return failed || *wrong != 0;
}
