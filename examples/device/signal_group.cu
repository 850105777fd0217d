// SPDX-License-Identifier: Apache-2.0
// A signal group: eight CTAs of PE 0 put a tile each to PE 1; the last to arrive submits one fence
// and all eight signals as one message, the others go on at once.
#include <perseus/device.cuh>
#include <perseus/device.h>

#include <cstdio>

static const uint32_t members = 8, words = 512;
static const uint64_t tiles_at = 4096; // the signals are the heap's first words

__global__ void produce(perseus_device_pe pe, perseus_device_group *group, const uint32_t *numbers)
{
    uint64_t *tile = (uint64_t *)(pe.heap + tiles_at) + blockIdx.x * words;
    for (uint32_t i = threadIdx.x; i < words; i += blockDim.x) {
        tile[i] = blockIdx.x + 1;
    }
    perseus_signal_group_put_block(pe, group, numbers[blockIdx.x], tile, tile, words * sizeof *tile,
                                   1);
}

__global__ void consume(perseus_device_pe pe, unsigned long long *sum)
{
    const uint64_t *signal = (const uint64_t *)pe.heap + blockIdx.x;
    const uint64_t *tile = (const uint64_t *)(pe.heap + tiles_at) + blockIdx.x * words;
    if (perseus_signal_wait_until_block(pe, signal, PERSEUS_CMP_EQ, 1, 5000, 0) == PERSEUS_OK) {
        for (uint32_t i = threadIdx.x; i < words; i += blockDim.x) {
            atomicAdd(sum, (unsigned long long)tile[i]);
        }
    }
}

int main()
{
    perseus_device *device[2] = {};
    struct perseus_device_contact contacts[2];
    perseus_device_pe pe[2];
    for (int i = 0; i < 2; i++) {
        perseus_device_attr attr = {};
        attr.my_pe = i;
        attr.n_pes = 2;
        if (perseus_device_open(&attr, &device[i]) != PERSEUS_OK ||
            perseus_device_contact(device[i], &contacts[i]) != PERSEUS_OK) {
            return 1;
        }
    }
    int targets[members];
    uint64_t signals[members];
    for (uint32_t i = 0; i < members; i++) {
        targets[i] = 1;
        signals[i] = i * sizeof(uint64_t);
    }
    perseus_device_group_attr attr = {members, targets, signals, PERSEUS_SIGNAL_SET, true};
    perseus_device_group *group = nullptr;
    uint32_t *numbers = nullptr;
    unsigned long long *sum = nullptr;
    cudaMallocHost(&numbers, members * sizeof *numbers);
    cudaMallocHost(&sum, sizeof *sum);
    *sum = 0;
    bool failed = perseus_device_group_create(device[0], &attr, numbers, &group) != PERSEUS_OK;
    for (int i = 0; i < 2; i++) {
        failed |= perseus_device_start(device[i], contacts) != PERSEUS_OK;
        perseus_device_pe_get(device[i], &pe[i]);
    }
    if (!failed) {
        cudaStream_t stream;
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
        produce<<<members, 128, 0, stream>>>(pe[0], group, numbers);
        consume<<<members, 128, 0, stream>>>(pe[1], sum);
        cudaStreamSynchronize(stream);
    }
    for (int i = 0; i < 2; i++) {
        failed |= perseus_device_check(device[i]) != PERSEUS_OK;
        perseus_device_close(device[i]);
    }
    printf("sum %llu of %u\n", *sum, words * members * (members + 1) / 2);
    return failed || *sum != words * members * (members + 1) / 2;
}
