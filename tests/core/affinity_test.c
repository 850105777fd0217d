/* SPDX-License-Identifier: Apache-2.0 */
/* CPU lists as the kernel writes them. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/job/affinity.h"

static void test_lists(void **state)
{
    (void)state;
    static const int expected[] = {0, 1, 2, 8, 10, 11};
    for (unsigned i = 0; i < 13; i++) {
        int cpu = -1;
        assert_true(prs_affinity_pick("0-2,8,10-11\n", i, false, &cpu));
        assert_int_equal(cpu, expected[i % 6]);
    }
    int cpu = -1;
    assert_true(prs_affinity_pick("5\n", 3, false, &cpu));
    assert_int_equal(cpu, 5);
}

static void test_malformed(void **state)
{
    (void)state;
    static const char *const lists[] = {"", "\n", "x", "-3", "4-2", ",", "0-99999999"};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        int cpu = 77;
        assert_false(prs_affinity_pick(lists[i], 0, false, &cpu));
        assert_int_equal(cpu, 77);
    }
    int cpu = 77;
    assert_false(prs_affinity_of_node(100000, 0, &cpu));
    assert_int_equal(cpu, 77);
}

/* A proxy is not sent to a CPU that its container does not have. */
static void test_allowed_only(void **state)
{
    (void)state;
    cpu_set_t all, one;
    char list[32];
    int cpu = 0, picked = -1;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    while (!CPU_ISSET(cpu, &all)) {
        cpu++;
    }
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    snprintf(list, sizeof list, "0-%d\n", cpu + 7);
    for (unsigned i = 0; i < 5; i++) {
        assert_true(prs_affinity_pick(list, i, true, &picked));
        assert_int_equal(picked, cpu);
    }
    snprintf(list, sizeof list, "%d-%d\n", cpu + 1, cpu + 3);
    assert_false(prs_affinity_pick(list, 0, true, &picked));
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_allowed_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
