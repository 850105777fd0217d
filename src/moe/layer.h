/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer.h: a layer's state, as its parts share it. Who does what:
 *
 *   moe.c        the public calls; life of a layer
 *   round.c      a forward: begin, end, its counters
 *   dispatch.c   stages and sends rows to experts        (task DISPATCH, run by processors)
 *   watch.c      turns arrived signals into tasks        (the subscriber's part)
 *   tile.c       runs experts on tiles, sends answers    (tasks TILE, EMPTY)
 *   combine.c    adds up answers                         (tasks SHARED, COMBINE, ADD)
 *   transfer.c   what one transfer is, in both ways
 *   groups.c     which signals share a fence
 *   protocol/    who signals when (protocol.h)
 *   roles.c      the threads
 *
 * A forward ends when its three phases have: everything sent, every row that came answered, every
 * answer added up. Forwards use the halves of the buffers in turn (plan.h says why that is safe).
 */
#ifndef PRS_MOE_LAYER_H
#define PRS_MOE_LAYER_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "core/pe.h"
#include "moe/expert.h"
#include "moe/plan.h"
#include "moe/groups.h"
#include "moe/protocol.h"
#include "moe/rows.h"
#include "moe/scheduler.h"
#include "moe/trace.h"
#include "moe/transfer.h"

/* The rows of one source for one hosted expert, in one forward. */
struct prs_pair {
    uint32_t rows, base, place; /* from the signal word */
    uint32_t tiles;             /* known to be coming; 0: no signal seen yet */
    uint32_t next_tile;         /* the first one not seen; watcher only */
    atomic_uint tiles_left;     /* not answered */
};

struct prs_round {
    uint32_t half, tag, tokens;
    uint64_t forward;
    atomic_bool is_active;
    const float *x, *weights;
    float *y;
    struct prs_rows rows;

    /* Arrivals: [source][hosted] pairs. */
    struct prs_pair *pairs;
    uint32_t pairs_unseen;  /* watcher only */
    atomic_uint pairs_left; /* not answered */
    /* Answers: the next tile of every expert. */
    uint32_t *answer_next;     /* watcher only */
    uint32_t answers_unseen;   /* experts; watcher only */
    atomic_uint *tile_left;    /* [token_tiles]: what a COMBINE waits for */
    pthread_mutex_t add_mutex; /* relaxed: y is added to by one at a time */

    atomic_uint dispatch_left;      /* DISPATCH tasks */
    atomic_uint left;               /* phases, and COMBINE and ADD tasks */
    atomic_bool open[PRS_MOE_WAYS]; /* whether the watcher may look at the signals of this way */

    uint64_t start_ns, end_ns, last_arrival_ns, last_answer_ns;
    _Atomic uint64_t first_answer_ns, expert_ns, expert_cpu_ns, rows_received;
};

/* One product with an expert's matrices, for tools that repeat it. */
struct prs_product {
    uint32_t expert; /* in perseus_moe.experts */
    uint32_t rows;
};

/* One thread's own things. */
struct prs_worker {
    struct perseus_moe *moe;
    uint32_t lane; /* of the trace */
    bool may_run, may_watch;
    struct prs_expert_bench bench;
    struct prs_product *products; /* NULL: not recorded */
    uint32_t n_products, products_max;
    pthread_t thread;
};

/* How forwards travel. */
struct prs_moe_mode {
    const struct prs_moe_protocol *protocol;
    const struct prs_groups *groups; /* NULL: the protocol has none */
    bool is_by_tile[PRS_MOE_WAYS];   /* a transfer is a tile, not all rows for an expert */
    bool are_answers_grouped;
    bool communication_only; /* experts are the identity */
};

struct perseus_moe {
    struct perseus_pe *pe;
    struct prs_moe_plan plan;
    uint32_t self, first, hosted; /* own experts: [first, first + hosted) */
    bool expand;                  /* bf16 weights are multiplied as f32 */
    struct prs_clock clock;
    unsigned char *block;       /* symmetric */
    struct prs_expert *experts; /* hosted, then shared */
    struct prs_moe_mode mode;
    struct prs_groups *groups; /* the layer's own; NULL: none */
    struct prs_round rounds[PRS_MOE_HALVES];
    struct prs_scheduler *scheduler;
    struct prs_worker *workers; /* processors, then the subscriber; or one, for the caller */
    uint32_t n_workers, n_threads;
    struct prs_trace *trace;  /* NULL: none */
    uint64_t started, waited; /* forwards; the caller's thread only */

    /* Of what is "watcher only": a new forward resets it. Who holds it looks and pushes tasks, but
     * sends nothing and waits for nothing: texts about what is awaited take it too. */
    pthread_mutex_t scan_mutex;
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t ended;
    struct perseus_moe_stats stats;
    _Atomic enum perseus_status status; /* the first failure */
    atomic_uint progress;               /* any step forward; what deadlines look at */
};

static inline const struct prs_log *prs_moe_log(const struct perseus_moe *moe)
{
    return prs_pe_log(moe->pe);
}

/* ---- addresses in the symmetric block ---- */

static inline void *prs_moe_arrival_row(const struct perseus_moe *moe, uint32_t half,
                                        uint32_t source, uint32_t row)
{
    const struct prs_moe_plan *plan = &moe->plan;
    return moe->block + plan->arrivals[half] +
           ((uint64_t)source * plan->rows_per_pair + row) * plan->row_bytes;
}

static inline void *prs_moe_outgoing_row(const struct perseus_moe *moe, uint32_t half, uint32_t row)
{
    return moe->block + moe->plan.outgoing[half] + row * moe->plan.row_bytes;
}

static inline uint64_t *prs_moe_dispatch_signal(const struct perseus_moe *moe, uint32_t half,
                                                uint32_t source, uint32_t tile, uint32_t hosted)
{
    return (uint64_t *)(void *)(moe->block + moe->plan.dispatch_words[half]) +
           prs_moe_dispatch_word(&moe->plan, source, tile, hosted);
}

static inline uint64_t *prs_moe_answer_signal(const struct perseus_moe *moe, uint32_t half,
                                              uint32_t tile, uint32_t expert)
{
    return (uint64_t *)(void *)(moe->block + moe->plan.answer_words[half]) +
           prs_moe_answer_word(&moe->plan, tile, expert);
}

static inline struct prs_pair *prs_moe_pair(const struct perseus_moe *moe,
                                            const struct prs_round *round, uint32_t source,
                                            uint32_t hosted)
{
    return &round->pairs[(size_t)source * moe->hosted + hosted];
}

/* ---- between the parts ---- */

/* Ends the layer with its first failure, which has been logged. Any thread. */
void prs_moe_break(struct perseus_moe *moe, enum perseus_status status);
static inline enum perseus_status prs_moe_status(const struct perseus_moe *moe)
{
    /* Relaxed: it tells nothing but itself. */
    return atomic_load_explicit(&((struct perseus_moe *)moe)->status, memory_order_relaxed);
}
static inline void prs_moe_note_progress(struct perseus_moe *moe)
{
    /* Relaxed: only whether it changes matters. */
    atomic_fetch_add_explicit(&moe->progress, 1, memory_order_relaxed);
}

/* One of the things that a forward still waits for is done. */
void prs_round_ended_one(struct perseus_moe *moe, struct prs_round *round);
void prs_round_begin(struct perseus_moe *moe, struct prs_round *round);
enum perseus_status prs_round_init(struct prs_round *round, const struct perseus_moe *moe,
                                   uint32_t half);
void prs_round_finish(struct prs_round *round); /* zeroed is allowed */
uint64_t prs_round_bytes(const struct prs_moe_plan *plan);
/* What the forwards in flight wait for, for people. */
#define PRS_ROUND_TEXT_BYTES 200
void prs_round_describe(struct perseus_moe *moe, char *out);

/* Tasks. Errors have been logged. */
enum perseus_status prs_moe_dispatch(struct prs_worker *worker, const struct prs_task *task);
enum perseus_status prs_moe_tile(struct prs_worker *worker, const struct prs_task *task);
enum perseus_status prs_moe_empty(struct prs_worker *worker, const struct prs_task *task);
enum perseus_status prs_moe_shared(struct prs_worker *worker, const struct prs_task *task);
enum perseus_status prs_moe_combine(struct prs_worker *worker, const struct prs_task *task);
enum perseus_status prs_moe_add(struct prs_worker *worker, const struct prs_task *task);

/* The calling thread's CPU time. */
static inline uint64_t prs_thread_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
/* Runs expert `index` of perseus_moe.experts, and counts its time for the forward. */
enum perseus_status prs_worker_multiply(struct prs_worker *worker, struct prs_round *round,
                                        uint32_t index, const struct prs_expert_rows *parts,
                                        uint32_t n_parts, enum perseus_moe_dtype type);

/* Polls every signal that is awaited, once. *out_found: whether anything was there. */
enum perseus_status prs_moe_scan(struct prs_worker *worker, bool *out_found);
/* All pairs have been answered. */
enum perseus_status prs_moe_answers_ended(struct perseus_moe *moe, struct prs_round *round);

static inline bool prs_moe_is_direct(const struct perseus_moe *moe, uint32_t pe)
{
    return !moe->mode.protocol->treats_all_alike && perseus_is_local(moe->pe, (int)pe);
}

/* ---- roles.c ---- */

enum perseus_status prs_roles_start(struct perseus_moe *moe);
void prs_roles_stop(struct perseus_moe *moe);
uint64_t prs_roles_bytes(const struct prs_moe_plan *plan);
/* Without threads: does what there is to do until `round` has ended. */
void prs_roles_drive(struct perseus_moe *moe, const struct prs_round *round);

/* For tools that compare: how the next forward travels, on all PEs alike, with none in flight. The
 * layer was created with experts, and any groups of *mode outlive its use. */
void prs_moe_set_mode(struct perseus_moe *moe, const struct prs_moe_mode *mode);
/* For tools: lets every worker record the products of the last forward that had experts, at most
 * `products_max` of them. Before the first forward. */
enum perseus_status prs_moe_record_products(struct perseus_moe *moe, uint32_t products_max);
/* For tools: records what threads do; before the first forward. The trace outlives the layer. */
void prs_moe_set_trace(struct perseus_moe *moe, struct prs_trace *trace);

#endif
