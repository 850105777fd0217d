/* SPDX-License-Identifier: Apache-2.0 */
/* ordering_mutants.h: ordering modes with one deliberate defect each, every one of them a bug seen
 * in the field. */
#ifndef TESTS_MUTANT_ORDERING_MUTANTS_H
#define TESTS_MUTANT_ORDERING_MUTANTS_H

#include "order/engine.h"

struct mutant {
    const char *name;
    struct prs_mode mode;
    uint64_t unordered, ungranted;
    uint32_t lanes;       /* from which on it is wrong: with fewer it is right; 0: with any */
    uint32_t piece_bytes; /* not 0: it is wrong where a signal's one put goes in such pieces */
};

extern struct mutant ordering_mutants[];
extern const uint32_t ordering_mutants_count;

/* What a mode takes from the one it is a mutant of. Before first use. */
void ordering_mutants_fill(void);

#endif
