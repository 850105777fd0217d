/* SPDX-License-Identifier: Apache-2.0 */
/* moe_run.h: the insides of one simulated forward, shared by moe.c, moe_dispatch.c,
 * moe_compute.c. */
#ifndef SIM_MOE_RUN_H
#define SIM_MOE_RUN_H

#include "moe/plan.h"
#include "sim/cluster.h"
#include "sim/moe.h"

#define SIM_RING_SLOTS 4096

/* The rows of one PE for one expert. */
struct sim_unit {
    uint32_t target, hosted; /* which expert of that PE */
    uint32_t rows, first_row;
    uint32_t group;
};

/* A group whose members have all arrived, or a source whose answers have all been put. */
struct sim_lead {
    uint64_t at_ns;
    uint32_t number;
    bool is_answer;
};

/* A block of rows on its way over the node's link, or waiting for the GPU. */
struct sim_block {
    uint64_t at_ns;
    uint32_t source, target; /* PEs of the job; the one that computes is the target */
    uint32_t hosted, tile, rows;
    bool is_answer;
};

/* A queue that grows, first in first out. */
struct sim_fifo {
    unsigned char *items;
    size_t item_bytes;
    uint32_t first, count, room;
};

struct sim_run;

struct sim_moe_pe {
    struct sim_run *run;
    struct sim_pe *pe;
    uint32_t self, job; /* rank in its job, first PE of it */
    struct sim_unit *units;
    uint32_t n_units, next_unit, wave_end;
    uint64_t staged_ns;
    uint32_t n_groups, *group_left, *group_first;
    uint32_t *answers_left; /* by source: blocks not yet put */
    struct sim_fifo leads, link, blocks, done;
    uint64_t link_free_ns;
    bool gpu_busy, lead_due, link_due;
    uint32_t answers_put;  /* so far: the turn of the channels */
    uint32_t *tickets;     /* of the other channels' quiets that a leader waits for */
    uint32_t tickets_left; /* of them */
    uint64_t busy_ns;
    uint32_t answers_expected, answers_seen;
};

struct sim_run {
    const struct sim_moe_config *config;
    struct prs_moe_plan plan;
    struct sim_cluster cluster;
    struct sim_moe_pe *pes;
    uint32_t n_pes, job_pes, node_pes;
    uint64_t answers_at, payload_at; /* byte offsets in the heap; dispatch words are at 0 */
    double block_ns;
    uint32_t finished; /* PEs */
    uint64_t end_ns, dispatched_ns;
    uint64_t checksum;
    enum perseus_status status; /* first failure of an event */
};

static inline uint64_t sim_run_now(const struct sim_run *run)
{
    return prs_timeline_now_ns(run->cluster.timeline);
}

static inline bool sim_run_is_local(const struct sim_run *run, uint32_t a, uint32_t b)
{
    return a / run->node_pes == b / run->node_pes;
}

/* The proxy channel of a thread block. */
static inline struct sim_pe *sim_run_channel(const struct sim_moe_pe *pe, uint32_t turn)
{
    return sim_cluster_channel(&pe->run->cluster, pe->job + pe->self, turn);
}

static inline struct sim_moe_pe *sim_run_pe(const struct sim_moe_pe *from, uint32_t rank)
{
    return &from->run->pes[from->job + rank];
}

/* moe.c */
void *sim_fifo_add(struct sim_run *run, struct sim_fifo *fifo); /* NULL: run->status is set */
void *sim_fifo_first(struct sim_fifo *fifo);                    /* NULL when empty */
void sim_fifo_drop(struct sim_fifo *fifo);
void sim_run_check(struct sim_run *run, enum perseus_status status);
void sim_run_note(struct sim_run *run, uint64_t what); /* into the checksum, with the time */

/* moe_dispatch.c */
enum perseus_status sim_dispatch_plan(struct sim_moe_pe *pe, const uint32_t *first_row);
void sim_dispatch_start(struct sim_moe_pe *pe);
void sim_lead_add(struct sim_moe_pe *pe, uint32_t number, bool is_answer);
/* A ticket of one of its channels is complete. */
void sim_lead_completed(void *context);
/* Over the link of the node, one after the other. */
void sim_link_send(struct sim_moe_pe *pe, const struct sim_block *block);

/* moe_compute.c */
void sim_compute_arrived(struct sim_moe_pe *pe, uint32_t source, uint32_t hosted, uint32_t rows);
void sim_compute_answered(struct sim_moe_pe *pe, uint32_t expert, uint32_t tile);
void sim_compute_signal_answers(struct sim_moe_pe *pe, uint32_t source);
void sim_compute_written(void *context, uint64_t offset, uint64_t bytes);

#endif
