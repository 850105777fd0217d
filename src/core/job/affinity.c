/* SPDX-License-Identifier: Apache-2.0 */
#include "core/job/affinity.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"

/* Reads "a" or "a-b" and a comma behind it; returns where the next range begins, NULL if malformed
 * or at the end. */
static const char *next_range(const char *text, long *out_first, long *out_last)
{
    if (*text < '0' || *text > '9') {
        return NULL;
    }
    char *end;
    *out_first = *out_last = strtol(text, &end, 10);
    if (*end == '-') {
        *out_last = strtol(end + 1, &end, 10);
    }
    if (*out_last < *out_first || *out_last > 65535) {
        return NULL;
    }
    return *end == ',' ? end + 1 : end;
}

/* Visits the CPUs of the list in order: the wanted-th, if there are so many, and how many. */
static long visit(const char *list, long wanted, bool allowed_only, int *out_cpu)
{
    long first, last, count = 0;
    for (const char *at = list; (at = next_range(at, &first, &last)) != NULL;) {
        for (long cpu = first; cpu <= last; cpu++) {
            if (allowed_only && !prs_limits_allow((int)cpu)) {
                continue;
            }
            if (count++ == wanted) {
                *out_cpu = (int)cpu;
            }
        }
    }
    return count;
}

bool prs_affinity_pick(const char *list, unsigned index, bool allowed_only, int *out_cpu)
{
    int cpu = -1;
    long count = visit(list, -1, allowed_only, &cpu);
    if (count == 0) {
        return false;
    }
    visit(list, (long)(index % (unsigned long)count), allowed_only, out_cpu);
    return true;
}

bool prs_affinity_of_node(int node, unsigned index, int *out_cpu)
{
    char path[64], list[1024];
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    bool found =
        fgets(list, sizeof list, file) != NULL && prs_affinity_pick(list, index, true, out_cpu);
    fclose(file);
    return found;
}
