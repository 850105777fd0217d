/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.h: what the parts of `perseus moe` share.
 *
 *   moe.c      options and the order of things
 *   memory.c   what a run takes, and whether that is there (--plan)
 *   inputs.c   routing, tokens, weights and the expected result, in memory that PEs inherit
 *   pe.c       what one PE does
 *   loop.c     the yardstick for expert time
 *   variants.c what is measured
 *   measure.c  starts PEs per ordering mode, in turns, and gathers their samples
 *   report.c   the tables
 *   verdict.c  the sentences below it
 *   json.c     --json
 *   trace.c    --trace
 *   gpu.c      --device cuda, in place of measure.c, pe.c and trace.c
 *
 * The ordering mode is fixed when a PE starts, so each turn is a job of PEs of its own. Within one,
 * the protocols take turns forward by forward on one layer. Sizes (--nodes, --tokens) take turns
 * too.
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

#define PRS_MOE_GROUPS_MAX   8                          /* sizes of signal groups in one run */
#define PRS_MOE_GROUP_ALL    (PERSEUS_MOE_GROUP_PE - 1) /* more than there can be: one group */
#define PRS_MOE_VARIANTS_MAX (4 * PRS_MOE_GROUPS_MAX + 7)
#define PRS_MOE_NAME_BYTES   48

/* What a variant is there for; the words at the end go by it (verdict.h). */
enum prs_moe_role {
    PRS_MOE_VANILLA, /* coupled + drain: what the others are compared with */
    PRS_MOE_GROUPED, /* decoupled + drain */
    PRS_MOE_ORDERED, /* coupled + the best mode */
    PRS_MOE_BOTH,    /* decoupled + the best mode */
    PRS_MOE_OTHER,   /* another program, or another way: collective, put-only */
    PRS_MOE_CEILING  /* transfers that nothing orders; without experts, and not verified */
};

/* A way to run a forward that the command measures. */
struct prs_moe_variant {
    char name[PRS_MOE_NAME_BYTES]; /* "decoupled + fifo" */
    enum prs_moe_role role;
    const struct prs_moe_protocol *protocol;
    enum perseus_moe_protocol number; /* that the protocol goes by in files */
    uint32_t group;                   /* index into the setup's group sizes */
    bool are_answers_grouped;
    bool is_best; /* under the fabric's best ordering mode, else drain */
};

/* One size of job and tokens. */
struct prs_moe_setup {
    /* Of the layer, but for protocol, group and communication_only. */
    struct perseus_moe_config config;
    const char *model;    /* whose shape it is; NULL: nobody's */
    bool is_cut;          /* the default run: less than the model's intermediate size */
    char shape_name[128]; /* for people */
    uint32_t nodes, pes_per_node;
    uint32_t groups[PRS_MOE_GROUPS_MAX], n_groups; /* group_experts, as struct perseus_moe_config */
    const char *routing;                           /* as given */
    struct prs_routing_spec spec;
    const char *weights; /* file; NULL: random */
    uint32_t weights_layer;
    uint64_t seed;
    uint32_t iterations; /* measured, in each turn */
    uint32_t repeat;     /* turns of each ordering mode */
    const char *fabric, *provider, *link, *qps;
    struct prs_output json, trace;
    enum perseus_ordering ordering; /* AUTO: the fabric's best */
    uint32_t timeout_ms;
    bool skips_verify, is_plan, has_details;
    bool is_gpu;   /* --device cuda */
    uint32_t gpus; /* that PEs are spread over */
};

static inline uint32_t prs_moe_setup_pes(const struct prs_moe_setup *setup)
{
    return setup->nodes * setup->pes_per_node;
}

/* ---- variants ---- */

/* Everything that a run with these group sizes measures, in the order of the table. */
uint32_t prs_moe_variants(const struct prs_moe_setup *setup, enum perseus_ordering best,
                          struct prs_moe_variant out[PRS_MOE_VARIANTS_MAX]);
/* "pe", "all", "4", or "" for the default size. */
void prs_moe_group_name(uint32_t group_experts, char out[16]);

/* ---- what PEs inherit ---- */

struct prs_moe_inputs {
    uint32_t tokens; /* of each PE */
    struct prs_routing routing;
    float *gate;      /* [all tokens, top_k] */
    float *x;         /* [all tokens, hidden] */
    float *expected;  /* the same; NULL: not verified */
    uint32_t *counts; /* [PE, expert]: rows that get through */
    uint64_t dropped;
    void *block;      /* weights of all experts */
    bool is_borrowed; /* the block is another one's */
    size_t x_bytes, block_bytes;
};
/* Routing and counts, which the plan needs. False after a message. */
bool prs_moe_inputs_route(struct prs_moe_inputs *inputs, const struct prs_moe_setup *setup);
/* The rest, which is large. The weights are those of `like`, if that is not NULL (the same shape;
 * it must live as long). *progress has a step for every expert made, and one for every expert
 * verified. */
