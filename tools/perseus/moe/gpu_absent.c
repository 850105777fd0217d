/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_absent.c: in the place of gpu.c where there was no nvcc. */
#include "moe/gpu.h"

const char *prs_moe_gpu_mistake(const struct prs_moe_setup *setup)
{
    (void)setup;
    return "--device cuda is not in this program: it was built without nvcc";
}

bool prs_moe_gpu_plan(const struct prs_moe_setup *setup)
{
    (void)setup;
    return false;
}

bool prs_moe_gpu_find(const struct prs_moe_setup *setup)
{
    (void)setup;
    return false;
}

bool prs_moe_gpu_measure(struct prs_moe_point *points, uint32_t n, struct prs_progress *progress)
{
    (void)points, (void)n, (void)progress;
    return false;
}
