/* SPDX-License-Identifier: Apache-2.0 */
/* expert.h: an expert's feed-forward network on the rows of a tile. */
#ifndef PRS_MOE_EXPERT_H
#define PRS_MOE_EXPERT_H

#include "moe/math/gemm.h"
#include "moe/plan.h"

/* A hosted expert: the caller's matrices, or the layer's f32 copies of them. */
struct prs_expert {
    const void *gate, *up, *down;
    enum perseus_moe_dtype type;
    bool is_joined;  /* up lies right behind gate: one product makes both */
    float *expanded; /* owned: all matrices one behind the other, or NULL */
};

/* Takes the caller's matrices; where the CPU cannot multiply their type, copies them to f32. */
enum perseus_status prs_expert_init(struct prs_expert *expert,
                                    const struct perseus_moe_config *config,
                                    const struct perseus_moe_expert *weights, bool expand,
                                    const struct prs_log *log);
void prs_expert_finish(struct prs_expert *expert); /* zeroed is allowed */

/* Products are made for whole steps of rows. oneDNN compiles each number of rows apart, and with
 * every number in use the code falls out of the caches: tiles of a few rows then take a third
 * longer. A step costs no more than one row, as the weights have to be read anyway. */
#define PRS_EXPERT_STEP 16
static inline uint32_t prs_expert_steps(uint32_t rows)
{
    return (rows + PRS_EXPERT_STEP - 1) / PRS_EXPERT_STEP * PRS_EXPERT_STEP;
}

/* What one thread needs beside the rows: tables of [steps of tile_tokens] rows. Rows past a tile's
 * own hold what was there before, and their results are not used. */
struct prs_expert_bench {
    const struct perseus_moe_config *config;
    struct prs_gemm *gemm;
    void *rows_in;  /* [hidden], in the matrices' type */
    float *outer;   /* [intermediate], twice: what gate and up give */
    void *inner;    /* [intermediate], in the matrices' type */
    void *rows_out; /* [hidden], as the product gives it */
};

uint64_t prs_expert_bench_bytes(const struct prs_moe_plan *plan);
enum perseus_status prs_expert_bench_init(struct prs_expert_bench *bench,
                                          const struct prs_moe_plan *plan,
                                          const struct prs_log *log);
void prs_expert_bench_finish(struct prs_expert_bench *bench); /* zeroed is allowed */

/* Rows that lie together, and where their results go: both [count, hidden]; they may be the same
 * memory if the types are. */
struct prs_expert_rows {
    uint32_t count;
    const void *in;
    void *out;
};

/* out = expert(in) for all parts as one product. All rows together are at most
 * prs_expert_steps(tile_tokens). A row's result does not depend on its place, nor on the other
 * rows, as long as the number of steps is the same: to the bit. */
enum perseus_status prs_expert_run(struct prs_expert_bench *bench, const struct prs_expert *expert,
                                   const struct prs_expert_rows *parts, uint32_t n_parts,
                                   enum perseus_moe_dtype in_type, enum perseus_moe_dtype out_type);

#endif
