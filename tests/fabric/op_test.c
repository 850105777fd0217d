/* SPDX-License-Identifier: Apache-2.0 */
/* The short way of prs_op_is_plain against prs_op_check, at and around every edge: it never lets
 * through what the check refuses, and spares all that it is for. */
#include "fabric/op.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/rng.h"

#define ROUNDS  200000
#define ROOM    256u
#define MESSAGE 128u

static uint64_t pick(struct prs_rng *rng, const uint64_t *values, uint32_t n)
{
    return values[prs_rng_below(rng, n)];
}

static void test_short_way(void **state)
{
    (void)state;
    struct prs_fabric fabric = {.caps = {.lanes_max = 2, .message_bytes_max = MESSAGE}};
    struct prs_endpoint endpoint = {.fabric = &fabric};
    struct prs_region region = {.fabric = &fabric, .bytes = ROOM};
    struct prs_remote remote = {.endpoint = &endpoint, .peer = 3, .bytes = ROOM};
    const struct prs_log quiet = {0};
    const uint64_t offsets[] = {0, 1, 8, ROOM - 8, ROOM - 1, ROOM, ROOM + 1, UINT64_MAX - 7};
    const uint64_t sizes[] = {0, 1, 8, MESSAGE, MESSAGE + 1, ROOM, UINT64_MAX};
    const uint64_t flags[] = {0,
                              PRS_OP_MORE,
                              PRS_OP_UNTRACKED,
                              PRS_OP_MORE | PRS_OP_UNTRACKED,
                              PRS_OP_FENCE,
                              PRS_OP_INLINE,
                              PRS_OP_IMMEDIATE,
                              PRS_OP_EARLY};
    struct prs_rng rng = prs_rng_seeded(11);
    uint32_t spared = 0;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct prs_op op = {
            .kind = (uint8_t)prs_rng_below(&rng, PRS_OP_KIND_COUNT + 1),
            .flags = (uint8_t)pick(&rng, flags, 8),
            .lane = (uint8_t)prs_rng_below(&rng, 3),
            .peer = 3 - (prs_rng_below(&rng, 8) == 0),
            .local = prs_rng_below(&rng, 8) == 0 ? NULL : &region,
            .local_offset = pick(&rng, offsets, 8),
            .remote = prs_rng_below(&rng, 8) == 0 ? NULL : &remote,
            .remote_offset = pick(&rng, offsets, 8),
            .bytes = pick(&rng, sizes, 7),
        };
        bool is_right = prs_op_check(&endpoint, &op, &quiet) == PERSEUS_OK;
        bool is_spared = (op.kind == PRS_OP_PUT || op.kind == PRS_OP_SIGNAL_SET) &&
                         (op.flags & ~(PRS_OP_MORE | PRS_OP_UNTRACKED)) == 0;
        assert_int_equal(prs_op_is_plain(&fabric.caps, &op), is_right && is_spared);
        spared += is_right && is_spared;
    }
    assert_in_range(spared, ROUNDS / 200, ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_short_way)};
    return cmocka_run_group_tests_name("checks of an operation", tests, NULL, NULL);
}
