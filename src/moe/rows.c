/* SPDX-License-Identifier: Apache-2.0 */
#include "moe/rows.h"

#include <stdlib.h>
#include <string.h>

uint64_t prs_rows_bytes(const struct prs_moe_plan *plan)
{
    uint64_t choices = (uint64_t)plan->config.tokens_max * plan->config.top_k;
    return sizeof(uint32_t) *
           (plan->config.experts + 1 + plan->rows_out + choices + plan->token_tiles);
}

enum perseus_status prs_rows_init(struct prs_rows *rows, const struct prs_moe_plan *plan,
                                  const struct prs_log *log)
{
    uint32_t *block = malloc((size_t)prs_rows_bytes(plan));
    if (block == NULL) {
        return prs_fail(log, PERSEUS_OUT_OF_MEMORY, "moe: no memory for the tables of %u tokens",
                        plan->config.tokens_max);
    }
    *rows = (struct prs_rows){.first_row = block};
    rows->row_token = rows->first_row + plan->config.experts + 1;
    rows->row_of = rows->row_token + plan->rows_out;
    rows->left = rows->row_of + (size_t)plan->config.tokens_max * plan->config.top_k;
    return PERSEUS_OK;
}

void prs_rows_finish(struct prs_rows *rows)
{
    free(rows->first_row);
    *rows = (struct prs_rows){0};
}

enum perseus_status prs_rows_check(const struct prs_moe_plan *plan, uint32_t tokens,
                                   const int32_t *ids, const struct prs_log *log)
{
    uint32_t top_k = plan->config.top_k;
    for (uint32_t token = 0; token < tokens; token++) {
        const int32_t *chosen = ids + (size_t)token * top_k;
        for (uint32_t j = 0; j < top_k; j++) {
            bool good = chosen[j] >= -1 && chosen[j] < (int32_t)plan->config.experts;
            for (uint32_t i = 0; i < j; i++) {
                good = good && (chosen[i] != chosen[j] || chosen[j] == -1);
            }
            if (!good) {
                return prs_fail(
                    log, PERSEUS_INVALID_ARGUMENT,
                    "moe: token %u, choice %u is expert %d: expected -1 (not used) or an "
                    "expert from 0 to %u that the token does not have yet",
                    token, j, chosen[j], plan->config.experts - 1);
            }
        }
    }
    return PERSEUS_OK;
}

/* Counts kept rows of each expert to first_row[expert + 1], and marks choices as kept or not. */
static void count_rows(struct prs_rows *rows, const struct prs_moe_plan *plan, const int32_t *ids,
                       size_t choices)
{
    uint32_t *counts = rows->first_row + 1;
    memset(rows->first_row, 0, (plan->config.experts + 1) * sizeof *rows->first_row);
    rows->dropped = 0;
    for (size_t i = 0; i < choices; i++) {
        rows->row_of[i] = PRS_ROWS_NONE;
        if (ids[i] < 0) {
            continue;
        }
        if (counts[ids[i]] == plan->rows_per_expert) {
            rows->dropped++;
        } else {
            rows->row_of[i] = counts[ids[i]]++; /* within the expert, for now */
        }
    }
}

void prs_rows_fill(struct prs_rows *rows, const struct prs_moe_plan *plan, uint32_t tokens,
                   const int32_t *ids)
{
    uint32_t top_k = plan->config.top_k;
    size_t choices = (size_t)tokens * top_k;
    count_rows(rows, plan, ids, choices);
    for (uint32_t expert = 0; expert < plan->config.experts; expert++) {
        rows->first_row[expert + 1] += rows->first_row[expert];
    }
    memset(rows->left, 0, plan->token_tiles * sizeof *rows->left);
    for (size_t i = 0; i < choices; i++) {
        if (rows->row_of[i] != PRS_ROWS_NONE) {
            uint32_t token = (uint32_t)(i / top_k);
            rows->row_of[i] += rows->first_row[ids[i]];
            rows->row_token[rows->row_of[i]] = token;
            rows->left[token / plan->config.tile_tokens]++;
        }
    }
    rows->tokens = tokens;
    rows->count = rows->first_row[plan->config.experts];
}
