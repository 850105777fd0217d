/* SPDX-License-Identifier: Apache-2.0 */
#include "moe/trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 32 };

enum kind { SPAN, COUNT };

struct event {
    enum kind kind;
    const char *what;
    uint64_t begin_ns, end_ns, detail;
};

struct lane {
    char name[NAME_BYTES];
    struct event *events;
    uint32_t count, dropped;
};

struct prs_trace {
    uint32_t n_lanes, events_per_lane;
    struct lane lanes[];
};

enum perseus_status prs_trace_create(uint32_t lanes, uint32_t events_per_lane,
                                     struct prs_trace **out)
{
    struct prs_trace *trace = calloc(1, sizeof *trace + lanes * sizeof *trace->lanes);
    if (trace == NULL) {
        return PERSEUS_OUT_OF_MEMORY;
    }
    trace->events_per_lane = events_per_lane;
    for (; trace->n_lanes < lanes; trace->n_lanes++) {
        struct lane *lane = &trace->lanes[trace->n_lanes];
        lane->events = malloc(events_per_lane * sizeof *lane->events);
        if (lane->events == NULL) {
            prs_trace_destroy(trace);
            return PERSEUS_OUT_OF_MEMORY;
        }
    }
    *out = trace;
    return PERSEUS_OK;
}

void prs_trace_destroy(struct prs_trace *trace)
{
    if (trace == NULL) {
        return;
    }
    for (uint32_t i = 0; i < trace->n_lanes; i++) {
        free(trace->lanes[i].events);
    }
    free(trace);
}

void prs_trace_name_lane(struct prs_trace *trace, uint32_t lane, const char *name)
{
    snprintf(trace->lanes[lane].name, sizeof trace->lanes[lane].name, "%s", name);
}

static void add(struct prs_trace *trace, uint32_t at, const struct event *event)
{
    if (trace == NULL || at >= trace->n_lanes) {
        return;
    }
    struct lane *lane = &trace->lanes[at];
    if (lane->count == trace->events_per_lane) {
        lane->dropped++;
        return;
    }
    lane->events[lane->count++] = *event;
}

void prs_trace_span(struct prs_trace *trace, uint32_t lane, const char *what, uint64_t begin_ns,
                    uint64_t end_ns, uint64_t detail)
{
    const struct event event = {SPAN, what, begin_ns, end_ns, detail};
    add(trace, lane, &event);
}

void prs_trace_count(struct prs_trace *trace, uint32_t lane, const char *what, uint64_t at_ns,
                     uint64_t value)
{
    const struct event event = {COUNT, what, at_ns, at_ns, value};
    add(trace, lane, &event);
}

static void separate(FILE *file, bool *is_first)
{
    fputs(*is_first ? "\n" : ",\n", file);
    *is_first = false;
}

/* Microseconds with nanoseconds behind the point, as the format wants them. */
static void write_time(FILE *file, const char *key, uint64_t ns)
{
    fprintf(file, ",\"%s\":%" PRIu64 ".%03" PRIu64, key, ns / 1000, ns % 1000);
}

static void write_event(const struct event *event, FILE *file, int pe, uint32_t lane,
                        uint64_t origin_ns)
{
    fprintf(file, "{\"name\":\"%s\",\"pid\":%d,\"tid\":%u", event->what, pe, lane);
    uint64_t begin_ns = event->begin_ns > origin_ns ? event->begin_ns - origin_ns : 0;
    write_time(file, "ts", begin_ns);
    if (event->kind == SPAN) {
        write_time(file, "dur", event->end_ns - event->begin_ns);
        fprintf(file, ",\"ph\":\"X\",\"args\":{\"detail\":%" PRIu64 "}}", event->detail);
    } else {
        fprintf(file, ",\"ph\":\"C\",\"args\":{\"value\":%" PRIu64 "}}", event->detail);
    }
}

void prs_trace_write(const struct prs_trace *trace, FILE *file, int pe, uint64_t origin_ns,
                     bool *is_first)
{
    separate(file, is_first);
    fprintf(file,
            "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"PE %d\"}}", pe,
            pe);
    for (uint32_t i = 0; i < trace->n_lanes; i++) {
        const struct lane *lane = &trace->lanes[i];
        separate(file, is_first);
        fprintf(file,
                "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%u,\"args\":{\"name\":"
                "\"%s\",\"dropped_events\":%u}}",
                pe, i, lane->name, lane->dropped);
        for (uint32_t at = 0; at < lane->count; at++) {
            separate(file, is_first);
            write_event(&lane->events[at], file, pe, i, origin_ns);
        }
    }
}
