/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h: one forward's rows: the chosen (token, expert) pairs of one PE in the order of experts,
 * so that the rows of one expert, and of one PE, are contiguous. Pure. */
#ifndef PRS_MOE_ROWS_H
#define PRS_MOE_ROWS_H

#include "moe/plan.h"

#define PRS_ROWS_NONE UINT32_MAX

struct prs_rows {
    uint32_t tokens, count, dropped;
    uint32_t *first_row; /* [experts + 1]; expert e has rows [first_row[e], first_row[e + 1]) */
    uint32_t *row_token; /* [rows_out]: the token of a row; ascending within an expert */
    uint32_t *row_of;    /* [tokens_max * top_k]: the row of a choice, or PRS_ROWS_NONE */
    uint32_t *left;      /* [token_tiles]: rows of a tile of tokens, before any answer */
};

uint64_t prs_rows_bytes(const struct prs_moe_plan *plan);
enum perseus_status prs_rows_init(struct prs_rows *rows, const struct prs_moe_plan *plan,
                                  const struct prs_log *log);
void prs_rows_finish(struct prs_rows *rows); /* zeroed is allowed */

/* Ids are distinct experts of a token, or -1. INVALID_ARGUMENT names the token. */
enum perseus_status prs_rows_check(const struct prs_moe_plan *plan, uint32_t tokens,
                                   const int32_t *ids, const struct prs_log *log);
/* Sorts checked ids, dropping what is past an expert's capacity. */
void prs_rows_fill(struct prs_rows *rows, const struct prs_moe_plan *plan, uint32_t tokens,
                   const int32_t *ids);

static inline uint32_t prs_rows_of(const struct prs_rows *rows, uint32_t expert)
{
    return rows->first_row[expert + 1] - rows->first_row[expert];
}

#endif
