/* SPDX-License-Identifier: Apache-2.0 */
/* The ordering contract on real providers, with the adversary in between. The arguments are the
 * providers. Few seeds: opening a provider costs milliseconds. */
#include "contract/every_mode.h"

#include <stdarg.h>
#include <stdio.h>
#include <setjmp.h>
#include <cmocka.h>

#define SEEDS 4

static void test_provider(void **state)
{
    struct world_case what = {.provider = *state};
    every_mode(&what, SEEDS);
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
