/* SPDX-License-Identifier: Apache-2.0 */
/* Device ring: kernels fill it, a CPU thread takes every descriptor out and checks it. Rates, and
 * what a call costs its caller in cycles. */
#include <perseus/device.cuh>

#include <cstdio>

#include "bench.h"
#include "gpu.cuh"

extern "C" {
#include "ring/ring.h"
}

enum scope { THREAD, THREADS_8, THREADS_32, WARP, BLOCK, SCOPES };
static const char *const scope_names[] = {"thread", "8 threads", "32 threads", "warp", "block"};

/* Each producer is a warp (a block in block scope) and numbers its descriptors. `bytes` of payload
 * are written before each. */
__global__ void produce(perseus_device_pe pe, int scope, uint64_t count, uint64_t *cycles)
{
    const uint32_t lane = threadIdx.x & 31, together = scope == THREADS_8    ? 8
                                                       : scope == THREADS_32 ? 32
                                                                             : 1;
    uint64_t *payload = (uint64_t *)(pe.heap + (uint64_t)blockIdx.x * 1024);
    const long long start = clock64();
    for (uint64_t i = 0; i < count; i += together) {
        const uint64_t number = i + lane;
        if (scope >= WARP || lane < together) {
            payload[lane] = number;
        }
        perseus_status status = PERSEUS_OK;
        uint64_t *signal = (uint64_t *)(pe.heap + 8 * (uint64_t)blockIdx.x);
        if (scope == WARP) {
            status = perseus_put_signal_nbi_warp(pe, payload, payload, 8, signal, i,
                                                 PERSEUS_SIGNAL_SET, (int)blockIdx.x);
        } else if (scope == BLOCK) {
            status = perseus_put_signal_nbi_block(pe, payload, payload, 8, signal, i,
                                                  PERSEUS_SIGNAL_SET, (int)blockIdx.x);
        } else if (lane < together) {
            status = perseus_put_signal_nbi(pe, payload, payload, 8, signal, number,
                                            PERSEUS_SIGNAL_SET, (int)blockIdx.x);
        }
        if (status != PERSEUS_OK) {
            return;
        }
    }
    if (threadIdx.x == 0) {
        cycles[blockIdx.x] = (uint64_t)(clock64() - start) / count;
    }
}

struct consumed {
    uint64_t wrong, steps;
};

/* As the proxy: batches of 64; checks kind, producer and number. */
static consumed consume(prs_ring *ring, uint32_t producers, uint64_t count, uint64_t deadline_ns)
{
    consumed result = {};
    uint64_t next[1024] = {};
    for (uint64_t done = 0; done < count * producers;) {
        uint32_t n = 0;
        const prs_desc *desc;
        while (n < 64 && (desc = prs_ring_peek(ring, n)) != nullptr) {
            bool ok = desc->kind == PRS_DESC_PUT_SIGNAL && desc->peer < producers &&
                      desc->bytes == 8 && desc->signal == 8ull * desc->peer &&
                      desc->remote == 1024ull * desc->peer && desc->value == next[desc->peer];
            result.wrong += !ok;
            if (desc->peer < producers) {
                next[desc->peer]++;
            }
            n++;
        }
        if (n > 0) {
            prs_ring_release(ring, n);
        } else if (now_ns() > deadline_ns) {
            result.wrong += count * producers - done;
            break;
        }
        done += n;
        result.steps++;
    }
    return result;
}

static bench_ring_row measure(int scope, uint32_t blocks, uint64_t count)
{
    const uint32_t slots = 4096;
    unsigned char *shared = (unsigned char *)pinned(prs_ring_bytes(slots) + 4096);
    prs_ring ring;
    CHECK_OK(prs_ring_place(slots, shared, nullptr, &ring));
    prs_ring consumer = ring;
    ring.producers = (prs_ring_producers *)on_gpu(sizeof *ring.producers);
    perseus_device_pe pe = {};
    pe.ring = ring;
    pe.n_pes = 1024;
    pe.heap_bytes = 1 << 20;
    pe.heap = (unsigned char *)on_gpu(pe.heap_bytes);
    pe.n_buffers = 1;
    pe.buffers[0].base = pe.heap;
    pe.buffers[0].bytes = pe.heap_bytes;
    pe.timeout_ms = 10000;
    pe.fault = (perseus_device_fault *)(shared + prs_ring_bytes(slots));
    pe.fault_taken = (uint32_t *)on_gpu(64);
    uint64_t *cycles = (uint64_t *)on_gpu(1024 * sizeof(uint64_t)), host_cycles[1024];
    const uint64_t start = now_ns();
    produce<<<blocks, scope == BLOCK ? 256 : 32>>>(pe, scope, count, cycles);
    consumed result = consume(&consumer, blocks, count, start + 20000000000ull);
    const uint64_t took = now_ns() - start;
    CHECK_CUDA(cudaDeviceSynchronize());
    CHECK_CUDA(cudaMemcpy(host_cycles, cycles, sizeof host_cycles, cudaMemcpyDeviceToHost));
    const bench_ring_row row = {scope_names[scope], blocks,
                                1e9 * (double)(count * blocks) / (double)took, host_cycles[0],
                                result.wrong};
    cudaFree(ring.producers);
    cudaFree(pe.heap);
    cudaFree(pe.fault_taken);
    cudaFree(cycles);
    cudaFreeHost(shared);
    return row;
}

bool bench_ring(bench_ring_fn each, void *context)
{
    bool is_right = true;
    printf(
        "\nDevice ring: 4096 slots, put_signal with a system fence, every descriptor checked by a "
        "CPU thread\n\n%-10s %5s %10s %8s %7s\n",
        "scope", "CTAs", "M desc/s", "cycles", "wrong");
    measure(WARP, 1, 10000); /* warm-up */
    for (int scope = 0; scope < SCOPES; scope++) {
        for (uint32_t blocks : {1u, 8u, 32u, 132u}) {
            const bench_ring_row row =
                measure(scope, blocks, blocks == 1 ? 320000 : 3200000 / blocks / 32 * 32);
            printf("%-10s %5u %10.1f %8llu %7llu\n", row.scope, row.ctas, row.rate / 1e6,
                   (unsigned long long)row.cycles, (unsigned long long)row.wrong);
            is_right = is_right && row.wrong == 0;
            if (each != nullptr) {
                each(context, &row);
            }
        }
    }
    return is_right;
}

int bench_gpus(const char **out_why)
{
    int gpus = 0;
    cudaError_t error = cudaGetDeviceCount(&gpus);
    *out_why = error != cudaSuccess ? cudaGetErrorString(error) : "there is none";
    return error == cudaSuccess ? gpus : 0;
}
