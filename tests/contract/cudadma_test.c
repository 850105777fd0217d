/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same contract on the copy engines: every mode that they grant, every style of program, with
 * the adversary in between. In PERSEUS_CUDA_LIBRARY the scripted driver, or the real one.
 * PERSEUS_TEST_SEEDS and PERSEUS_TEST_SEED as in ordering_test.c.
 */
#include "contract/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>

#define SEEDS_DEFAULT 20

static void run_provider(const char *provider)
{
    const char *one = getenv("PERSEUS_TEST_SEED"), *many = getenv("PERSEUS_TEST_SEEDS");
    uint64_t first = one != NULL ? strtoull(one, NULL, 10) : 1;
    uint64_t count = one != NULL ? 1 : many != NULL ? strtoull(many, NULL, 10) : SEEDS_DEFAULT;
    uint32_t modes = 0;
    for (int mode = PERSEUS_ORDERING_DRAIN; mode <= PERSEUS_ORDERING_COUNTED; mode++) {
        struct world_case what = {
            .fabric = "cudadma", .provider = provider, .ordering = (enum perseus_ordering)mode};
        enum perseus_status status = world_supported(&what);
        print_message("%s %s: %s\n", provider, perseus_ordering_name(what.ordering),
                      status == PERSEUS_OK ? "kept" : perseus_status_string(status));
        if (status != PERSEUS_OK) {
            continue;
        }
        modes++;
        for (uint64_t run = 0; run < count * 3; run++) {
            char why[256];
            what.style = (enum program_style)(run % 3);
            uint64_t seed = first + run / 3;
            if (world_run(&what, seed, why, sizeof why) != NULL) {
                fail_msg("%s, %s, style %d: %s; reproduce with PERSEUS_TEST_SEED=%llu", provider,
                         perseus_ordering_name(what.ordering), (int)what.style, why,
                         (unsigned long long)seed);
            }
        }
    }
    assert_true(modes >= 4); /* drain, drain-peer, deferred and one that never waits */
}

static void test_batch(void **state)
{
    (void)state;
    run_provider("batch");
}

static void test_stream(void **state)
{
    (void)state;
    run_provider("stream");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batch),
        cmocka_unit_test(test_stream),
    };
    return cmocka_run_group_tests_name("ordering contract on copy engines", tests, NULL, NULL);
}
