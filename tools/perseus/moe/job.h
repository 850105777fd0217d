/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.h: what the parts of `perseus moe` share.
 *
 *   moe.c      options and the order of things
 *   memory.c   what a run takes, and whether that is there (--plan)
 *   inputs.c   routing, tokens, weights and the expected result, in memory that PEs inherit
 *   pe.c       what one PE does
 *   loop.c     the yardstick for expert time
 *   measure.c  starts PEs per ordering mode, in turns, and gathers their samples
 *   report.c   the table, the sentences, --json
 *   trace.c    --trace
 *
 * The ordering mode is fixed when a PE starts, so each turn is a job of PEs of its own. Within one,
 * the protocols take turns forward by forward on one layer.
 */
#ifndef PRS_TOOLS_MOE_JOB_H
#define PRS_TOOLS_MOE_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include <perseus/moe.h>

#include "bench/board.h"
#include "model/routing.h"
#include "moe/trace.h"
#include "kit/output.h"
#include "kit/progress.h"

struct prs_moe_setup {
    struct perseus_moe_config config; /* of the layer, but for protocol and communication_only */
    const char *model;                /* NULL: made of --hidden and so on */
    bool is_cut;                      /* the default run: less than the model's intermediate size */
    uint32_t nodes, pes_per_node;
    const char *routing; /* as given */
    struct prs_routing_spec spec;
    const char *weights; /* file; NULL: random */
    uint32_t weights_layer;
    uint64_t seed;
    uint32_t iterations; /* measured, in each turn */
    uint32_t repeat;     /* turns of each ordering mode */
    const char *fabric, *provider, *link;
    struct prs_output json, trace;
    enum perseus_ordering ordering; /* AUTO: the fabric's best */
    uint32_t timeout_ms;
    bool skips_verify, is_plan;
};

static inline uint32_t prs_moe_setup_pes(const struct prs_moe_setup *setup)
{
    return setup->nodes * setup->pes_per_node;
}

/* ---- variants ---- */

enum prs_moe_variant {
    PRS_MOE_VANILLA, /* coupled + drain: what the others are compared with */
    PRS_MOE_DECOUPLED_DRAIN,
    PRS_MOE_COUPLED_BEST,
    PRS_MOE_PERSEUS, /* decoupled + the best mode */
    PRS_MOE_COLLECTIVE,
    PRS_MOE_CEILING, /* put-only */
    PRS_MOE_VARIANT_COUNT
};
struct prs_moe_variant_info {
    enum perseus_moe_protocol protocol;
    bool is_best; /* under the fabric's best ordering mode, else drain */
};
const struct prs_moe_variant_info *prs_moe_variant_info(enum prs_moe_variant variant);
#define PRS_MOE_NAME_BYTES 40
/* "decoupled + fifo" */
void prs_moe_variant_name(enum prs_moe_variant variant, enum perseus_ordering best, char *out);

/* ---- what PEs inherit ---- */

struct prs_moe_inputs {
    uint32_t tokens; /* of each PE */
    struct prs_routing routing;
    float *gate;      /* [all tokens, top_k] */
    float *x;         /* [all tokens, hidden] */
    float *expected;  /* the same; NULL: not verified */
    uint32_t *counts; /* [PE, expert]: rows that get through */
    uint64_t dropped;
    void *block; /* weights of all experts */
    size_t x_bytes, block_bytes;
};
/* Routing and counts, which the plan needs. False after a message. */
bool prs_moe_inputs_route(struct prs_moe_inputs *inputs, const struct prs_moe_setup *setup);
/* The rest, which is large. *progress has a step for every expert made, and one for every expert
 * verified. */
bool prs_moe_inputs_fill(struct prs_moe_inputs *inputs, const struct prs_moe_setup *setup,
                         struct prs_progress *progress);
void prs_moe_inputs_finish(struct prs_moe_inputs *inputs); /* zeroed is allowed */

/* One PE, one iteration, one variant. Times are of the machine's one clock. */
struct prs_moe_sample {
    uint64_t start_ns, end_ns;           /* of a whole forward */
    uint64_t comm_start_ns, comm_end_ns; /* of one whose experts are the identity */
    struct perseus_moe_stats layer;      /* of the whole forward */
    uint64_t fences, drains, drain_ns;
    uint64_t loop_ns; /* the layer's expert time in a plain loop; 0: not taken in this iteration */
    double difference, expected; /* sums of squares, against the reference */
    uint32_t wrong_counts;
};

/* Shared by the driver and the PEs of one job; samples are read when their PE has ended. */
struct prs_moe_board {
    struct prs_bench_gate gate;
    struct prs_moe_sample *samples; /* behind this struct: [variant][iteration][PE] */
    uint64_t *peak_bytes;           /* [PE]: resident */
    _Atomic uint64_t *meetings;     /* [PE]: at the gate so far; to name one that does not come */
};
static inline struct prs_moe_sample *prs_moe_sample_at(const struct prs_moe_board *board,
                                                       const struct prs_moe_setup *setup,
                                                       enum prs_moe_variant variant,
                                                       uint32_t iteration, uint32_t pe)
{
    return &board->samples[((size_t)variant * setup->iterations + iteration) *
                               prs_moe_setup_pes(setup) +
                           pe];
}

