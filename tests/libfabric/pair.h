/* SPDX-License-Identifier: Apache-2.0 */
/* pair.h: two sides in this process that know each other. */
#ifndef PRS_TESTS_LIBFABRIC_PAIR_H
#define PRS_TESTS_LIBFABRIC_PAIR_H

#include "libfabric/side.h"

struct pair {
    struct side a, b;
    uint32_t done; /* completions that a has seen */
};

/* With the provider of the program's arguments. Memory is the caller's, `bytes` each. */
void pair_open(struct pair *pair, bool want_atomics, void *memory_a, void *memory_b, size_t bytes);
/* For sides that were opened in another way. */
void pair_meet(struct pair *pair);
void pair_close(struct pair *pair);

#endif
