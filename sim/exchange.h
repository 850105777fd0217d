/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange.h: the paper's micro-benchmark (section 3.3) on a virtual cluster: every PE sends
 * transfers of one size to the PEs of other nodes in turn, without signals, each with its own, or
 * in groups by target; and the all-to-all that it takes from Triton-distributed.
 */
#ifndef SIM_EXCHANGE_H
#define SIM_EXCHANGE_H

#include "sim/platform.h"

enum sim_exchange_kind {
    SIM_EXCHANGE_PUTS,      /* the ceiling: no signal */
    SIM_EXCHANGE_COUPLED,   /* every put with its signal */
    SIM_EXCHANGE_DECOUPLED, /* all puts, then for every target a fence and its signals */
    /* A thread block for every PE, all at one time: puts, then a fence by each of its threads, then
     * one signal. `transfers` are the threads of a block; blocks for PEs of the own node put
     * nothing on the fabric, but their threads fence, too. */
    SIM_EXCHANGE_ALLTOALL
};

struct sim_exchange_config {
    const struct sim_platform *platform;
    uint32_t nodes, transfers;
    uint32_t senders; /* PEs 0 to that; 0: all */
    uint64_t bytes;   /* of a transfer */
    enum sim_exchange_kind kind;
    enum perseus_ordering ordering;
    bool stock; /* the proxy of the library that the paper changes (pe.h) */
    uint64_t seed;
    const struct prs_log *log;
};

struct sim_exchange_result {
    double quiet_ms;   /* until quiet of the last PE has returned */
    double arrived_ms; /* until the last signal has been seen; 0 without signals */
    double fence_ms;   /* of which the proxy of an average PE stood still */
    double signal_ms;  /* CPU time of posting signals */
    uint64_t operations, events, checksum;
};

enum perseus_status sim_exchange_run(const struct sim_exchange_config *config,
                                     struct sim_exchange_result *out);

#endif
