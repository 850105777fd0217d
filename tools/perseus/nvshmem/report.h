/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvshmem/report.h: what the NVSHMEM profiler recorded, and what it means.
 *
 * The model, stated in the report: the proxy thread does one thing at a time, so the time its calls
 * took is the time the job's remote traffic took. What moves while a fence is not waited for is
 * limited by the link: all bytes at the best rate seen, which is the slope of a put's time over its
 * size. So without waiting in fences (nic-fence, fifo, counted) the calls would take what they did
 * less the fences' time, or the bytes' time if that is more. With decoupled signaling one fence for
 * each destination between two quiets would do, at the mean cost that fences had. A put_signal of
 * interface 4.0 has its fence inside, so what it takes beyond a put and an atomic counts as one.
 * The rest of the run stays as long as it was.
 */
#ifndef PRS_TOOLS_NVSHMEM_REPORT_H
#define PRS_TOOLS_NVSHMEM_REPORT_H

#include <stdio.h>

#include "kit/output.h"
#include "profile/record.h"

struct prs_nvshmem_record {
    const struct prs_profile_head *head; /* mapped, read only */
    const struct prs_profile_peer *peers;
    const struct prs_profile_event *events;
};

struct prs_nvshmem_summary {
    struct prs_profile_count kinds[PRS_PROFILE_KINDS];
    double wall_us, busy_us;
    double fence_us, signal_us;        /* lost in fences, and in those inside put_signals */
    double open_at_fence;              /* mean */
    double moving_us;                  /* all put bytes at the best rate seen */
    double without_waiting, decoupled; /* expected speed-up of the run */
};

const char *prs_nvshmem_kind_name(enum prs_profile_kind kind);

/* Checks and maps a file. False, after a message on stderr, when it is no sound record. */
bool prs_nvshmem_record_open(const char *path, struct prs_nvshmem_record *out);
void prs_nvshmem_record_close(struct prs_nvshmem_record *record);

struct prs_nvshmem_summary prs_nvshmem_summarize(const struct prs_nvshmem_record *record);

void prs_nvshmem_print(const struct prs_nvshmem_record *records, int n, FILE *to);
/* False after a message on stderr. */
bool prs_nvshmem_write_json(const struct prs_nvshmem_record *records, int n,
                            const struct prs_output *output);
/* Chrome's trace format, which Perfetto reads. False after a message on stderr. */
bool prs_nvshmem_write_trace(const struct prs_nvshmem_record *records, int n,
                             const struct prs_output *output);

#endif
