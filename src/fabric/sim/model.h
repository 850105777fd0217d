/* SPDX-License-Identifier: Apache-2.0 */
/* model.h: what an operation costs on the virtual fabric, and what that fabric grants. */
#ifndef PRS_FABRIC_SIM_MODEL_H
#define PRS_FABRIC_SIM_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PRS_SIM_LANES_MAX 16

/* Times in ns, rates in Gbit/s. A rate of 0 is infinite. */
struct prs_sim_model {
    /* CPU of whoever drives an endpoint (the proxy thread) */
    double step_ns;  /* one look at the completion queue, with the loop around it */
    double post_ns;  /* one posted operation */
    double put_ns;   /* more of it for a payload that is not inline: its region is looked up */
    double event_ns; /* one completion or immediate taken */
    double ask_ns;   /* of a stock library: asking for one PE, at a fence or quiet (sim/pe.h) */
    /* sending NIC */
    double doorbell_ns;  /* from the post until the NIC has read the descriptor */
    double message_ns;   /* the NIC's least time between two messages */
    double line_gbit_s;  /* of one NIC, each direction */
    double pcie_ns;      /* latency of reading a payload that is not inline */
    double pcie_gbit_s;  /* of reading payloads */
    double store_gbit_s; /* a payload is stored once on its way before it goes on: this costs a
                            message time, but not the line, on which the next one follows */
    double store_bytes;  /* so much of it, and what is longer is cut */
    double lanes;        /* connections to a peer, as an endpoint's queue pairs; 0: one. Order and
                              fence flags hold on each alone */
    double queues;       /* command queues of an endpoint: connection c, the lanes of one peer after
                              those of the other, is on queue c % queues; 0: a queue for each */
    double fence_ns;     /* the NIC's own time for a fence flag, besides the wait */
    double inflight;     /* operations of an endpoint before a post gets AGAIN */
    /* network and receiving NIC */
    double hops, hop_ns;
    double jitter_ns;          /* uniform, per message */
    double receive_message_ns; /* the receiver's least time between two messages: incast */
    double receive_gbit_s;
    /* way back */
    double ack_ns; /* from delivery until the sending NIC knows; what a fence flag waits for */
    double completion_ns; /* from there until software can see it; what a drain waits for too */
    double tail_ns;       /* more of the latter: tail_ns * destinations ^ tail_exponent */
    double tail_exponent;
    /* what is granted */
    bool ordered;          /* write-after-write on a connection */
    bool fence;            /* a fence flag: waits for its connection, and holds its queue */
    bool fence_queue;      /* it waits for all of its queue, whichever connection that is of */
    bool atomics;          /* native, not coherent with the CPU */
    double immediate_bits; /* 0, or 4 to 64 */
};

/* A field of a struct by name, for scenario files, fits and sweeps. */
struct prs_sim_field {
    const char *name;
    size_t offset;
    bool is_flag; /* a bool, else a double */
    double min, max;
    const char *help;
};

/* All of a model's fields; *out_count of them. */
const struct prs_sim_field *prs_sim_model_fields(size_t *out_count);
/* NULL when there is none of this name. */
const struct prs_sim_field *prs_sim_model_field(const char *name);

#endif
