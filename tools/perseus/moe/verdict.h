/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.h: what the numbers of one point say, in words. Each sentence is the first case of a
 * table that holds; every case has a test (tests/tools/moe_verdict_test.c). */
#ifndef PRS_TOOLS_MOE_VERDICT_H
#define PRS_TOOLS_MOE_VERDICT_H

#include <stdio.h>

#include "moe/job.h"

/* Reads variants (name, role, number) and results (is_run, comm, total, fences, drains, stall). */
void prs_moe_verdict(const struct prs_moe_results *results, FILE *to);

#endif