/* One turn: PEs under one ordering mode. */
struct prs_moe_turn {
    const struct prs_moe_setup *setup;
    const struct prs_moe_inputs *inputs;
    struct prs_moe_board *board;
    enum perseus_ordering ordering;
    bool is_best;
    bool variants[PRS_MOE_VARIANT_COUNT];    /* that run in this turn */
    const char (*names)[PRS_MOE_NAME_BYTES]; /* of every variant */
    FILE **traces;                           /* [PE], or NULL */
    struct prs_progress *progress;           /* PE 0 steps it */
};
int prs_moe_pe_main(int rank, void *turn); /* struct prs_moe_turn; for prs_launch */

/* The products that a PE's layer made in its last forward with experts, in a plain loop. */
struct prs_moe_loop;
enum perseus_status prs_moe_loop_create(const struct prs_moe_inputs *inputs,
                                        struct perseus_moe *moe, struct prs_moe_loop **out);
void prs_moe_loop_destroy(struct prs_moe_loop *loop); /* NULL allowed */
/* CPU time of once through, mean over threads, as perseus_moe_stats.expert_cpu_ns is. */
enum perseus_status prs_moe_loop_run(struct prs_moe_loop *loop, uint64_t *out_ns);

/* ---- results ---- */

struct prs_moe_need;
struct prs_moe_result {
    bool is_run;
    uint32_t samples;
    /* Milliseconds, medians over iterations. total and comm: from the first PE's start to the last
     * one's end; the others: mean over PEs. */
    double total, comm, dispatch, expert, expert_wall, combine, exposed, stall;
    double fences, drains; /* per forward, over all PEs */
    double error;          /* the largest; NaN: not verified */
    bool is_right;         /* error and counts */
};
struct prs_moe_results {
    enum perseus_ordering best;
    char best_why[256];
    char fabric[32], provider[64];
    struct prs_moe_result variant[PRS_MOE_VARIANT_COUNT];
    double loop_ratio; /* expert time to that of a plain loop in the same iteration, median */
    double peak_bytes; /* resident, of the largest PE */
    double error_max;  /* allowed */
};
/* False after a message. */
bool prs_moe_measure(const struct prs_moe_setup *setup, const struct prs_moe_inputs *inputs,
                     struct prs_progress *progress, struct prs_moe_results *results);
/* False if something could not be written. */
bool prs_moe_print(const struct prs_moe_setup *setup, const struct prs_moe_inputs *inputs,
                   const struct prs_moe_need *need, const struct prs_moe_results *results);
bool prs_moe_write_json(const struct prs_moe_setup *setup, const struct prs_moe_inputs *inputs,
                        const struct prs_moe_need *need, const struct prs_moe_results *results);

/* ---- memory ---- */

struct prs_moe_need {
    struct perseus_moe_memory layer; /* of one PE */
    uint64_t token_bytes;            /* of one PE: tokens, output, expected result */
    uint64_t core_bytes;             /* of one PE: program, ring, proxy, fabric; about */
    uint64_t reserved_bytes;         /* of one PE, whatever the routing */
    uint64_t resident_bytes;         /* of the largest PE, with this routing */
    uint64_t all_bytes;              /* reserved, all PEs; weights that they share once */
    uint64_t available_bytes;        /* what the system says is free */
};
/* False after a message. */
bool prs_moe_need_find(const struct prs_moe_setup *setup, const struct prs_moe_inputs *inputs,
                       struct prs_moe_need *out);
bool prs_moe_need_print(const struct prs_moe_setup *setup, const struct prs_moe_need *need);
/* False after a message with the numbers. */
bool prs_moe_need_fits(const struct prs_moe_setup *setup, const struct prs_moe_need *need);

/* ---- trace ---- */

struct prs_moe_tracer; /* of one PE: its threads, and samples of its proxy's counters */
/* Lanes 0 to workers-1 are the layer's; the next one is for forwards. */
enum perseus_status prs_moe_tracer_start(struct perseus_pe *pe, uint32_t workers,
                                         struct prs_moe_tracer **out);
struct prs_trace *prs_moe_tracer_trace(struct prs_moe_tracer *tracer);
void prs_moe_tracer_forward(struct prs_moe_tracer *tracer, const char *what, uint64_t begin_ns,
                            uint64_t end_ns);
/* Ends it and writes what it has to `file` (NULL: nowhere). NULL allowed. */
void prs_moe_tracer_stop(struct prs_moe_tracer *tracer, FILE *file, int pe);
/* Joins the PEs' parts into one file. False after a message. */
bool prs_moe_trace_join(FILE *const *parts, uint32_t n, const struct prs_output *output);

#endif
