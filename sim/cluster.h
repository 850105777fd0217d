/* SPDX-License-Identifier: Apache-2.0 */
/* cluster.h: the PEs of one or more jobs on one network, connected. */
#ifndef SIM_CLUSTER_H
#define SIM_CLUSTER_H

#include "sim/pe.h"

struct sim_cluster {
    struct prs_timeline *timeline;
    struct prs_sim_net *net;
    struct sim_pe **pes;
    uint32_t n_pes, job_pes; /* jobs are runs of job_pes PEs that reach each other only */
    unsigned char *directory, *windows; /* of every job, one after the other */
    uint32_t channels;                  /* of a PE */
    struct sim_pe **further;            /* [n_pes][channels - 1] */
};

struct sim_cluster_config {
    const struct sim_platform *platform;
    uint32_t n_pes, job_pes; /* a multiple of job_pes */
    uint64_t seed;
    enum perseus_ordering ordering;
    bool stock;
    uint32_t piece_bytes;
    const struct prs_mode *mode;
    uint64_t words_bytes, heap_bytes;
    uint32_t ring_slots;
    uint32_t channels; /* of a PE's proxy; 0: one */
    void (*written)(void *context, uint64_t offset, uint64_t bytes);
    void (*completed)(void *context);
    void *(*context_of)(void *context, uint32_t pe); /* what these two of that PE get */
    void *context;
    bool meet; /* PEs of other nodes connect before the run begins */
    const struct prs_log *log;
};

/* *out is in use only when OK was returned. */
enum perseus_status sim_cluster_create(const struct sim_cluster_config *config,
                                       struct sim_cluster *out);
void sim_cluster_destroy(struct sim_cluster *cluster);

/* A PE's proxy channel; the first is the PE itself. `turn` goes round them. */
struct sim_pe *sim_cluster_channel(const struct sim_cluster *cluster, uint32_t pe, uint32_t turn);

/* Counters of all PEs together, over all channels. */
void sim_cluster_stats(const struct sim_cluster *cluster, struct perseus_stats *out);

#endif
