/* SPDX-License-Identifier: Apache-2.0 */
#include "core/rounds.h"

#include <stdatomic.h>
#include <stdlib.h>

struct prs_rounds {
    uint32_t n;
    _Atomic uint64_t signaled;   /* rounds done; the one being led has this number */
    _Atomic uint32_t arrived[2]; /* by parity */
    uint64_t *begun;             /* by member: its rounds so far, touched by that member only */
    uint64_t *values[2];         /* by parity and member */
};

enum perseus_status prs_rounds_create(uint32_t n_members, struct prs_rounds **out)
{
    struct prs_rounds *rounds = calloc(1, sizeof *rounds);
    uint64_t *words = calloc(n_members, 3 * sizeof *words);
    if (rounds == NULL || words == NULL) {
        free(rounds);
        free(words);
        return PERSEUS_OUT_OF_MEMORY;
    }
    rounds->n = n_members;
    rounds->begun = words;
    rounds->values[0] = words + n_members;
    rounds->values[1] = rounds->values[0] + n_members;
    *out = rounds;
    return PERSEUS_OK;
}

void prs_rounds_destroy(struct prs_rounds *rounds)
{
    if (rounds != NULL) {
        free(rounds->begun);
        free(rounds);
    }
}

bool prs_rounds_may_enter(const struct prs_rounds *rounds, uint32_t member)
{
    /* Acquire: with prs_rounds_finish; the counter and the values of this parity are free again. */
    return rounds->begun[member] <=
           atomic_load_explicit(&rounds->signaled, memory_order_acquire) + 1;
}

bool prs_rounds_arrive(struct prs_rounds *rounds, uint32_t member, uint64_t value)
{
    uint64_t parity = rounds->begun[member]++ % 2;
    rounds->values[parity][member] = value;
    /* Release: this member's puts and value, to the leader.
     * Acquire: the leader's, of all others. */
    return atomic_fetch_add_explicit(&rounds->arrived[parity], 1, memory_order_acq_rel) + 1 ==
           rounds->n;
}

const uint64_t *prs_rounds_values(const struct prs_rounds *rounds)
{
    /* Relaxed: the leader of a round learned of the round before through its arrivals. */
    return rounds->values[atomic_load_explicit(&rounds->signaled, memory_order_relaxed) % 2];
}

void prs_rounds_finish(struct prs_rounds *rounds)
{
    uint64_t round = atomic_load_explicit(&rounds->signaled, memory_order_relaxed);
    atomic_store_explicit(&rounds->arrived[round % 2], 0, memory_order_relaxed);
    /* Release: with prs_rounds_may_enter. */
    atomic_store_explicit(&rounds->signaled, round + 1, memory_order_release);
}
