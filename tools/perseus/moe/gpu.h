/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.h: --device cuda, the layer's megakernel on GPUs of this process. PEs that share a GPU share
 * its multiprocessors; all reach each other by loads and stores, so protocols and ordering modes
 * are not measured here. What is: the megakernel, and the same forward phase after phase.
 */
#ifndef PRS_TOOLS_MOE_GPU_H
#define PRS_TOOLS_MOE_GPU_H

#include "moe/job.h"

/* What of the options is not for GPUs; NULL: nothing. */
const char *prs_moe_gpu_mistake(const struct prs_moe_setup *setup);
/* Of one GPU, on stdout, for --plan. False after a message. */
bool prs_moe_gpu_plan(const struct prs_moe_setup *setup);
/* Before all that takes long: whether there are as many GPUs. False after a message. */
bool prs_moe_gpu_find(const struct prs_moe_setup *setup);
/* As prs_moe_measure. */
bool prs_moe_gpu_measure(struct prs_moe_point *points, uint32_t n, struct prs_progress *progress);

#endif
