/* SPDX-License-Identifier: Apache-2.0 */
/* The ordering contract on the copy engines, with the adversary in between. In PERSEUS_CUDA_LIBRARY
 * the scripted driver, or the real one. */
#include "contract/every_mode.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#define SEEDS 10

static void run_provider(void **state)
{
    struct world_case what = {.fabric = "cudadma", .provider = *state};
    every_mode(&what, SEEDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(run_provider, (void *)"batch"),
        cmocka_unit_test_prestate(run_provider, (void *)"stream"),
    };
    return cmocka_run_group_tests_name("ordering contract on copy engines", tests, NULL, NULL);
}
