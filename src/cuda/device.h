/* SPDX-License-Identifier: Apache-2.0 */
/* cuda/device.h: one GPU, through its primary context, which the CUDA runtime shares. */
#ifndef PRS_CUDA_DEVICE_H
#define PRS_CUDA_DEVICE_H

#include "cuda/driver.h"

struct prs_gpu_device {
    struct prs_gpu *cuda;
    void *context;
    int ordinal;
};

/* NOT_FOUND when there is no GPU of this number. `cuda` outlives it. */
enum perseus_status prs_gpu_device_open(struct prs_gpu *cuda, int ordinal,
                                        struct prs_gpu_device *out);
void prs_gpu_device_close(struct prs_gpu_device *device); /* zeroed allowed */

/* Makes the GPU the calling thread's. *out_before, if not NULL, is for prs_gpu_leave: a call on a
 * program's own thread puts back what the program had. */
enum perseus_status prs_gpu_enter(const struct prs_gpu_device *device, void **out_before);
void prs_gpu_leave(const struct prs_gpu_device *device, void *before);

/* Zeroed memory of the GPU, and mapped, pinned host memory that every GPU reaches at its address;
 * the device must be entered. */
enum perseus_status prs_gpu_alloc(const struct prs_gpu_device *device, size_t bytes, void **out);
void prs_gpu_free(const struct prs_gpu_device *device, void *memory); /* NULL allowed */
enum perseus_status prs_gpu_host_alloc(const struct prs_gpu_device *device, size_t bytes,
                                       void **out);
void prs_gpu_host_free(const struct prs_gpu_device *device, void *memory); /* NULL allowed */

/* Pins memory of the program's, without which copies would not be asynchronous; enters the device.
 * *out_is_pinned: by this call, so prs_gpu_unpin it. Else it was already. */
enum perseus_status prs_gpu_pin(const struct prs_gpu_device *device, void *memory, size_t bytes,
                                bool *out_is_pinned);
void prs_gpu_unpin(const struct prs_gpu_device *device, void *memory);

/* Copies that the copy engines carry out in any order, behind what the stream has; the driver's
 * error. The device must be entered. */
int prs_gpu_copy_batch(const struct prs_gpu *cuda, uintptr_t *targets, uintptr_t *sources,
                       size_t *sizes, size_t count, void *stream);

#endif
