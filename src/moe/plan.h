/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.h: the arithmetic of a layer: who hosts what, where rows and signal words lie, how much
 * memory that takes. Pure; every product is checked for overflow.
 *
 * Layout. Dropless, and without a count exchange before the payload: a PE keeps, for every source
 * PE, room for the most rows that source can send it (tokens_max * min(top_k, hosted experts); less
 * with a capacity factor). A source packs its rows for one PE by expert, so the room is as small as
 * the worst case allows, and says in each signal how many rows an expert got and where they start.
 * The other way, exchanging counts first, would save memory that is only touched when routing is
 * that skewed, and cost a round trip before the first tile of every forward.
 *
 * The answer to a row goes to where the row was staged at its source, and an expert's output
 * overwrites its input: once the answer's signal has been seen, nobody reads the row again.
 *
 * Everything is there twice: forward n uses half n % 2. All of a half's signals of forward n have
 * been answered when a PE ends forward n, so forward n + 2 may use it again without a barrier.
 */
#ifndef PRS_MOE_PLAN_H
#define PRS_MOE_PLAN_H

#include <perseus/moe.h>

#include "base/log.h"

#define PRS_MOE_HALVES         2
#define PRS_MOE_TILE_DEFAULT   64
#define PRS_MOE_ALIGNMENT      64
#define PRS_MOE_TIMEOUT_MS     30000
#define PRS_MOE_PROCESSORS_MAX 256
#define PRS_MOE_WIDTH_MAX      (1u << 20) /* hidden and intermediate */
#define PRS_MOE_SHARED_MAX     64
#define PRS_MOE_PES_MAX        65536

/* A checked config with its defaults filled in, and what follows from it. */
struct prs_moe_plan {
    struct perseus_moe_config config;
    uint32_t n_pes;
    uint32_t hosted_max;       /* experts of the PE that hosts most */
    uint32_t rows_per_expert;  /* that one source may send to one expert */
    uint32_t rows_per_pair;    /* that one source may send to one PE */
    uint32_t rows_out;         /* that one source may send in all */
    uint32_t tiles_per_expert; /* of rows_per_expert; 1 or more */
    uint32_t token_tiles;      /* of tokens_max; 1 or more */
    uint64_t row_bytes;        /* of a row on the wire */
    /* Byte offsets of the two halves in the layer's symmetric block. */
    uint64_t arrivals[PRS_MOE_HALVES];       /* rows: [source PE][rows_per_pair] */
    uint64_t outgoing[PRS_MOE_HALVES];       /* rows: [rows_out] in the order of struct prs_rows */
    uint64_t dispatch_words[PRS_MOE_HALVES]; /* [source PE][tiles_per_expert][hosted_max] */
    uint64_t answer_words[PRS_MOE_HALVES];   /* [tiles_per_expert][experts] */
    uint64_t symmetric_bytes;
};

enum perseus_status prs_moe_plan_make(const struct perseus_moe_config *config, int n_pes,
                                      const struct prs_log *log, struct prs_moe_plan *out);

/* Expert ranges of PEs: the first experts % n_pes PEs host one more. */
uint32_t prs_moe_first_expert(const struct prs_moe_plan *plan, uint32_t pe);
uint32_t prs_moe_hosted(const struct prs_moe_plan *plan, uint32_t pe);
uint32_t prs_moe_host(const struct prs_moe_plan *plan, uint32_t expert);

/* Tiles of `rows` rows. */
static inline uint32_t prs_moe_tiles(const struct prs_moe_plan *plan, uint32_t rows)
{
    return (rows + plan->config.tile_tokens - 1) / plan->config.tile_tokens;
}
/* Rows of tile `tile` of `rows` rows. */
static inline uint32_t prs_moe_tile_rows(const struct prs_moe_plan *plan, uint32_t rows,
                                         uint32_t tile)
{
    uint32_t left = rows - tile * plan->config.tile_tokens;
    return left < plan->config.tile_tokens ? left : plan->config.tile_tokens;
}

/* Indices of signal words within their half. */
static inline size_t prs_moe_dispatch_word(const struct prs_moe_plan *plan, uint32_t source,
                                           uint32_t tile, uint32_t local_expert)
{
    return ((size_t)source * plan->tiles_per_expert + tile) * plan->hosted_max + local_expert;
}
static inline size_t prs_moe_answer_word(const struct prs_moe_plan *plan, uint32_t tile,
                                         uint32_t expert)
{
    return (size_t)tile * plan->config.experts + expert;
}

/* Bytes of one expert's matrices in weight_dtype. */
uint64_t prs_moe_expert_bytes(const struct perseus_moe_config *config);
uint32_t prs_moe_matrices(const struct perseus_moe_config *config); /* 3 or 2 */

#endif
