/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/every_mode.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>

#define PIECE_BYTES 16 /* where there are lanes, puts go in pieces over them */

static void run_mode(struct world_case *what, uint64_t first, uint64_t count)
{
    for (uint64_t run = 0; run < count * 6; run++) { /* styles, with and without room */
        char why[256];
        what->style = (enum program_style)(run % 3);
        what->small_pools = run / 3 % 2 != 0;
        uint64_t seed = first + run / 6;
        what->piece_bytes = seed % 2 == 1 ? PIECE_BYTES : 0;
        if (world_run(what, seed, why, sizeof why) != NULL) {
            fail_msg("%s, %s, style %d%s: %s; reproduce with PERSEUS_TEST_SEED=%llu",
                     what->provider, perseus_ordering_name(what->ordering), (int)what->style,
                     what->small_pools ? ", small pools" : "", why, (unsigned long long)seed);
        }
    }
}

void every_mode(const struct world_case *base, uint64_t seeds)
{
    const char *one = getenv("PERSEUS_TEST_SEED"), *many = getenv("PERSEUS_TEST_SEEDS");
    uint64_t first = one != NULL ? strtoull(one, NULL, 10) : 1;
    uint64_t count = one != NULL ? 1 : many != NULL ? strtoull(many, NULL, 10) : seeds;
    uint32_t modes = 0;
    for (int mode = PERSEUS_ORDERING_DRAIN; mode <= PERSEUS_ORDERING_COUNTED; mode++) {
        struct world_case what = *base;
        what.ordering = (enum perseus_ordering)mode;
        enum perseus_status status = world_supported(&what);
        print_message("%s %s: %s\n", what.provider, perseus_ordering_name(what.ordering),
                      status == PERSEUS_OK ? "kept" : perseus_status_string(status));
        if (status == PERSEUS_OK) {
            modes++;
            run_mode(&what, first, count);
        }
    }
    assert_true(modes >= 4);
}
