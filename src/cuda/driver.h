/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda/driver.h: NVIDIA's driver, found at run time. Nothing is linked and no CUDA header is
 * needed, so every build can use GPUs where there are some, and tests put a scripted driver in its
 * place (PERSEUS_CUDA_LIBRARY).
 */
#ifndef PRS_CUDA_DRIVER_H
#define PRS_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"

/* Values of the driver interface. */
enum prs_gpu_value {
    PRS_CUDA_SUCCESS = 0,
    PRS_CUDA_NOT_READY = 600,
    PRS_CUDA_PEER_ENABLED = 704,
    PRS_CUDA_HOST_REGISTERED = 712,

    PRS_CUDA_STREAM_NON_BLOCKING = 1,
    PRS_CUDA_EVENT_WITHOUT_TIMING = 2,
    PRS_CUDA_HOST_PORTABLE = 1,
    PRS_CUDA_HOST_MAPPED = 2,
    PRS_CUDA_POINTER_MEMORY_TYPE = 2,
    PRS_CUDA_MEMORY_DEVICE = 2,
    PRS_CUDA_SOURCE_IN_STREAM_ORDER = 1,
    PRS_CUDA_COPY_OVERLAPS_KERNELS = 1, /* a copy engine also where kernels could copy */

    PRS_CUDA_HANDLE_DMABUF = 1,

    PRS_CUDA_DEVICE_PROCESSORS = 16,
    PRS_CUDA_DEVICE_COPY_ENGINES = 40,
    PRS_CUDA_DEVICE_CAPABILITY_MAJOR = 75,
    PRS_CUDA_DEVICE_CAPABILITY_MINOR = 76
};

/* Attributes of the copies of a batch, as the driver lays them out. */
struct prs_gpu_copy_attributes {
    uint32_t source_order;
    uint32_t source_hint[2], target_hint[2];
    uint32_t flags;
};

struct prs_gpu_calls {
    int (*init)(unsigned flags);
    int (*device_count)(int *out);
    int (*device_get)(int *out, int ordinal);
    int (*device_name)(char *out, int bytes, int device);
    int (*device_attribute)(int *out, int attribute, int device);
    int (*device_can_access_peer)(int *out, int device, int peer);
    int (*context_retain)(void **out, int device);
    int (*context_release)(int device);
    int (*context_get)(void **out);
    int (*context_set)(void *context);
    int (*context_enable_peer)(void *peer, unsigned flags);
    int (*stream_create)(void **out, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*stream_synchronize)(void *stream);
    int (*event_create)(void **out, unsigned flags);
    int (*event_destroy)(void *event);
    int (*event_record)(void *event, void *stream);
    int (*event_query)(void *event);
    int (*copy)(uintptr_t target, uintptr_t source, size_t bytes, void *stream);
    /* May be NULL: the driver is too old for it. */
    int (*copy_batch)(uintptr_t *targets, uintptr_t *sources, size_t *sizes, size_t count,
                      struct prs_gpu_copy_attributes *attributes, size_t *first_of_attribute,
                      size_t n_attributes, void *stream);
    int (*fill)(uintptr_t target, unsigned char value, size_t bytes, void *stream);
    int (*memory_alloc)(uintptr_t *out, size_t bytes);
    int (*memory_free)(uintptr_t memory);
    int (*host_alloc)(void **out, size_t bytes, unsigned flags);
    int (*host_free)(void *memory);
    int (*host_register)(void *memory, size_t bytes, unsigned flags);
    int (*host_unregister)(void *memory);
    int (*pointer_attribute)(void *out, int attribute, uintptr_t pointer);
    /* May be NULL, as above. Pages from `first` on, as a descriptor in *out (an int). */
    int (*memory_handle)(void *out, uintptr_t first, size_t bytes, int type, uint64_t flags);
    int (*error_string)(int error, const char **out);
};

struct prs_gpu {
    struct prs_gpu_calls call;
    const struct prs_log *log;
    void *library;
    int devices;
};

/* NOT_FOUND, with a message, where there is no driver or no GPU. `log` outlives it. */
enum perseus_status prs_gpu_open(const struct prs_log *log, struct prs_gpu **out);
void prs_gpu_close(struct prs_gpu *cuda); /* NULL allowed */
/* OK for PRS_CUDA_SUCCESS; else an error with `what` failed and the driver's own words. */
enum perseus_status prs_gpu_check(const struct prs_gpu *cuda, int error, const char *what);

#endif
