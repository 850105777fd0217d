/* SPDX-License-Identifier: Apache-2.0 */
/* place.c: all of the ordering of this fabric. Levels are carried out one after the other, and what
 * shares a level in any order; so an operation must come to lie above all that it is behind. */
#include "fabric/cudadma/cudadma.h"

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

uint64_t prs_cudadma_place(uint32_t order, struct prs_cudadma_order *state, const struct prs_op *op,
                           uint64_t next)
{
    bool is_put = op->kind == PRS_OP_PUT, is_set = op->kind == PRS_OP_SIGNAL_SET;
    if (op->flags & PRS_OP_FENCE) {
        state->floor = state->after_all; /* of all that is posted from now on, too */
    }
    uint64_t level = larger(next, state->floor);
    if ((is_put && order & PRS_ORDER_PUT_PUT) || (is_set && order & PRS_ORDER_PUT_SET)) {
        level = larger(level, state->after_put);
    }
    if ((is_put || is_set) && order & PRS_ORDER_SET_SET) {
        level = larger(level, state->after_set);
    }
    state->after_put = is_put ? larger(state->after_put, level + 1) : state->after_put;
    state->after_set = is_set ? larger(state->after_set, level + 1) : state->after_set;
    state->after_all = larger(state->after_all, level + 1);
    return level;
}
