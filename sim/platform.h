/* SPDX-License-Identifier: Apache-2.0 */
/*
 * platform.h: one kind of cluster: its fabric, its GPUs, and how its PEs submit. Read from a
 * scenario file; the presets are such files, built into the program.
 *
 * A scenario file (libconfig) has the groups `fabric`, `gpu` and `cluster`. Every field may be left
 * out; a name that is not a field is an error with its line. `based_on = "preset"` begins with
 * another's values.
 */
#ifndef SIM_PLATFORM_H
#define SIM_PLATFORM_H

#include <perseus/perseus.h>

#include "base/log.h"
#include "fabric/sim/model.h"

#define SIM_NAME_MAX 48

/* One GPU, as far as a Mixture-of-Experts layer needs it. */
struct sim_gpu {
    double tflop_s;        /* what expert products reach */
    double memory_gbyte_s; /* what reading weights and staging rows reaches */
    double tile_rows;      /* rows of a block; a block that is not full costs as much */
    double tile_ns;        /* scheduling a block, besides computing it */
    double ctas;           /* thread blocks that stage and submit at one time */
    double submit_ns;      /* between two submissions of one GPU */
    double lead_ns;        /* from a group's last arrival until its leader submits */
    double apart_ns;       /* how far apart nodes begin: uniform, per node */
    double start_ns;       /* before the first and after the last of a forward */
    double link_ns;        /* between GPUs of one node: latency, and rate of one GPU */
    double link_gbyte_s;
};

struct sim_platform {
    char name[SIM_NAME_MAX];
    struct prs_sim_model fabric;
    struct sim_gpu gpu;
    uint32_t pes_per_node;
    uint32_t batch;                /* descriptors per step of the proxy */
    enum perseus_ordering vanilla; /* what the stock transport does */
    enum perseus_ordering perseus; /* what the paper's transport does */
};

/* A field by its full name ("fabric.tail_ns", "gpu.tflop_s", "cluster.batch"). */
struct sim_field {
    char name[SIM_NAME_MAX];
    double min, max;
    const char *help;
};
/* The index-th of all numeric fields; false past the last. */
bool sim_platform_field(uint32_t index, struct sim_field *out);
/* NOT_FOUND, or INVALID_ARGUMENT out of its range, with a message. */
enum perseus_status sim_platform_set(struct sim_platform *platform, const char *name, double value,
                                     const struct prs_log *log);
enum perseus_status sim_platform_get(const struct sim_platform *platform, const char *name,
                                     double *out);

/* A preset's name, or else a file. Errors name file and line. */
enum perseus_status sim_platform_load(const char *preset_or_path, const struct prs_log *log,
                                      struct sim_platform *out);
/* The index-th preset's name and its first comment line, NULL past the last. */
const char *sim_preset_name(uint32_t index);
/* Its whole file. */
const char *sim_preset_text(const char *name);

#endif
