/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.h: the bootstrap as the core uses it: collectives and health checks kept apart by a mutex,
 * and start-up steps that every PE passes or none.
 */
#ifndef PRS_CORE_JOB_JOB_H
#define PRS_CORE_JOB_JOB_H

#include <pthread.h>

#include "bootstrap/bootstrap.h"
#include "core/job/identity.h"

struct prs_job {
    struct prs_bootstrap *bootstrap; /* owned */
    const struct prs_log *log;
    pthread_mutex_t mutex; /* held during an allgather */
    bool is_broken;        /* a collective failed here: leave without goodbye */
    /* The same in every PE and in no other job, from the first meeting on: tells what comes from
     * the job's PEs from what anybody else sends to a fabric's port. */
    unsigned char secret[PRS_JOB_SECRET_BYTES];
};

void prs_job_init(struct prs_job *job, struct prs_bootstrap *bootstrap, const struct prs_log *log);
/* Leaves. Without goodbye, so that the others learn of it, if the job is broken here. */
void prs_job_finish(struct prs_job *job);

/* Collective: bytes of every PE, in rank order. */
enum perseus_status prs_job_gather(struct prs_job *job, const void *send, void *recv, size_t bytes);
/* Collective: OK only if every PE brings OK. Otherwise an own failure stays what it was, and others
 * get the status of the first PE that failed, logged with its number and `step`. */
enum perseus_status prs_job_agree(struct prs_job *job, enum perseus_status own, const char *step);
/* Collective: whether any PE says so. */
enum perseus_status prs_job_any(struct prs_job *job, bool own, bool *out_any);
/* Any thread, never blocks. Also OK while a collective runs: that one will notice. */
enum perseus_status prs_job_health(struct prs_job *job, int *out_rank);

#endif
