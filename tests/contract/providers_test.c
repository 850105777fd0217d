/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same contract on real providers: every mode that they grant, every style of program, with the
 * adversary in between. The arguments are the providers. Few seeds: opening a provider costs
 * milliseconds. PERSEUS_TEST_SEEDS and PERSEUS_TEST_SEED as in ordering_test.c.
 */
#include "contract/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>

#define SEEDS_DEFAULT 4

static void test_provider(void **state)
{
    const char *provider = *state;
    const char *one = getenv("PERSEUS_TEST_SEED"), *many = getenv("PERSEUS_TEST_SEEDS");
    uint64_t first = one != NULL ? strtoull(one, NULL, 10) : 1;
    uint64_t count = one != NULL ? 1 : many != NULL ? strtoull(many, NULL, 10) : SEEDS_DEFAULT;
    uint32_t modes = 0;
    for (int mode = PERSEUS_ORDERING_DRAIN; mode <= PERSEUS_ORDERING_COUNTED; mode++) {
        struct world_case what = {.provider = provider, .ordering = (enum perseus_ordering)mode};
        enum perseus_status status = world_supported(&what);
        print_message("%s %s: %s\n", provider, perseus_ordering_name(what.ordering),
                      status == PERSEUS_OK ? "kept" : perseus_status_string(status));
        if (status != PERSEUS_OK) {
            continue;
        }
        modes++;
        for (uint64_t run = 0; run < count * 6; run++) { /* styles, with and without room */
            char why[256];
            what.style = (enum program_style)(run % 3);
            what.small_pools = run / 3 % 2 != 0;
            uint64_t seed = first + run / 6;
            if (world_run(&what, seed, why, sizeof why) != NULL) {
                fail_msg("%s, %s, style %d%s: %s; reproduce with PERSEUS_TEST_SEED=%llu", provider,
                         perseus_ordering_name(what.ordering), (int)what.style,
                         what.small_pools ? ", small pools" : "", why, (unsigned long long)seed);
            }
        }
    }
    assert_true(modes >= 4); /* drain, drain-peer, deferred and one that never waits */
}

int main(int argc, char **argv)
{
    int failed = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: %s PROVIDER...\n", argv[0]);
        return 2;
    }
    for (int i = 1; i < argc; i++) {
        const struct CMUnitTest tests[] = {
            {.name = argv[i], .test_func = test_provider, .initial_state = argv[i]}};
        failed += cmocka_run_group_tests_name("ordering contract on providers", tests, NULL, NULL);
    }
    return failed;
}
