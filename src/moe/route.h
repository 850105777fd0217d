/* SPDX-License-Identifier: Apache-2.0 */
/* route.h: one forward's rows: the chosen (token, expert) pairs of one PE in the order of experts,
 * so that the rows of one expert, and of one PE, are contiguous. Pure. */
#ifndef PRS_MOE_ROUTE_H
#define PRS_MOE_ROUTE_H

#include "moe/plan.h"

#define PRS_ROUTE_NO_ROW UINT32_MAX

struct prs_route {
    uint32_t tokens, rows, dropped;
    uint32_t *first_row; /* [experts + 1]; expert e has rows [first_row[e], first_row[e + 1]) */
    uint32_t *row_token; /* [rows_out]: the token of a row; ascending within an expert */
    uint32_t *row_of;    /* [tokens_max * top_k]: the row of a choice, or PRS_ROUTE_NO_ROW */
    uint32_t *rows_left; /* [token_tiles]: rows of a tile of tokens, before any answer */
};

uint64_t prs_route_bytes(const struct prs_moe_plan *plan);
enum perseus_status prs_route_init(struct prs_route *route, const struct prs_moe_plan *plan,
                                   const struct prs_log *log);
void prs_route_finish(struct prs_route *route); /* zeroed is allowed */

/* Ids are distinct experts of a token, or -1. INVALID_ARGUMENT names the token. */
enum perseus_status prs_route_check(const struct prs_moe_plan *plan, uint32_t tokens,
                                    const int32_t *ids, const struct prs_log *log);
/* Sorts checked ids, dropping what is past an expert's capacity. */
void prs_route_fill(struct prs_route *route, const struct prs_moe_plan *plan, uint32_t tokens,
                    const int32_t *ids);

static inline uint32_t prs_route_rows(const struct prs_route *route, uint32_t expert)
{
    return route->first_row[expert + 1] - route->first_row[expert];
}

#endif
