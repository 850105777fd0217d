/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.h: what a PE's threads did when, kept in memory and written in the Chrome trace format,
 * which Perfetto reads. Every lane is written by one thread at a time, without locks; a full lane
 * drops what comes later and says how much.
 */
#ifndef PRS_MOE_TRACE_H
#define PRS_MOE_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <perseus/status.h>

struct prs_trace;

enum perseus_status prs_trace_create(uint32_t lanes, uint32_t events_per_lane,
                                     struct prs_trace **out);
void prs_trace_destroy(struct prs_trace *trace); /* NULL allowed */
/* `name` is copied up to 31 bytes. */
void prs_trace_name_lane(struct prs_trace *trace, uint32_t lane, const char *name);

/* All `what` texts must outlive the trace. A NULL trace drops everything. */
void prs_trace_span(struct prs_trace *trace, uint32_t lane, const char *what, uint64_t begin_ns,
                    uint64_t end_ns, uint64_t detail);
void prs_trace_count(struct prs_trace *trace, uint32_t lane, const char *what, uint64_t at_ns,
                     uint64_t value);

/* Writes the events, separated by commas and led by one if *is_first is false, without the array's
 * brackets, so that several PEs' traces make one file. Times count from origin_ns. */
void prs_trace_write(const struct prs_trace *trace, FILE *file, int pe, uint64_t origin_ns,
                     bool *is_first);

#endif
