/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moe.h: one forward of a Mixture-of-Experts layer on a virtual cluster, as a megakernel does it.
 *
 * Every PE's thread blocks stage the rows of one expert after the other and hand them to the proxy:
 * with their signal (coupled), or without one, and a group's leader signals for all (decoupled).
 * Whoever sees a signal queues the expert's blocks of rows; the GPU computes one after the other
 * and answers each to its source. A forward ends when every answer is there. PEs of one node reach
 * each other over their link and never through the proxy.
 *
 * Who hosts what, where rows and words lie and how rows are sorted is the plan of src/moe.
 */
#ifndef SIM_MOE_H
#define SIM_MOE_H

#include "sim/platform.h"

enum sim_protocol { SIM_COUPLED, SIM_DECOUPLED };

struct sim_moe_config {
    const struct sim_platform *platform;
    uint32_t hidden, intermediate, experts, top_k;
    uint32_t nodes;
    uint32_t job_pes;           /* PEs of one expert-parallel group; 0: all of the cluster */
    uint32_t tokens;            /* of one PE */
    enum sim_protocol protocol; /* of the dispatch */
    bool answers_decoupled;     /* else every block of rows is a put with signal */
    bool vector;                /* decoupled: a group's signals to one PE go as one write */
    bool in_turn;               /* each PE begins its dispatch with another PE */
    bool bulk;                  /* decoupled, per PE: one put for all experts of a PE */
    uint32_t group_experts;     /* of a signal group; 0: those of one PE */
    uint32_t
        channels; /* of a PE's proxy; 0: one. Thread blocks take them in turns; a group's leader
                          first makes sure that the puts of the other channels are there */
    enum perseus_ordering ordering;
    bool stock;  /* the proxy of the library that the paper changes (pe.h) */
    double skew; /* exponent of a Zipf routing; 0: balanced, with capacity tokens * k / E */
    uint64_t seed;
    const struct prs_log *log;
};

/* Counters are of an average PE. */
struct sim_moe_result {
    double total_ms;    /* until the last PE has all its answers */
    double dispatch_ms; /* until the last block has arrived anywhere */
    double busy;        /* share of the time that GPUs computed */
    double fences, fence_flags, drains, drain_ms;
    double puts, signals, ring_full;
    double bytes_floor_ms, compute_floor_ms; /* what no ordering and no protocol can beat */
    uint64_t operations, events;             /* fabric operations, things that happened; of all */
    uint64_t checksum;                       /* over every arrival and its time */
};

enum perseus_status sim_moe_run(const struct sim_moe_config *config, struct sim_moe_result *out);

#endif
