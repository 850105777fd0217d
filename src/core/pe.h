/* SPDX-License-Identifier: Apache-2.0 */
/* pe.h: one PE's context. What each member is made of is in the header of its own file. */
#ifndef PRS_CORE_PE_H
#define PRS_CORE_PE_H

#include "core/channel.h"
#include "core/job/job.h"
#include "core/job/peers.h"
#include "core/report.h"

struct perseus_pe {
    struct prs_report report;
    struct prs_clock clock;
    uint32_t timeout_ms;
    int rank, size;
    struct prs_job job;
    struct prs_heap *heap;
    struct prs_peers *peers;
    struct prs_buffers *buffers;
    struct prs_contact *contacts; /* of every PE, with a channel only */
    struct prs_channel *channel;  /* NULL: every peer is local */
    uint64_t message_bytes_max;   /* of one transfer through the channel */
    uint64_t barrier_epoch;       /* barriers completed */
};

/* As perseus_init_attr, with a bootstrap that is open already and owned from here on, also on
 * failure. Collective. */
enum perseus_status prs_pe_open(const struct perseus_attr *attr, struct prs_bootstrap *bootstrap,
                                struct perseus_pe **out);

static inline const struct prs_log *prs_pe_log(const struct perseus_pe *pe)
{
    return &pe->report.log;
}

#endif
