/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perseus/gpu.h: kernels of a PE whose symmetric heap is a GPU's memory.
 *
 *     attr.heap_memory = PERSEUS_MEMORY_GPU; attr.gpu = 0;
 *     perseus_init_attr(&attr, &pe);
 *     perseus_malloc(pe, bytes, &memory);                    GPU memory, symmetric
 *     perseus_gpu_pe_get(pe, &handle); kernel<<<...>>>(handle, ...);
 *     perseus_gpu_check(pe);                                 after the kernel: what went wrong
 *
 * The calls of perseus.h go on working, from the host's threads; those of perseus/device.cuh are
 * the kernels'. What a call gives out belongs to the PE and lives as long. Sizes are bytes.
 */
#ifndef PERSEUS_GPU_H
#define PERSEUS_GPU_H

#include <perseus/device/pe.h>
#include <perseus/perseus.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For kernels, by value, with the heap and the first PERSEUS_DEVICE_BUFFERS_MAX - 1 registered
 * buffers that are GPU memory, in order of their addresses. Not collective. Valid until finalize, a
 * buffer until it is unregistered. INVALID_ARGUMENT: the heap is not GPU memory. */
enum perseus_status perseus_gpu_pe_get(struct perseus_pe *pe, struct perseus_device_pe *out);

/* OK, or what ended a wait in a kernel since the last call, which is logged with the word or slot,
 * the peer, the value found and the value awaited. */
enum perseus_status perseus_gpu_check(struct perseus_pe *pe);

/* A signal group in GPU memory: members' signals, as offsets from the handle's heap; `number` is
 * the member's index in device code: out_numbers[i] is where members[i] went, as they are sorted.
 * Freed with the PE. */
struct perseus_device_group_attr {
    uint32_t n_members;
    const int *targets;
    const uint64_t *signals; /* heap offsets of the members' signal words */
    enum perseus_signal_op op;
    bool vector; /* SET signals on neighbouring words of one target go as one message */
};
enum perseus_status perseus_gpu_group_create(struct perseus_pe *pe,
                                             const struct perseus_device_group_attr *attr,
                                             uint32_t *out_numbers,
                                             struct perseus_device_group **out);

#ifdef __cplusplus
}
#endif
#endif
