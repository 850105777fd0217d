/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup.h: the control groups of this process, as folders of files. A group is limited by its own
 * files and by those of every group above it; version 1 has a tree per controller, version 2 one.
 */
#ifndef PRS_BASE_CGROUP_H
#define PRS_BASE_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

#define PRS_CGROUP_PATH_BYTES 1024

struct prs_cgroup {
    int version;                         /* 1 or 2 */
    char folder[PRS_CGROUP_PATH_BYTES];  /* of the group, then of those above it */
    char topmost[PRS_CGROUP_PATH_BYTES]; /* as far up as this process sees */
};

/* The group of `controller` ("cpu", "memory") that this process is in, by its /proc files below
 * `root`. False: there is none that limits it. */
bool prs_cgroup_find(const char *root, const char *controller, struct prs_cgroup *out);
/* The group above. False: this was the topmost. */
bool prs_cgroup_up(struct prs_cgroup *group);

/* The first words of a file of the group, at most n of them, as numbers; "max" is UINT64_MAX, a
 * negative number too. What is not there stays as it was. */
void prs_cgroup_numbers(const struct prs_cgroup *group, const char *file, int n, uint64_t *out);
/* The number behind `key` in a file of "key number" lines; 0 if it is not there. */
uint64_t prs_cgroup_field(const struct prs_cgroup *group, const char *file, const char *key);

#endif
