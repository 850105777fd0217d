/* SPDX-License-Identifier: Apache-2.0 */
/* The ordering contract on an RDMA device, with the adversary in between; tests/rdma/contract.sh
 * runs it. */
#include "contract/every_mode.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#include "support/skip.h"

#define SEEDS 2

static void run_device(void **state)
{
    (void)state;
    struct world_case what = {.fabric = "verbs", .provider = "verbs"};
    every_mode(&what, SEEDS);
}

/* Nothing but the device touches a word here, so its atomics need not be the CPU's. */
static void run_native_atomics(void **state)
{
    (void)state;
    struct world_case what = {.fabric = "verbs", .provider = "verbs", .native_atomics = true};
    every_mode(&what, SEEDS);
}

int main(void)
{
    const struct world_case any = {
        .fabric = "verbs", .provider = "verbs", .ordering = PERSEUS_ORDERING_DRAIN};
    if (world_supported(&any) == PERSEUS_NOT_FOUND) {
        return test_skip("no RDMA device");
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(run_device),
                                       cmocka_unit_test(run_native_atomics)};
    return cmocka_run_group_tests_name("ordering contract on verbs", tests, NULL, NULL);
}
