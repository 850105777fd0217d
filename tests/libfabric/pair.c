/* SPDX-License-Identifier: Apache-2.0 */
#include "libfabric/pair.h"

#include "libfabric/program.h"

void pair_open(struct pair *pair, bool want_atomics, void *memory_a, void *memory_b, size_t bytes)
{
    side_open(&pair->a, program_provider(), want_atomics, memory_a, bytes);
    side_open(&pair->b, program_provider(), want_atomics, memory_b, bytes);
    pair_meet(pair);
}

void pair_meet(struct pair *pair)
{
    struct side_card a, b;
    side_card(&pair->a, &a);
    side_card(&pair->b, &b);
    side_meet(&pair->a, &b);
    side_meet(&pair->b, &a);
    pair->done = 0;
}

void pair_close(struct pair *pair)
{
    side_close(&pair->b); /* may stand beside a, on its fabric */
    side_close(&pair->a);
}
