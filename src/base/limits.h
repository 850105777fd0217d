/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limits.h: what this process may use of its host: the CPUs it is allowed (affinity, and with it
 * the cpuset of its container), the CPU time of its control groups, and the memory that is left to
 * them. The host may have much more, and counting that is how programs in containers spin in each
 * other's way or get killed.
 */
#ifndef PRS_BASE_LIMITS_H
#define PRS_BASE_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

struct prs_limits {
    uint32_t cpus;    /* that may run at once: allowed, and paid for by the quota (rounded up) */
    uint64_t cpu_set; /* a mark of the allowed ones: who shares them has the same */
    uint64_t memory_bytes; /* left, of the host and of every control group; UINT64_MAX: unknown */
    bool strict_memory;    /* the kernel promises only memory that it has: a page that nobody has
                              touched yet may turn out not to be there */
};

/* `root`: "", or a folder that stands for / (tests). Control groups of version 1, 2 and both are
 * read; what cannot be read is no limit. */
void prs_limits_read(const char *root, struct prs_limits *out);

/* Of the allowed CPUs? */
bool prs_limits_allow(int cpu);

#endif
