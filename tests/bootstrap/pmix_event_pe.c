/* SPDX-License-Identifier: Apache-2.0 */
/* A PE under mpirun that tells itself of a death. A real one cannot be seen here: Open MPI's mpirun
 * kills the job before it tells. */
#include <pmix.h>
#include <stdio.h>
#include <string.h>

#include "bootstrap/bootstrap.h"
#include "job.h"

static void notify(pmix_status_t what, const pmix_proc_t *self, const char *of_job, int of_rank)
{
    pmix_proc_t affected;
    pmix_info_t info;
    PMIX_LOAD_PROCID(&affected, of_job, (pmix_rank_t)of_rank);
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_EVENT_AFFECTED_PROC, &affected, PMIX_PROC);
    PMIx_Notify_event(what, self, PMIX_RANGE_PROC_LOCAL, &info, 1, NULL, NULL);
    PMIX_INFO_DESTRUCT(&info);
}

int main(void)
{
    struct prs_bootstrap *bootstrap;
    pmix_proc_t self;
    int lost = -2, waited_ms = 0;
    if (prs_bootstrap_open_pmix(JOB_PATIENT_MS, NULL, &bootstrap) != PERSEUS_OK ||
        PMIx_Init(&self, NULL, 0) != PMIX_SUCCESS) {
        puts("cannot open");
        return 1;
    }
    enum perseus_status before = job_gather(bootstrap, 0, 8);
    notify(PMIX_ERR_PROC_ABORTED_BY_SIG, &self, "another-job", 0);
    notify(PMIX_ERR_PROC_ABORTED_BY_SIG, &self, self.nspace, 1);
    notify(PMIX_ERR_PROC_TERM_WO_SYNC, &self, self.nspace, 0); /* in consequence */
    while (bootstrap->ops->health(bootstrap, &lost) == PERSEUS_OK && waited_ms < JOB_PATIENT_MS) {
        job_sleep_ms(1);
        waited_ms++;
    }
    enum perseus_status after = job_gather(bootstrap, 1, 8);
    PMIx_Finalize(NULL, 0);
    bootstrap->ops->close(bootstrap);
    bool is_right = before == PERSEUS_OK && lost == 1 && after == PERSEUS_PEER_LOST;
    printf("told of %d: %s (before %s, after %s)\n", lost, is_right ? "right" : "wrong",
           perseus_status_name(before), perseus_status_name(after));
    return is_right ? 0 : 1;
}
