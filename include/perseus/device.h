/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perseus/device.h: PEs whose heap is a GPU's memory and whose producers are its kernels.
 *
 * A device PE has a symmetric heap in GPU memory, a ring that kernels write (perseus/device.cuh)
 * and a proxy thread. All device PEs of a job live in one process, one or several on each GPU; the
 * copy engines carry what goes between them (fabric cudadma). The program opens them all, tells
 * each of all the others, and hands their kernels what perseus_device_pe_get fills in:
 *
 *     perseus_device_open(&attr, &pe[i]);              each; attr.my_pe = i
 *     perseus_device_contact(pe[i], &contact[i]);      each
 *     perseus_device_start(pe[i], contact);            each
 *     perseus_device_pe_get(pe[i], &handle); kernel<<<...>>>(handle, ...);
 *     perseus_device_check(pe[i]);                     after the kernel: what went wrong in it
 *     perseus_device_close(pe[i]);                     each
 *
 * Threads: calls for different PEs may run at once, those for one PE not. Nothing prints. What a
 * call gives out belongs to the PE and lives as long. Sizes are bytes.
 */
#ifndef PERSEUS_DEVICE_H
#define PERSEUS_DEVICE_H

#include <perseus/gpu.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PERSEUS_DEVICE_CONTACT_BYTES 2048

struct perseus_device; /* a device PE, on the host */

/* Zero fields get the default. */
struct perseus_device_attr {
    int my_pe, n_pes;
    int gpu;              /* its number for CUDA */
    const char *provider; /* of cudadma: "batch" (default) or "stream" */
    enum perseus_ordering ordering;
    size_t heap_bytes;   /* the same on every PE; default 64 MiB */
    uint32_t ring_slots; /* a power of two from 64 on; default 4096 */
    uint32_t timeout_ms; /* of waits in kernels for room and answers, and of close; default 10000 */
    /* PEs [0,k) are node 0, and so on: those of one node write each other's heaps by stores, where
     * their GPUs can. 0: every PE is a node of its own. */
    int pes_per_node;
    perseus_log_fn log; /* NULL: none */
    void *log_user;
    enum perseus_log_level log_level;
};

struct perseus_device_contact {
    unsigned char bytes[PERSEUS_DEVICE_CONTACT_BYTES];
};

/* NOT_FOUND without a GPU of this number; on failure nothing is left behind. */
enum perseus_status perseus_device_open(const struct perseus_device_attr *attr,
                                        struct perseus_device **out);
enum perseus_status perseus_device_contact(struct perseus_device *device,
                                           struct perseus_device_contact *out);
/* `contacts` of all n_pes, by number; copied. The proxy runs from here on. */
enum perseus_status perseus_device_start(struct perseus_device *device,
                                         const struct perseus_device_contact *contacts);
/* No kernel may use the PE any more. NULL is allowed. */
void perseus_device_close(struct perseus_device *device);

/* The heap, in GPU memory, zeroed at first: the program divides it, on every PE the same way. */
void *perseus_device_heap(const struct perseus_device *device);
/* Makes GPU memory a source of puts; at most PERSEUS_DEVICE_BUFFERS_MAX - 1 of them, before
 * perseus_device_start. The memory is the caller's and outlives the PE. */
enum perseus_status perseus_device_buffer_register(struct perseus_device *device, void *base,
                                                   size_t bytes);
/* After start. For kernels, by value; valid until close. */
void perseus_device_pe_get(const struct perseus_device *device, struct perseus_device_pe *out);

/* As perseus_gpu_group_create. */
enum perseus_status perseus_device_group_create(struct perseus_device *device,
                                                const struct perseus_device_group_attr *attr,
                                                uint32_t *out_numbers,
                                                struct perseus_device_group **out);

/* OK, or what ended a wait in a kernel since the last call, which is logged with the word or slot,
 * the peer, the value found and the value awaited. */
enum perseus_status perseus_device_check(struct perseus_device *device);
/* Counters toward one PE, or all (PERSEUS_ALL_PES). */
void perseus_device_stats(const struct perseus_device *device, int target,
                          struct perseus_stats *out);
enum perseus_ordering perseus_device_ordering(const struct perseus_device *device,
                                              const char **out_why);

#ifdef __cplusplus
}
#endif
#endif
