/* SPDX-License-Identifier: Apache-2.0 */
/* Percentiles and the line fit, against values worked out by hand. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>

#include "kit/stats_math.h"

static void assert_near(double is, double want)
{
    if (fabs(is - want) > 1e-9 * (1 + fabs(want))) {
        fail_msg("%.12g, expected %.12g", is, want);
    }
}

static void test_percentiles(void **state)
{
    (void)state;
    double eleven[] = {10, 0, 9, 1, 8, 2, 7, 3, 6, 4, 5};
    struct prs_percentiles p = prs_percentiles_of(eleven, 11);
    assert_near(p.p10, 1);
    assert_near(p.median, 5);
    assert_near(p.p90, 9);
    double four[] = {40, 10, 30, 20};
    p = prs_percentiles_of(four, 4);
    assert_near(p.p10, 13);
    assert_near(p.median, 25);
    assert_near(p.p90, 37);
    double one[] = {3};
    p = prs_percentiles_of(one, 1);
    assert_near(p.p10, 3);
    assert_near(p.median, 3);
    assert_near(p.p90, 3);
}

static void test_exact_line(void **state)
{
    (void)state;
    const double x[] = {0, 1e6, 2e6, 4e6}, y[] = {50, 150, 250, 450};
    struct prs_fit fit;
    assert_true(prs_fit_line(x, y, 4, &fit));
    assert_near(fit.alpha, 50);
    assert_near(fit.beta, 1e-4);
    assert_near(fit.r2, 1);
}

static void test_noisy_line(void **state)
{
    (void)state;
    const double x[] = {1, 2, 3}, y[] = {1, 3, 2};
    struct prs_fit fit;
    assert_true(prs_fit_line(x, y, 3, &fit));
    assert_near(fit.beta, 0.5);
    assert_near(fit.alpha, 1);
    assert_near(fit.r2, 0.25);
}

static void test_no_line(void **state)
{
    (void)state;
    const double x[] = {2, 2}, y[] = {1, 3};
    struct prs_fit fit = {-1, -1, -1};
    assert_false(prs_fit_line(x, y, 2, &fit));
    assert_false(prs_fit_line(x, y, 1, &fit));
    assert_near(fit.alpha, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_percentiles),
        cmocka_unit_test(test_exact_line),
        cmocka_unit_test(test_noisy_line),
        cmocka_unit_test(test_no_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
