/* SPDX-License-Identifier: Apache-2.0 */
#include "base/limits.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>

#include "base/cgroup.h"

/* Hosts of more CPUs than this have their sets cut: they count as this many. */
enum { CPUS_MAX = 8192 };

struct cpu_mask {
    unsigned long words[CPUS_MAX / (8 * sizeof(unsigned long))];
};

static bool read_mask(struct cpu_mask *out)
{
    *out = (struct cpu_mask){{0}};
    return sched_getaffinity(0, sizeof *out, (cpu_set_t *)(void *)out) == 0;
}

bool prs_limits_allow(int cpu)
{
    struct cpu_mask mask;
    size_t bits = 8 * sizeof *mask.words;
    return cpu >= 0 && cpu < CPUS_MAX && read_mask(&mask) &&
           (mask.words[(size_t)cpu / bits] >> (size_t)cpu % bits & 1) != 0;
}

static void read_affinity(struct prs_limits *out)
{
    struct cpu_mask mask;
    out->cpus = 1;
    out->cpu_set = 0;
    if (!read_mask(&mask)) {
        return;
    }
    out->cpus = (uint32_t)CPU_COUNT_S(sizeof mask, (cpu_set_t *)(void *)&mask);
    const unsigned char *bytes = (const unsigned char *)&mask;
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < sizeof mask; i++) {
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    }
    out->cpu_set = hash;
}

/* CPUs' worth of time that the groups have in each period, rounded up. */
static void apply_quota(const char *root, struct prs_limits *out)
{
    struct prs_cgroup group;
    if (!prs_cgroup_find(root, "cpu", &group)) {
        return;
    }
    do {
        uint64_t quota[2] = {UINT64_MAX, 0}; /* and period */
        if (group.version == 2) {
            prs_cgroup_numbers(&group, "cpu.max", 2, quota);
        } else {
            prs_cgroup_numbers(&group, "cpu.cfs_quota_us", 1, &quota[0]);
            prs_cgroup_numbers(&group, "cpu.cfs_period_us", 1, &quota[1]);
        }
        if (quota[0] == UINT64_MAX || quota[1] == 0) {
            continue;
        }
        uint64_t cpus = quota[0] / quota[1] + (quota[0] % quota[1] != 0);
        if (cpus < out->cpus) {
            out->cpus = cpus > 0 ? (uint32_t)cpus : 1;
        }
    } while (prs_cgroup_up(&group));
}

/* Memory of the file cache that nobody uses is as good as free. */
static void apply_memory(const char *root, struct prs_limits *out)
{
    struct prs_cgroup group;
    if (!prs_cgroup_find(root, "memory", &group)) {
        return;
    }
    do {
        bool is_v2 = group.version == 2;
        uint64_t limit = UINT64_MAX, used = 0;
        prs_cgroup_numbers(&group, is_v2 ? "memory.max" : "memory.limit_in_bytes", 1, &limit);
        prs_cgroup_numbers(&group, is_v2 ? "memory.current" : "memory.usage_in_bytes", 1, &used);
        if (limit == UINT64_MAX) {
            continue;
        }
        uint64_t cache = prs_cgroup_field(&group, "memory.stat",
                                          is_v2 ? "inactive_file" : "total_inactive_file");
        uint64_t needed = used > cache ? used - cache : 0;
        uint64_t left = limit > needed ? limit - needed : 0;
        out->memory_bytes = left < out->memory_bytes ? left : out->memory_bytes;
    } while (prs_cgroup_up(&group));
}

static FILE *open_below(const char *root, const char *path)
{
    char name[PRS_CGROUP_PATH_BYTES];
    snprintf(name, sizeof name, "%s%s", root, path);
    return fopen(name, "re");
}

static void read_host_memory(const char *root, struct prs_limits *out)
{
    char line[256];
    uint64_t kib = 0;
    int mode = 0;
    out->memory_bytes = UINT64_MAX;
    FILE *file = open_below(root, "/proc/meminfo");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1) {
            out->memory_bytes = kib * 1024;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    file = open_below(root, "/proc/sys/vm/overcommit_memory");
    out->strict_memory = file != NULL && fscanf(file, "%d", &mode) == 1 && mode == 2;
    if (file != NULL) {
        fclose(file);
    }
}

void prs_limits_read(const char *root, struct prs_limits *out)
{
    read_affinity(out);
    apply_quota(root, out);
    read_host_memory(root, out);
    apply_memory(root, out);
}
