/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/device.h"

#include <string.h>

enum perseus_status prs_gpu_device_open(struct prs_gpu *cuda, int ordinal,
                                        struct prs_gpu_device *out)
{
    if (ordinal < 0 || ordinal >= cuda->devices) {
        return prs_fail(cuda->log, PERSEUS_NOT_FOUND,
                        "there is no GPU %d; there are %d (perseus info lists them)", ordinal,
                        cuda->devices);
    }
    void *context = NULL;
    enum perseus_status status =
        prs_gpu_check(cuda, cuda->call.context_retain(&context, ordinal), "opening the GPU");
    if (status == PERSEUS_OK) {
        *out = (struct prs_gpu_device){.cuda = cuda, .context = context, .ordinal = ordinal};
    }
    return status;
}

void prs_gpu_device_close(struct prs_gpu_device *device)
{
    if (device->context != NULL) {
        device->cuda->call.context_release(device->ordinal);
        device->context = NULL;
    }
}

enum perseus_status prs_gpu_enter(const struct prs_gpu_device *device, void **out_before)
{
    const struct prs_gpu_calls *call = &device->cuda->call;
    void *before = NULL;
    int error = call->context_get(&before);
    if (error == PRS_CUDA_SUCCESS && before != device->context) {
        error = call->context_set(device->context);
    }
    if (out_before != NULL) {
        *out_before = before;
    }
    return prs_gpu_check(device->cuda, error, "entering the GPU");
}

void prs_gpu_leave(const struct prs_gpu_device *device, void *before)
{
    if (before != device->context) {
        device->cuda->call.context_set(before);
    }
}

enum perseus_status prs_gpu_alloc(const struct prs_gpu_device *device, size_t bytes, void **out)
{
    const struct prs_gpu_calls *call = &device->cuda->call;
    uintptr_t memory = 0;
    enum perseus_status status =
        prs_gpu_check(device->cuda, call->memory_alloc(&memory, bytes), "allocating GPU memory");
    if (status != PERSEUS_OK) {
        return status;
    }
    void *stream = NULL;
    int error = call->stream_create(&stream, PRS_CUDA_STREAM_NON_BLOCKING);
    if (error == PRS_CUDA_SUCCESS) {
        error = call->fill(memory, 0, bytes, stream);
        error = error != PRS_CUDA_SUCCESS ? error : call->stream_synchronize(stream);
        call->stream_destroy(stream);
    }
    status = prs_gpu_check(device->cuda, error, "zeroing GPU memory");
    if (status != PERSEUS_OK) {
        call->memory_free(memory);
        return status;
    }
    *out = (void *)memory;
    return PERSEUS_OK;
}

void prs_gpu_free(const struct prs_gpu_device *device, void *memory)
{
    if (memory != NULL) {
        device->cuda->call.memory_free((uintptr_t)memory);
    }
}

enum perseus_status prs_gpu_host_alloc(const struct prs_gpu_device *device, size_t bytes,
                                       void **out)
{
    void *memory = NULL;
    int error = device->cuda->call.host_alloc(&memory, bytes,
                                              PRS_CUDA_HOST_PORTABLE | PRS_CUDA_HOST_MAPPED);
    enum perseus_status status = prs_gpu_check(device->cuda, error, "allocating pinned memory");
    if (status == PERSEUS_OK) {
        memset(memory, 0, bytes);
        *out = memory;
    }
    return status;
}

void prs_gpu_host_free(const struct prs_gpu_device *device, void *memory)
{
    if (memory != NULL) {
        device->cuda->call.host_free(memory);
    }
}

enum perseus_status prs_gpu_pin(const struct prs_gpu_device *device, void *memory, size_t bytes,
                                bool *out_is_pinned)
{
    void *before = NULL;
    enum perseus_status status = prs_gpu_enter(device, &before);
    if (status != PERSEUS_OK) {
        return status;
    }
    int error = device->cuda->call.host_register(memory, bytes, PRS_CUDA_HOST_PORTABLE);
    prs_gpu_leave(device, before);
    *out_is_pinned = error == PRS_CUDA_SUCCESS;
    if (error == PRS_CUDA_HOST_REGISTERED) {
        return PERSEUS_OK; /* the program's, or a neighbour's pages */
    }
    return prs_gpu_check(device->cuda, error, "pinning memory (ulimit -l may be too low)");
}

void prs_gpu_unpin(const struct prs_gpu_device *device, void *memory)
{
    void *before = NULL;
    if (prs_gpu_enter(device, &before) == PERSEUS_OK) {
        device->cuda->call.host_unregister(memory);
        prs_gpu_leave(device, before);
    }
}

int prs_gpu_copy_batch(const struct prs_gpu *cuda, uintptr_t *targets, uintptr_t *sources,
                       size_t *sizes, size_t count, void *stream)
{
    const struct prs_gpu_calls *call = &cuda->call;
    int error = PRS_CUDA_SUCCESS;
    if (count > 0 && call->copy_batch != NULL) {
        /* In stream order, because a source may be what an earlier copy brings. By the engines,
         * because within one GPU the driver would rather launch kernels, which then wait for the
         * program's, and those perhaps for the copy. */
        struct prs_gpu_copy_attributes attributes = {.source_order =
                                                         PRS_CUDA_SOURCE_IN_STREAM_ORDER,
                                                     .flags = PRS_CUDA_COPY_OVERLAPS_KERNELS};
        size_t first = 0;
        return call->copy_batch(targets, sources, sizes, count, &attributes, &first, 1, stream);
    }
    for (size_t i = 0; i < count && error == PRS_CUDA_SUCCESS; i++) {
        error = call->copy(targets[i], sources[i], sizes[i], stream);
    }
    return error;
}