bool prs_moe_inputs_fill(struct prs_moe_inputs *inputs, const struct prs_moe_setup *setup,
                         const struct prs_moe_inputs *like, struct prs_progress *progress);
void prs_moe_inputs_finish(struct prs_moe_inputs *inputs); /* zeroed is allowed */

/* What a PE did in one communication-only forward. */
struct prs_moe_spent {
    uint64_t messages, bytes;  /* operations to other nodes, and their payload */
    uint64_t cpu_ns;           /* of all its threads */
    uint64_t waits, preempted; /* times that a thread gave its core away, or lost it */
};

/* One PE, one iteration, one variant. Times are of the machine's one clock. */
struct prs_moe_sample {
    uint64_t start_ns, end_ns;           /* of a whole forward */
    uint64_t comm_start_ns, comm_end_ns; /* of one whose experts are the identity */
    struct prs_moe_spent comm;
    struct perseus_moe_stats layer; /* of the whole forward */
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
                                                       uint32_t variant, uint32_t iteration,
                                                       uint32_t pe)
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
    const struct prs_moe_variant *variants;
    uint32_t n_variants;
    bool plays[PRS_MOE_VARIANTS_MAX]; /* which of them run in this turn */
    FILE **traces;                    /* [PE], or NULL */
    struct prs_progress *progress;    /* PE 0 steps it */
};
int prs_moe_pe_main(int rank, void *turn); /* struct prs_moe_turn; for prs_launch */

/* The products that a PE's layer made in its last forward with experts, in a plain loop. */
struct prs_moe_loop;
enum perseus_status prs_moe_loop_create(const struct prs_moe_inputs *inputs,
                                        struct perseus_moe *moe, struct prs_moe_loop **out);
void prs_moe_loop_destroy(struct prs_moe_loop *loop); /* NULL allowed */
/* CPU time of once through, mean over threads, as perseus_moe_stats.expert_cpu_ns is. */
enum perseus_status prs_moe_loop_run(struct prs_moe_loop *loop, uint64_t *out_ns);

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

/* ---- results ---- */

struct prs_moe_result {
    bool is_run;
    uint32_t samples;
    /* Milliseconds, medians over iterations. total and comm: from the first PE's start to the last
     * one's end; the others: mean over PEs. A ceiling has comm and what it is made
     * of alone, the others are NaN. */
    double total, comm, dispatch, expert, expert_wall, combine, exposed, stall;
    double fences, drains; /* per forward, over all PEs */
    /* Of a communication-only forward, over all PEs; struct prs_moe_spent. cpu: milliseconds. */
    double messages, bytes, cpu, waits, preempted;
    double error;  /* the largest; NaN: not verified */
    bool is_right; /* error and counts */
};
struct prs_moe_results {
    enum perseus_ordering best;
    char best_why[256];
    char fabric[32], provider[64];
    uint32_t n_variants;
    struct prs_moe_variant variants[PRS_MOE_VARIANTS_MAX];
    struct prs_moe_result result[PRS_MOE_VARIANTS_MAX];
    double loop_ratio;   /* expert time to that of a plain loop in the same iteration, median */
    double peak_bytes;   /* resident, of the largest PE */
    double error_max;    /* allowed */
    bool is_right;       /* all of them */
    bool is_verified;    /* there is something to compare with */
    uint32_t processors; /* of a GPU, that a PE has */
};

/* NaN for a ceiling. */
double prs_moe_tokens_per_s(const struct prs_moe_setup *setup, const struct prs_moe_result *result);

/* A size, what PEs inherit there, what it takes, and what came out. */
struct prs_moe_point {
    struct prs_moe_setup setup;
    struct prs_moe_inputs inputs;
    struct prs_moe_need need;
    struct prs_moe_results results;
};
/* All points, turn by turn: every repetition plays every point. False after a message. */
bool prs_moe_measure(struct prs_moe_point *points, uint32_t n, struct prs_progress *progress);
/* False if something could not be written. */
bool prs_moe_print(const struct prs_moe_point *points, uint32_t n);
bool prs_moe_write_json(const struct prs_moe_point *points, uint32_t n);

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
