/* SPDX-License-Identifier: Apache-2.0 */
/* CPU lists as the kernel writes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/job/affinity.h"

static void test_lists(void **state)
{
    (void)state;
    static const int expected[] = {0, 1, 2, 8, 10, 11};
    for (unsigned i = 0; i < 13; i++) {
        int cpu = -1;
        assert_true(prs_affinity_pick("0-2,8,10-11\n", i, &cpu));
        assert_int_equal(cpu, expected[i % 6]);
    }
    int cpu = -1;
    assert_true(prs_affinity_pick("5\n", 3, &cpu));
    assert_int_equal(cpu, 5);
}

static void test_malformed(void **state)
{
    (void)state;
    static const char *const lists[] = {"", "\n", "x", "-3", "4-2", ",", "0-99999999"};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        int cpu = 77;
        assert_false(prs_affinity_pick(lists[i], 0, &cpu));
        assert_int_equal(cpu, 77);
    }
    int cpu = 77;
    assert_false(prs_affinity_of_node(100000, 0, &cpu));
    assert_int_equal(cpu, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
