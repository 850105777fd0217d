/* SPDX-License-Identifier: Apache-2.0 */
#include "moe/gpu_trace.h"

#include <stdlib.h>
#include <string.h>

#include "cuda/moe/layer/lanes.h"

enum { EVENTS = 4096, /* of a multiprocessor */ FORWARDS = 3 };

static const char *const spans[PRS_GPU_MOE_SPANS] = {
    [PRS_GPU_MOE_SPAN_ROUTE] = "route",     [PRS_GPU_MOE_SPAN_SEND] = "send",
    [PRS_GPU_MOE_SPAN_FIRST] = "gate, up",  [PRS_GPU_MOE_SPAN_SECOND] = "down",
    [PRS_GPU_MOE_SPAN_COMBINE] = "combine",
};

/* One PE's lanes, on the GPU and here. */
struct recording {
    struct prs_gpu_moe_lanes there, here;
};

static size_t bytes_of(const struct prs_moe_gpu_pes *pes)
{
    return pes->processors * (EVENTS * sizeof(struct prs_gpu_moe_event) + 2 * sizeof(uint32_t));
}

/* The three arrays in one piece. */
static void lay(struct prs_gpu_moe_lanes *lanes, void *memory, uint32_t ctas)
{
    lanes->events = memory;
    lanes->events_max = EVENTS;
    lanes->counts = (uint32_t *)(void *)(lanes->events + (size_t)ctas * EVENTS);
    lanes->processors = lanes->counts + ctas;
}

static bool begin(const struct prs_moe_gpu_pes *pes, struct prs_moe_gpu_pe *pe,
                  struct recording *recording)
{
    void *there = NULL, *here = calloc(1, bytes_of(pes));
    bool is_there = here != NULL && prs_moe_gpu_done(cudaSetDevice(pe->gpu), "choosing the GPU") &&
                    prs_moe_gpu_done(cudaMalloc(&there, bytes_of(pes)), "memory of a trace") &&
                    prs_moe_gpu_done(cudaMemset(there, 0, bytes_of(pes)), "memory of a trace");
    lay(&recording->there, there, pes->processors);
    lay(&recording->here, here, pes->processors);
    if (is_there) {
        prs_gpu_moe_record(pe->layer, &recording->there);
    }
    return is_there;
}

static void end(struct prs_moe_gpu_pe *pe, struct recording *recording)
{
    const struct prs_gpu_moe_lanes none = {0};
    prs_gpu_moe_record(pe->layer, &none);
    cudaFree(recording->there.events);
    free(recording->here.events);
}

/* Every lane's events, to a part of the file. */
static bool write_part(const struct prs_moe_gpu_pes *pes, const struct recording *recording, int pe,
                       uint64_t origin_ns, FILE *part)
{
    const struct prs_gpu_moe_lanes *lanes = &recording->here;
    struct prs_trace *trace = NULL;
    bool is_first = true;
    if (prs_trace_create(pes->processors, EVENTS, &trace) != PERSEUS_OK) {
        return false;
    }
    for (uint32_t lane = 0; lane < pes->processors; lane++) {
        char name[24];
        snprintf(name, sizeof name, "SM %u", lanes->processors[lane]);
        prs_trace_name_lane(trace, lane, name);
        for (uint32_t i = 0; i < lanes->counts[lane] && i < EVENTS; i++) {
            const struct prs_gpu_moe_event *event = &lanes->events[(size_t)lane * EVENTS + i];
            prs_trace_span(trace, lane, spans[event->span], event->begin_ns, event->end_ns,
                           event->detail);
        }
    }
    prs_trace_write(trace, part, pe, origin_ns, &is_first);
    prs_trace_destroy(trace);
    return fflush(part) == 0;
}

static uint64_t first_ns(const struct prs_moe_gpu_pes *pes, const struct recording *recordings)
{
    uint64_t first = UINT64_MAX;
    for (uint32_t pe = 0; pe < pes->n; pe++) {
        for (uint32_t lane = 0; lane < pes->processors; lane++) {
            const uint64_t ns = recordings[pe].here.events[(size_t)lane * EVENTS].begin_ns;
            first = ns != 0 && ns < first ? ns : first;
        }
    }
    return first;
}

static bool write_all(const struct prs_moe_gpu_pes *pes, const struct recording *recordings,
                      const struct prs_output *output)
{
    const uint64_t origin_ns = first_ns(pes, recordings);
    FILE *parts[PRS_MOE_GPU_PES_MAX] = {NULL};
    bool is_written = true;
    for (uint32_t pe = 0; pe < pes->n && is_written; pe++) {
        parts[pe] = tmpfile();
        is_written =
            parts[pe] != NULL && write_part(pes, &recordings[pe], (int)pe, origin_ns, parts[pe]);
    }
    is_written = is_written && prs_moe_trace_join(parts, pes->n, output);
    for (uint32_t pe = 0; pe < pes->n && parts[pe] != NULL; pe++) {
        fclose(parts[pe]);
    }
    return is_written;
}

bool prs_moe_gpu_trace(struct prs_moe_gpu_pes *pes, const struct prs_output *output)
{
    struct recording *recordings = calloc(pes->n, sizeof *recordings);
    bool is_well = recordings != NULL;
    uint32_t n = 0;
    while (n < pes->n && is_well) {
        is_well = begin(pes, &pes->pe[n], &recordings[n]);
        n++;
    }
    for (int forward = 0; forward < FORWARDS && is_well; forward++) {
        for (uint32_t pe = 0; pe < pes->n && is_well; pe++) {
            is_well = prs_moe_gpu_done(cudaSetDevice(pes->pe[pe].gpu), "choosing the GPU") &&
                      perseus_moe_cuda_forward(pes->pe[pe].layer, &pes->pe[pe].input,
                                               pes->pe[pe].stream) == PERSEUS_OK;
        }
    }
    is_well = is_well && prs_moe_gpu_wait(pes);
    for (uint32_t pe = 0; pe < pes->n && is_well; pe++) {
        is_well =
            prs_moe_gpu_done(cudaMemcpy(recordings[pe].here.events, recordings[pe].there.events,
                                        bytes_of(pes), cudaMemcpyDeviceToHost),
                             "copy of a trace");
    }
    is_well = is_well && write_all(pes, recordings, output);
    for (uint32_t pe = 0; pe < n; pe++) {
        end(&pes->pe[pe], &recordings[pe]);
    }
    free(recordings);
    return is_well;
}
