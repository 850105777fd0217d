/* SPDX-License-Identifier: Apache-2.0 */
/* affinity.h: a CPU near a device, for a proxy that asks to run there. */
#ifndef PRS_CORE_JOB_AFFINITY_H
#define PRS_CORE_JOB_AFFINITY_H

#include <stdbool.h>

/* The index-th CPU (wrapping) of a kernel CPU list such as "0-3,8,10-11\n", among those that this
 * process may run on if `allowed_only`. False if the list has none or is malformed. */
bool prs_affinity_pick(const char *list, unsigned index, bool allowed_only, int *out_cpu);
/* An allowed one of NUMA node `node`, as the kernel lists it. */
bool prs_affinity_of_node(int node, unsigned index, int *out_cpu);

#endif
