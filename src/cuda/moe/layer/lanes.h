/* SPDX-License-Identifier: Apache-2.0 */
/* lanes.h: what each CTA did in a forward, for a trace; valid as C11 and CUDA. */
#ifndef PRS_CUDA_MOE_LANES_H
#define PRS_CUDA_MOE_LANES_H

#include <stdint.h>

/* One after the other in a CTA: what the threads that multiply do. */
enum prs_gpu_moe_span {
    PRS_GPU_MOE_SPAN_ROUTE,   /* counting, counts of the others, sorting */
    PRS_GPU_MOE_SPAN_SEND,    /* the first rows */
    PRS_GPU_MOE_SPAN_FIRST,   /* an output tile of the first product; detail: the expert */
    PRS_GPU_MOE_SPAN_SECOND,  /* and of the second */
    PRS_GPU_MOE_SPAN_COMBINE, /* adding answers up */
    PRS_GPU_MOE_SPANS
};

struct prs_gpu_moe_event {
    uint64_t begin_ns, end_ns; /* of the GPU's clock */
    uint32_t span, detail;
};

/* GPU memory, of `ctas` CTAs; a CTA goes on behind what it has, forward after forward. */
struct prs_gpu_moe_lanes {
    struct prs_gpu_moe_event *events; /* [ctas, events_max]; NULL: nothing is recorded */
    uint32_t *counts;                 /* [ctas]: events so far, those that found no room too */
    uint32_t *processors;             /* [ctas]: the multiprocessor it ran on */
    uint32_t events_max;
};

#ifdef __cplusplus
extern "C" {
#endif

struct perseus_moe_cuda;
/* From the next forward on; zeroed: no more. The arrays are the caller's and outlive that. */
void prs_gpu_moe_record(struct perseus_moe_cuda *moe, const struct prs_gpu_moe_lanes *lanes);

#ifdef __cplusplus
}
#endif

#endif
