/* SPDX-License-Identifier: Apache-2.0 */
/* job.h: what the parts of `perseus sim` share: the options as read, and one function a part. */
#ifndef PRS_TOOLS_SIM_JOB_H
#define PRS_TOOLS_SIM_JOB_H

#include "dimension.h"
#include "kit/output.h"
#include "sim/lab.h"

struct prs_sim_job {
    const char *scenario;         /* preset or file */
    const char *settings;         /* "fabric.hop_ns=5,gpu.ctas=64", or NULL */
    struct sim_platform platform; /* that, with the settings */
    uint64_t seed;
    uint32_t rounds;    /* of a fit */
    uint32_t schedules; /* of a check */
    const char *fit_on;
    const char *calibrate;
    const char *figure, *plot;
    const char *dimensions[PRS_SIM_DIMENSIONS]; /* of a what-if, as given, or NULL */
    const char *sweep;
    struct prs_output json, csv, write;
    struct prs_log log;
};

/* Each returns an enum prs_exit. */
int prs_sim_calibrate(struct prs_sim_job *job);
int prs_sim_check(struct prs_sim_job *job);
int prs_sim_compare(struct prs_sim_job *job);
int prs_sim_fit(struct prs_sim_job *job);
int prs_sim_figure(struct prs_sim_job *job);
int prs_sim_whatif(struct prs_sim_job *job);

/* The three platforms of the paper; the job's own in the place of the preset it names. */
enum perseus_status prs_sim_job_lab(const struct prs_sim_job *job, struct sim_lab **out);

#endif
