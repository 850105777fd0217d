/* SPDX-License-Identifier: Apache-2.0 */
/* lane.cuh: one CTA's lane of a trace. Only the first thread that multiplies writes it; times are
 * kept in shared memory, as that thread has no registers to spare. */
#ifndef PRS_CUDA_MOE_LANE_CUH
#define PRS_CUDA_MOE_LANE_CUH

#include "cuda/moe/layer/lanes.h"
#include "cuda/moe/product.cuh"

/* In shared memory. */
struct prs_moe_lane {
    prs_gpu_moe_event *events;
    uint32_t *count;
    uint32_t events_max;
    uint64_t begin_ns;

    __device__ bool is_mine() const
    {
        return threadIdx.x == PRS_GPU_MOE_MATH_FIRST && events != nullptr;
    }
    /* By that thread; no other looks at it. */
    __device__ void open(const prs_gpu_moe_lanes &lanes)
    {
        if (threadIdx.x != PRS_GPU_MOE_MATH_FIRST) {
            return;
        }
        events = lanes.events;
        if (events != nullptr) {
            events += (uint64_t)blockIdx.x * lanes.events_max;
            count = lanes.counts + blockIdx.x;
            events_max = lanes.events_max;
            uint32_t processor;
            asm volatile("mov.u32 %0, %%smid;" : "=r"(processor));
            lanes.processors[blockIdx.x] = processor;
            begin_ns = prs_now_ns();
        }
    }
    __device__ void begin()
    {
        if (is_mine()) {
            begin_ns = prs_now_ns();
        }
    }
    /* A span ends, and the next begins. */
    __device__ void end(prs_gpu_moe_span span, uint32_t detail)
    {
        if (is_mine()) {
            const uint64_t now = prs_now_ns();
            const uint32_t at = (*count)++;
            if (at < events_max) {
                events[at] = {begin_ns, now, (uint32_t)span, detail};
            }
            begin_ns = now;
        }
    }
};

/* What the processors tell of their tasks. */
struct prs_moe_lane_tasks {
    prs_moe_lane &lane;

    __device__ void begin() const
    {
        lane.begin();
    }
    __device__ void end(prs_moe_task task) const
    {
        lane.end(task.is_second() ? PRS_GPU_MOE_SPAN_SECOND : PRS_GPU_MOE_SPAN_FIRST,
                 task.expert());
    }
};

#endif
