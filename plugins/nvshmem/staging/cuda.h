/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda.h: the little of the CUDA driver that staging needs, through the table init was handed or
 * the driver library that the process has loaded. Nothing is linked.
 *
 * A lane is a non-blocking stream whose copies are numbered: a ticket is done when that copy and
 * all before it are. One thread at a time uses a lane.
 */
#ifndef PRS_NVSHMEM_CUDA_H
#define PRS_NVSHMEM_CUDA_H

#include "host/abi.h"
#include "base/log.h"

#define PRS_CUDA_EVENTS 32

struct prs_cuda;

/* NULL in *out (with OK) on a machine without a GPU context: then every pointer is host memory. */
enum perseus_status prs_cuda_create(const struct prs_abi_cuda_table *table,
                                    const struct prs_log *log, struct prs_cuda **out);
void prs_cuda_destroy(struct prs_cuda *cuda); /* NULL allowed */

/* Makes init's context current in the calling thread, if none is. Without a GPU there is nothing to
 * do, here and for a lane that was not initialised. */
enum perseus_status prs_cuda_enter(struct prs_cuda *cuda);
bool prs_cuda_is_device(const struct prs_cuda *cuda, const void *pointer);
/* Whether the GPU's atomics on system memory exclude the CPUs': without, a kernel that polls a word
 * with atomics may keep it to itself. True without a GPU. */
bool prs_cuda_has_host_atomics(const struct prs_cuda *cuda);
/* A kernel of this process has failed, which ends all use of the GPU; told once. */
bool prs_cuda_is_faulted(const struct prs_cuda *cuda);
/* Says from now on when the driver keeps a copy waiting for longer (watch.h); once. */
enum perseus_status prs_cuda_watch(struct prs_cuda *cuda, uint64_t patience_ms);
/* Page-locks host memory so that copies are asynchronous. */
enum perseus_status prs_cuda_pin(struct prs_cuda *cuda, void *memory, size_t bytes);
void prs_cuda_unpin(struct prs_cuda *cuda, void *memory);

struct prs_cuda_lane {
    struct prs_cuda *cuda;
    void *stream;
    void *events[PRS_CUDA_EVENTS];
    uint64_t tickets[PRS_CUDA_EVENTS]; /* what each recorded event stands for */
    uint32_t first, count;             /* recorded events, oldest first */
    uint64_t issued, recorded, done;   /* tickets */
};

enum perseus_status prs_cuda_lane_init(struct prs_cuda_lane *lane, struct prs_cuda *cuda);
void prs_cuda_lane_finish(struct prs_cuda_lane *lane); /* waits for its copies; zeroed allowed */
/* Between any two addresses, host or device. The ticket is lane->issued. */
enum perseus_status prs_cuda_lane_copy(struct prs_cuda_lane *lane, void *target, const void *source,
                                       size_t bytes);
/* Moves lane->done; never waits. */
enum perseus_status prs_cuda_lane_advance(struct prs_cuda_lane *lane);
/* Waits until everything issued is done. */
enum perseus_status prs_cuda_lane_wait(struct prs_cuda_lane *lane);

#endif
