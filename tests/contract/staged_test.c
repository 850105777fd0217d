/* SPDX-License-Identifier: Apache-2.0 */
/* The ordering contract where heaps are a GPU's and the fabric reaches the host's memory only, with
 * the adversary in between. On the scripted driver, whose GPU's memory may be any. */
#include "contract/every_mode.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static void on_loopback(void **state)
{
    (void)state;
    struct world_case what = {.fabric = "loopback", .provider = "loopback", .staged = true};
    every_mode(&what, 10);
}

/* Slots and counts go one after the other. */
static void on_an_unordered_loopback(void **state)
{
    (void)state;
    struct world_case what = {.fabric = "loopback",
                              .provider = "loopback",
                              .staged = true,
                              .unordered_mask = PRS_ORDER_EVERY_PAIR};
    every_mode(&what, 10);
}

static void on_tcp(void **state)
{
    (void)state;
    struct world_case what = {.provider = "tcp", .staged = true};
    every_mode(&what, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_loopback),
        cmocka_unit_test(on_an_unordered_loopback),
#ifdef PERSEUS_HAVE_LIBFABRIC
        cmocka_unit_test(on_tcp),
#endif
    };
    return cmocka_run_group_tests_name("ordering contract on staged memory", tests, NULL, NULL);
}
