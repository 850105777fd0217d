/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/platform.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TIME_MAX_NS 1e9

/* The numeric fields of one group of a scenario file. */
struct group_field {
    const char *name;
    size_t offset; /* in the platform */
    double min, max;
    const char *help;
};

#define GPU(field, low, high, text)                                       \
    {                                                                     \
#field, offsetof(struct sim_platform, gpu.field), low, high, text \
    }

static const struct group_field gpu_fields[] = {
    GPU(tflop_s, 0.001, 1e5, "TFLOP/s that expert products reach"),
    GPU(memory_gbyte_s, 0.1, 1e6, "GB/s of reading weights and staging rows"),
    GPU(tile_rows, 1, 65536, "rows of a block; one that is not full costs as much"),
    GPU(tile_ns, 0, TIME_MAX_NS, "scheduling a block, besides computing it"),
    GPU(ctas, 1, 4096, "thread blocks that stage and submit at one time"),
    GPU(submit_ns, 0, TIME_MAX_NS, "between two submissions of one GPU"),
    GPU(lead_ns, 0, TIME_MAX_NS, "from a group's last arrival until its leader submits"),
    GPU(apart_ns, 0, TIME_MAX_NS, "how far apart nodes begin a forward"),
    GPU(start_ns, 0, TIME_MAX_NS, "before the first and after the last of a forward"),
    GPU(link_ns, 0, TIME_MAX_NS, "latency between GPUs of one node"),
    GPU(link_gbyte_s, 0.1, 1e6, "GB/s of one GPU to its node"),
};
enum { N_GPU_FIELDS = sizeof gpu_fields / sizeof gpu_fields[0] };

/* Whole numbers of the cluster group. */
struct cluster_field {
    const char *name;
    size_t offset;
    double min, max;
    const char *help;
};
static const struct cluster_field cluster_fields[] = {
    {"pes_per_node", offsetof(struct sim_platform, pes_per_node), 1, 1024, "PEs of one node"},
    {"batch", offsetof(struct sim_platform, batch), 1, 1024, "descriptors per step of the proxy"},
};
enum { N_CLUSTER_FIELDS = sizeof cluster_fields / sizeof cluster_fields[0] };

bool sim_platform_field(uint32_t index, struct sim_field *out)
{
    size_t n_fabric;
    const struct prs_sim_field *fabric = prs_sim_model_fields(&n_fabric);
    if (index < n_fabric) {
        *out = (struct sim_field){
            .min = fabric[index].min, .max = fabric[index].max, .help = fabric[index].help};
        snprintf(out->name, sizeof out->name, "fabric.%s", fabric[index].name);
        return true;
    }
    index -= (uint32_t)n_fabric;
    if (index < N_GPU_FIELDS) {
        *out = (struct sim_field){.min = gpu_fields[index].min,
                                  .max = gpu_fields[index].max,
                                  .help = gpu_fields[index].help};
        snprintf(out->name, sizeof out->name, "gpu.%s", gpu_fields[index].name);
        return true;
    }
    index -= N_GPU_FIELDS;
    if (index >= N_CLUSTER_FIELDS) {
        return false;
    }
    *out = (struct sim_field){.min = cluster_fields[index].min,
                              .max = cluster_fields[index].max,
                              .help = cluster_fields[index].help};
    snprintf(out->name, sizeof out->name, "cluster.%s", cluster_fields[index].name);
    return true;
}

/* Where a field lies, and what it is. */
struct place {
    void *at;
    enum { NUMBER, FLAG, COUNT } type;
    double min, max;
};

static bool find_field(struct sim_platform *platform, const char *name, struct place *out)
{
    unsigned char *base = (unsigned char *)platform;
    if (strncmp(name, "fabric.", 7) == 0) {
        const struct prs_sim_field *field = prs_sim_model_field(name + 7);
        if (field == NULL) {
            return false;
        }
        *out = (struct place){.at = (unsigned char *)&platform->fabric + field->offset,
                              .type = field->is_flag ? FLAG : NUMBER,
                              .min = field->min,
                              .max = field->max};
        return true;
    }
    for (size_t i = 0; i < N_GPU_FIELDS && strncmp(name, "gpu.", 4) == 0; i++) {
        if (strcmp(gpu_fields[i].name, name + 4) == 0) {
            *out = (struct place){.at = base + gpu_fields[i].offset,
                                  .type = NUMBER,
                                  .min = gpu_fields[i].min,
                                  .max = gpu_fields[i].max};
            return true;
        }
    }
    for (size_t i = 0; i < N_CLUSTER_FIELDS && strncmp(name, "cluster.", 8) == 0; i++) {
        if (strcmp(cluster_fields[i].name, name + 8) == 0) {
            *out = (struct place){.at = base + cluster_fields[i].offset,
                                  .type = COUNT,
                                  .min = cluster_fields[i].min,
                                  .max = cluster_fields[i].max};
            return true;
        }
    }
    return false;
}

enum perseus_status sim_platform_set(struct sim_platform *platform, const char *name, double value,
                                     const struct prs_log *log)
{
    struct place place;
    if (!find_field(platform, name, &place)) {
        return prs_fail(log, PERSEUS_NOT_FOUND,
                        "there is no field %s; perseus sim --fields lists them", name);
    }
    if (!(value >= place.min && value <= place.max) ||
        (place.type != NUMBER && value != floor(value))) {
        return prs_fail(log, PERSEUS_INVALID_ARGUMENT, "%s is %g, must be%s %g to %g", name, value,
                        place.type != NUMBER ? " a whole number" : "", place.min, place.max);
    }
    if (place.type == NUMBER) {
        *(double *)place.at = value;
    } else if (place.type == FLAG) {
        *(bool *)place.at = value != 0;
    } else {
        *(uint32_t *)place.at = (uint32_t)value;
    }
    return PERSEUS_OK;
}

enum perseus_status sim_platform_get(const struct sim_platform *platform, const char *name,
                                     double *out)
{
    struct place place;
    struct sim_platform copy = *platform;
    if (!find_field(&copy, name, &place)) {
        return PERSEUS_NOT_FOUND;
    }
    *out = place.type == NUMBER ? *(const double *)place.at
           : place.type == FLAG ? (double)*(const bool *)place.at
                                : (double)*(const uint32_t *)place.at;
    return PERSEUS_OK;
}
