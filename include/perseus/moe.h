/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moe.h: one Mixture-of-Experts layer, forward, spread over PEs by expert parallelism.
 *
 * Experts 0..E-1 are split over the PEs in order: with E = q * PEs + r the first r PEs host q + 1
 * experts, the others q. A forward sends every token to the PEs of its top_k experts, which run
 * their feed-forward network on it and send the result back, where it is added up with the gate
 * weights. Tokens travel in tiles (at most tile_tokens rows for one expert): a tile is computed and
 * answered when it is there, whatever the others do (paper, section 2.3).
 *
 * Threads: a layer has its own persistent threads (or none, see `processors`). create, destroy,
 * start, wait and forward of one layer are called by one thread at a time; stats by any. While a
 * forward is in flight in the collective protocol, no other thread of the PE may call a collective
 * operation of perseus.h.
 *
 * Errors: the first failing call of any of the layer's threads ends the layer; every later call
 * returns that status. The message has been logged through the PE's callback. Nothing waits longer
 * than timeout_ms without progress.
 */
#ifndef PERSEUS_MOE_H
#define PERSEUS_MOE_H

#include <perseus/perseus.h>

#ifdef __cplusplus
extern "C" {
#endif

struct perseus_moe;

enum perseus_moe_dtype { PERSEUS_MOE_F32, PERSEUS_MOE_BF16 };

enum perseus_moe_form {
    PERSEUS_MOE_SWIGLU,    /* down(silu(gate(x)) * up(x)): three matrices */
    PERSEUS_MOE_TWO_MATRIX /* down(gelu(up(x))): the paper's form */
};

/* Who signals when; docs/moe.md. The order between payload and signal is the PE's own choice
 * (struct perseus_attr, ordering). */
#define PERSEUS_MOE_PROTOCOL_MAP(X) \
    X(DECOUPLED, 0, "decoupled")    \
    X(COUPLED, 1, "coupled")        \
    X(COLLECTIVE, 2, "collective")  \
    X(PUT_ONLY, 3, "put-only")
enum perseus_moe_protocol {
#define PERSEUS_MOE_PROTOCOL_ENUM(name, value, text) PERSEUS_MOE_##name = value,
    PERSEUS_MOE_PROTOCOL_MAP(PERSEUS_MOE_PROTOCOL_ENUM)
#undef PERSEUS_MOE_PROTOCOL_ENUM
        PERSEUS_MOE_PROTOCOL_COUNT
};
const char *perseus_moe_protocol_name(enum perseus_moe_protocol protocol);

/* What one transfer between a PE and an expert is, and its signal stands for. */
enum perseus_moe_unit {
    PERSEUS_MOE_UNIT_DEFAULT, /* EXPERT on the way to experts, TILE on the way back */
    PERSEUS_MOE_UNIT_EXPERT,  /* all its rows */
    PERSEUS_MOE_UNIT_TILE     /* tile_tokens rows at the most */
};

/* struct perseus_moe_config, group_experts: those of one PE, however many (the paper's default). */
#define PERSEUS_MOE_GROUP_PE UINT32_MAX

#define PERSEUS_MOE_TOKENS_MAX  65536   /* tokens_max */
#define PERSEUS_MOE_ROWS_MAX    1048575 /* tokens_max * top_k */
#define PERSEUS_MOE_EXPERTS_MAX 65536
#define PERSEUS_MOE_TOP_K_MAX   64

/* The same on every PE. Fields that say so may be zero. */
struct perseus_moe_config {
    uint32_t hidden, intermediate, experts, top_k;
    uint32_t shared_experts; /* applied to every token with weight 1, held by every PE; 0: none */
    enum perseus_moe_form form;
    enum perseus_moe_dtype weight_dtype; /* of the matrices given to set_expert */
    enum perseus_moe_dtype wire_dtype;   /* of the rows that travel */
    uint32_t tokens_max;                 /* most tokens of one forward of one PE */
    uint32_t tile_tokens;                /* rows of a tile; 0: 64 */
    /* 0: dropless. Otherwise an expert takes from one PE at most
     * ceil(capacity_factor * tokens_max * top_k / experts) rows of a forward, the first in token
     * order; the others are dropped (they add nothing to y) and counted. */
    double capacity_factor;
    enum perseus_moe_protocol protocol;
    /* What is sent at a time. Larger units mean fewer messages, and experts (or sums) that begin
     * later. The paper's base sends one transfer per expert, and answers by blocks of rows: the
     * defaults. The collective protocol sends one per PE in any case. */
    enum perseus_moe_unit dispatch_unit, combine_unit;
    /* decoupled: remote experts of a signal group, which has one fence. 0: those of one PE, up to
     * 8; PERSEUS_MOE_GROUP_PE: those of one PE; as many as there are: one group */
    uint32_t group_experts;
    /* decoupled: answers are grouped too. The paper's algorithm groups dispatch alone; answers are
     * then coupled. */
    bool group_combine;
    bool vector_signals; /* decoupled: a group's signals to one PE go as one write */
    /* Threads that run tiles. 0: the layer has no threads, everything happens in the caller, inside
     * forward and wait. */
    uint32_t processors;
    /* 1: one thread watches for arrivals. 0: whoever of the processors has nothing to do. */
    uint32_t subscribers;
    /* Lets results depend on the order of arrival: waiting tiles of one expert are computed
     * together up to tile_tokens rows, and answers are added up as they come. Otherwise they go
     * together only as far as that changes no bit (16 rows), and y depends only on the input. */
    bool relaxed;
    bool communication_only; /* for measuring: experts are the identity, no weights are needed */
    uint32_t timeout_ms;     /* without any progress; 0: 30000 */
};

/* Bytes of one PE: the largest over all PEs. */
struct perseus_moe_memory {
    uint64_t arrival_bytes;   /* symmetric heap: rows for this PE's experts, both rounds */
    uint64_t outgoing_bytes;  /* symmetric heap: this PE's rows, staged and answered, both rounds */
    uint64_t signal_bytes;    /* symmetric heap */
    uint64_t symmetric_bytes; /* all that create takes from the symmetric heap */
    uint64_t weight_bytes;   /* matrices of the hosted and shared experts, which the caller holds */
    uint64_t expanded_bytes; /* copies that the layer makes where the CPU cannot multiply bf16 */
    uint64_t local_bytes;    /* the layer's tables and scratch */
    uint64_t rows_per_pair_max; /* rows that one PE may send to another in one forward */
};

/* Pure: what a layer of this shape takes on each of n_pes PEs. INVALID_ARGUMENT or LIMIT (overflow,
 * a maximum above passed), with a message through log (may be NULL). */
enum perseus_status perseus_moe_plan(const struct perseus_moe_config *config, int n_pes,
                                     perseus_log_fn log, void *log_user,
                                     struct perseus_moe_memory *out);

/* Collective; the same config on every PE (checked: INVALID_ARGUMENT on all if they differ). Takes
 * symmetric_bytes of the heap. `pe` must outlive the layer. */
enum perseus_status perseus_moe_create(struct perseus_pe *pe,
                                       const struct perseus_moe_config *config,
                                       struct perseus_moe **out);
/* Collective. Ends the threads, gives the memory back. NULL is allowed. Forwards in flight must
 * have been waited for. A layer that has failed is only freed here; its status is returned. */
enum perseus_status perseus_moe_destroy(struct perseus_moe *moe);
/* Not collective: gives up at once, for error paths; perseus_abort of the PE follows, as its heap
 * is not given back. NULL is allowed. */
void perseus_moe_abort(struct perseus_moe *moe);

/* The experts that `target` hosts: [*out_first, *out_first + *out_count). */
void perseus_moe_expert_range(const struct perseus_moe *moe, int target, uint32_t *out_first,
                              uint32_t *out_count);

/* Matrices of weight_dtype, row-major, one row per output, as checkpoints hold them. Borrowed: they
 * must stay unchanged until the layer is destroyed. With up right behind gate in memory, one
 * product makes both, which is faster. */
struct perseus_moe_expert {
    const void *gate; /* [intermediate, hidden]; unused in the two-matrix form */
    const void *up;   /* [intermediate, hidden] */
    const void *down; /* [hidden, intermediate] */
};
/* `expert` is a global number that this PE hosts, or experts + i for shared expert i. Before the
 * first forward, or between forwards. */
enum perseus_status perseus_moe_set_expert(struct perseus_moe *moe, uint32_t expert,
                                           const struct perseus_moe_expert *weights);

/* One forward. Every PE calls it equally often, each with its own tokens (0 to tokens_max):
 *   x       [tokens, hidden]  float, row-major
 *   ids     [tokens, top_k]   chosen experts, distinct within a token; -1: choice not used
 *   weights [tokens, top_k]   what each chosen expert's output is multiplied with
 *   y       [tokens, hidden]  float, row-major; written; must not overlap x
 * INVALID_ARGUMENT, with nothing sent, for tokens, ids or pointers that are wrong. */
enum perseus_status perseus_moe_forward(struct perseus_moe *moe, uint32_t tokens, const float *x,
                                        const int32_t *ids, const float *weights, float *y);
/* The same in two halves: start returns as soon as the forward is under way (it copies nothing: all
 * arrays stay the layer's until wait has returned). At most two may be in flight (one in the
 * collective protocol): AGAIN asks to wait first. wait waits for the oldest. Without threads
 * (processors 0) all work happens in wait. */
enum perseus_status perseus_moe_start(struct perseus_moe *moe, uint32_t tokens, const float *x,
                                      const int32_t *ids, const float *weights, float *y);
enum perseus_status perseus_moe_wait(struct perseus_moe *moe);

struct perseus_moe_stats {
    uint64_t forwards;      /* that wait has returned from, since create */
    uint64_t rows_sent;     /* sums over those forwards: rows to experts, own ones included */
    uint64_t rows_received; /* rows of tokens that came to this PE's experts */
    uint64_t rows_dropped;  /* by capacity_factor */
    /* The last forward alone, on this PE. Phases overlap, so they do not add up to total_ns. */
    uint64_t dispatch_ns;   /* from start until the last row for this PE's experts was here */
    uint64_t expert_ns;     /* time of processors in experts, divided by their number */
    uint64_t expert_cpu_ns; /* the same in CPU time: without what others took of the cores */
    uint64_t combine_ns;    /* from this PE's first answer until the last answer to it was here */
    uint64_t total_ns;      /* from start until y was complete and this PE had answered everybody */
    uint64_t exposed_ns;    /* total_ns - expert_ns: time not covered by expert work */
};
enum perseus_status perseus_moe_stats(const struct perseus_moe *moe, struct perseus_moe_stats *out);

#ifdef __cplusplus
}
#endif
#endif
