/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda/lane.h: copies on a stream of its own, gathered into numbered batches: a batch is done when
 * its copies and those of all batches before it are. Nothing here waits, but open and close. One
 * thread at a time uses a lane.
 */
#ifndef PRS_CUDA_LANE_H
#define PRS_CUDA_LANE_H

#include "cuda/device.h"

#define PRS_GPU_LANE_COPIES  256 /* of a batch */
#define PRS_GPU_LANE_BATCHES 4   /* submitted and not done */

struct prs_gpu_lane {
    const struct prs_gpu_device *device;
    void *stream;
    bool is_ordered; /* each copy is behind the one before it; else only batches are */
    void *events[PRS_GPU_LANE_BATCHES];
    uint64_t submitted, done; /* batches */
    size_t gathered;          /* copies */
    uintptr_t targets[PRS_GPU_LANE_COPIES], sources[PRS_GPU_LANE_COPIES];
    size_t sizes[PRS_GPU_LANE_COPIES];
};

/* The device must be entered for these two; close waits for the copies. Zeroed allowed. */
enum perseus_status prs_gpu_lane_open(struct prs_gpu_lane *lane,
                                      const struct prs_gpu_device *device, bool is_ordered);
void prs_gpu_lane_close(struct prs_gpu_lane *lane);

/* For one more copy; then it may also be submitted. */
static inline bool prs_gpu_lane_has_room(const struct prs_gpu_lane *lane)
{
    return lane->gathered < PRS_GPU_LANE_COPIES &&
           lane->submitted - lane->done < PRS_GPU_LANE_BATCHES;
}

/* The batch that is done when everything that was added so far is. */
static inline uint64_t prs_gpu_lane_newest(const struct prs_gpu_lane *lane)
{
    return lane->submitted + (lane->gathered > 0 ? 1 : 0);
}

/* There is room. Between any two addresses, but host memory is pinned. */
void prs_gpu_lane_add(struct prs_gpu_lane *lane, void *target, const void *source, size_t bytes);
/* What was added goes to the GPU; nothing if there is nothing. */
enum perseus_status prs_gpu_lane_submit(struct prs_gpu_lane *lane);
/* Moves lane->done. */
enum perseus_status prs_gpu_lane_advance(struct prs_gpu_lane *lane);

#endif
