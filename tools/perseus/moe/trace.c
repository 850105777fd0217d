/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "job.h"

enum {
    EVENTS = 1 << 16, /* of a lane */
    SAMPLE_US = 50
};

struct prs_moe_tracer {
    struct perseus_pe *pe;
    struct prs_trace *trace;
    uint32_t workers; /* lanes: these, forwards, proxy, fabric */
    pthread_t sampler;
    bool is_sampling;
    atomic_bool is_over;
};

static uint64_t now_ns(void)
{
    struct prs_clock clock = prs_clock_monotonic();
    return prs_clock_now_ns(&clock);
}

/* The proxy and the fabric are seen through their counters: how long the proxy stood still since
 * the last look, and how many operations are on their way. */
static void *sample(void *context)
{
    struct prs_moe_tracer *tracer = context;
    struct perseus_stats before, now;
    uint32_t proxy = tracer->workers + 1, fabric = tracer->workers + 2;
    perseus_stats(tracer->pe, PERSEUS_ALL_PES, &before);
    /* Relaxed: it orders nothing; join does. */
    while (!atomic_load_explicit(&tracer->is_over, memory_order_relaxed)) {
        usleep(SAMPLE_US);
        perseus_stats(tracer->pe, PERSEUS_ALL_PES, &now);
        uint64_t at_ns = now_ns(), stood_ns = now.drain_ns - before.drain_ns;
        if (stood_ns > 0) {
            prs_trace_span(tracer->trace, proxy, "drained", at_ns - stood_ns, at_ns,
                           now.drains - before.drains);
        }
        if (now.in_flight != before.in_flight) {
            prs_trace_count(tracer->trace, fabric, "in flight", at_ns, now.in_flight);
        }
        if (now.fences != before.fences) {
            prs_trace_count(tracer->trace, fabric, "fences", at_ns, now.fences);
        }
        before = now;
    }
    return NULL;
}

enum perseus_status prs_moe_tracer_start(struct perseus_pe *pe, uint32_t workers,
                                         struct prs_moe_tracer **out)
{
    struct prs_moe_tracer *tracer = calloc(1, sizeof *tracer);
    if (tracer == NULL || prs_trace_create(workers + 3, EVENTS, &tracer->trace) != PERSEUS_OK) {
        free(tracer);
        return PERSEUS_OUT_OF_MEMORY;
    }
    tracer->pe = pe;
    tracer->workers = workers;
    for (uint32_t i = 0; i < workers; i++) {
        char name[24];
        snprintf(name, sizeof name, "worker %u", i);
        prs_trace_name_lane(tracer->trace, i, name);
    }
    prs_trace_name_lane(tracer->trace, workers, "forward");
    prs_trace_name_lane(tracer->trace, workers + 1, "proxy");
    prs_trace_name_lane(tracer->trace, workers + 2, "fabric");
    tracer->is_sampling = pthread_create(&tracer->sampler, NULL, sample, tracer) == 0;
    *out = tracer;
    return PERSEUS_OK;
}

struct prs_trace *prs_moe_tracer_trace(struct prs_moe_tracer *tracer)
{
    return tracer->trace;
}

void prs_moe_tracer_forward(struct prs_moe_tracer *tracer, const char *what, uint64_t begin_ns,
                            uint64_t end_ns)
{
    prs_trace_span(tracer->trace, tracer->workers, what, begin_ns, end_ns, 0);
}

void prs_moe_tracer_stop(struct prs_moe_tracer *tracer, FILE *file, int pe)
{
    if (tracer == NULL) {
        return;
    }
    atomic_store_explicit(&tracer->is_over, true, memory_order_relaxed);
    if (tracer->is_sampling) {
        pthread_join(tracer->sampler, NULL);
    }
    if (file != NULL) {
        bool is_first = true;
        prs_trace_write(tracer->trace, file, pe, 0, &is_first);
        fflush(file);
    }
    prs_trace_destroy(tracer->trace);
    free(tracer);
}

static bool copy(FILE *from, FILE *to)
{
    char bytes[16384];
    size_t n;
    rewind(from);
    while ((n = fread(bytes, 1, sizeof bytes, from)) > 0) {
        if (fwrite(bytes, 1, n, to) != n) {
            return false;
        }
    }
    return true;
}

bool prs_moe_trace_join(FILE *const *parts, uint32_t n, const struct prs_output *output)
{
    FILE *file = prs_output_open(output);
    if (file == NULL) {
        return false;
    }
    bool is_written = fputs("{\"traceEvents\":[", file) >= 0;
    for (uint32_t i = 0; i < n && is_written; i++) {
        is_written = (i == 0 || fputc(',', file) != EOF) && copy(parts[i], file);
    }
    is_written = is_written && fputs("\n],\"displayTimeUnit\":\"ns\"}\n", file) >= 0;
    return prs_output_close(output, file) && is_written;
}
