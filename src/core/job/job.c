/* SPDX-License-Identifier: Apache-2.0 */
#include "core/job/job.h"

#include <stdlib.h>

void prs_job_init(struct prs_job *job, struct prs_bootstrap *bootstrap, const struct prs_log *log)
{
    *job = (struct prs_job){.bootstrap = bootstrap, .log = log};
    pthread_mutex_init(&job->mutex, NULL);
}

void prs_job_finish(struct prs_job *job)
{
    if (job->is_broken) {
        job->bootstrap->ops->abandon(job->bootstrap);
    } else {
        job->bootstrap->ops->close(job->bootstrap);
    }
    pthread_mutex_destroy(&job->mutex);
}

enum perseus_status prs_job_gather(struct prs_job *job, const void *send, void *recv, size_t bytes)
{
    pthread_mutex_lock(&job->mutex);
    enum perseus_status status = job->bootstrap->ops->allgather(job->bootstrap, send, recv, bytes);
    job->is_broken = job->is_broken || status != PERSEUS_OK;
    pthread_mutex_unlock(&job->mutex);
    return status;
}

/* A number of every PE, in an array the caller frees. */
static enum perseus_status gather_numbers(struct prs_job *job, int32_t own, int32_t **out)
{
    int32_t *all = calloc((size_t)job->bootstrap->size, sizeof *all);
    if (all == NULL) {
        job->is_broken = true; /* the others wait for this PE in vain */
        return prs_fail(job->log, PERSEUS_OUT_OF_MEMORY, "no memory for %d PEs",
                        job->bootstrap->size);
    }
    enum perseus_status status = prs_job_gather(job, &own, all, sizeof own);
    if (status != PERSEUS_OK) {
        free(all);
        return status;
    }
    *out = all;
    return PERSEUS_OK;
}

enum perseus_status prs_job_agree(struct prs_job *job, enum perseus_status own, const char *step)
{
    int32_t *all = NULL;
    enum perseus_status status = gather_numbers(job, (int32_t)own, &all);
    if (own != PERSEUS_OK || status != PERSEUS_OK) {
        free(all);
        return own != PERSEUS_OK ? own : status;
    }
    int pe = 0;
    while (pe < job->bootstrap->size && all[pe] == PERSEUS_OK) {
        pe++;
    }
    if (pe < job->bootstrap->size) {
        status = (enum perseus_status)all[pe];
        prs_fail(job->log, status, "PE %d could not %s (%s); its own message says why", pe, step,
                 perseus_status_string(status));
    }
    free(all);
    return status;
}

enum perseus_status prs_job_any(struct prs_job *job, bool own, bool *out_any)
{
    int32_t *all = NULL;
    enum perseus_status status = gather_numbers(job, own, &all);
    if (status != PERSEUS_OK) {
        return status;
    }
    *out_any = false;
    for (int pe = 0; pe < job->bootstrap->size; pe++) {
        *out_any = *out_any || all[pe] != 0;
    }
    free(all);
    return PERSEUS_OK;
}

enum perseus_status prs_job_health(struct prs_job *job, int *out_rank)
{
    if (pthread_mutex_trylock(&job->mutex) != 0) {
        return PERSEUS_OK;
    }
    enum perseus_status status = job->bootstrap->ops->health(job->bootstrap, out_rank);
    pthread_mutex_unlock(&job->mutex);
    return status;
}
