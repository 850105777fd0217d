/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/lane.h"

enum perseus_status prs_gpu_lane_open(struct prs_gpu_lane *lane,
                                      const struct prs_gpu_device *device, bool is_ordered)
{
    const struct prs_gpu_calls *call = &device->cuda->call;
    *lane = (struct prs_gpu_lane){.device = device, .is_ordered = is_ordered};
    int error = call->stream_create(&lane->stream, PRS_CUDA_STREAM_NON_BLOCKING);
    for (uint32_t i = 0; i < PRS_GPU_LANE_BATCHES && error == PRS_CUDA_SUCCESS; i++) {
        error = call->event_create(&lane->events[i], PRS_CUDA_EVENT_WITHOUT_TIMING);
    }
    return prs_gpu_check(device->cuda, error, "making a stream and its events");
}

void prs_gpu_lane_close(struct prs_gpu_lane *lane)
{
    if (lane->stream == NULL) {
        return;
    }
    const struct prs_gpu_calls *call = &lane->device->cuda->call;
    call->stream_synchronize(lane->stream);
    for (uint32_t i = 0; i < PRS_GPU_LANE_BATCHES && lane->events[i] != NULL; i++) {
        call->event_destroy(lane->events[i]);
    }
    call->stream_destroy(lane->stream);
}

void prs_gpu_lane_add(struct prs_gpu_lane *lane, void *target, const void *source, size_t bytes)
{
    lane->targets[lane->gathered] = (uintptr_t)target;
    lane->sources[lane->gathered] = (uintptr_t)source;
    lane->sizes[lane->gathered] = bytes;
    lane->gathered++;
}

static int copy(struct prs_gpu_lane *lane)
{
    int error = PRS_CUDA_SUCCESS;
    if (!lane->is_ordered) {
        return prs_gpu_copy_batch(lane->device->cuda, lane->targets, lane->sources, lane->sizes,
                                  lane->gathered, lane->stream);
    }
    for (size_t i = 0; i < lane->gathered && error == PRS_CUDA_SUCCESS; i++) {
        error = lane->device->cuda->call.copy(lane->targets[i], lane->sources[i], lane->sizes[i],
                                              lane->stream);
    }
    return error;
}

enum perseus_status prs_gpu_lane_submit(struct prs_gpu_lane *lane)
{
    if (lane->gathered == 0) {
        return PERSEUS_OK;
    }
    enum perseus_status status = prs_gpu_enter(lane->device, NULL);
    if (status != PERSEUS_OK) {
        return status;
    }
    int error = copy(lane);
    if (error == PRS_CUDA_SUCCESS) {
        error = lane->device->cuda->call.event_record(
            lane->events[lane->submitted % PRS_GPU_LANE_BATCHES], lane->stream);
    }
    lane->gathered = 0;
    lane->submitted++;
    return prs_gpu_check(lane->device->cuda, error, "submitting copies");
}

enum perseus_status prs_gpu_lane_advance(struct prs_gpu_lane *lane)
{
    if (lane->done == lane->submitted) {
        return PERSEUS_OK;
    }
    enum perseus_status status = prs_gpu_enter(lane->device, NULL);
    int error = PRS_CUDA_SUCCESS;
    while (status == PERSEUS_OK && lane->done < lane->submitted) {
        error =
            lane->device->cuda->call.event_query(lane->events[lane->done % PRS_GPU_LANE_BATCHES]);
        if (error != PRS_CUDA_SUCCESS) {
            break;
        }
        lane->done++;
    }
    return status == PERSEUS_OK && error != PRS_CUDA_NOT_READY
               ? prs_gpu_check(lane->device->cuda, error, "copying")
               : status;
}
