/* SPDX-License-Identifier: Apache-2.0 */
/* float_add_test.c: sums of halves against exact arithmetic, of floats and doubles against the
 * CPU's own; and each as an atomic on a word between neighbours that must not change. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/rng.h"
#include "fabric/word.h"

#define INFINITE 0x7c00u

/* What a half stands for, from its definition. */
static double value_of(uint16_t half)
{
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double value = exponent == 31  ? (fraction == 0 ? INFINITY : NAN)
                   : exponent == 0 ? ldexp(fraction, -24)
                                   : ldexp(1024 + fraction, exponent - 25);
    return half & 0x8000 ? -value : value;
}

/* The half nearest to `value`, which is no NaN: of two equally near, the even one. By search. */
static uint16_t nearest(double value)
{
    double size = fabs(value);
    uint16_t sign = signbit(value) ? 0x8000 : 0, low = 0, high = INFINITE;
    while (high - low > 1) { /* positive halves are in the order of their bits */
        uint16_t middle = (uint16_t)((low + high) / 2);
        if (value_of(middle) <= size) {
            low = middle;
        } else {
            high = middle;
        }
    }
    double below = size - value_of(low);
    /* Beyond the largest comes what would be the next number, which is called infinity. */
    double above = (high == INFINITE ? 65536.0 : value_of(high)) - size;
    bool up = above < below || (above == below && low % 2 != 0);
    return (uint16_t)(sign | (up ? high : low));
}

static bool is_nan(uint16_t half)
{
    return (half & 0x7fff) > INFINITE;
}

static void test_every_half_is_a_float_and_back(void **state)
{
    (void)state;
    for (uint32_t half = 0; half <= UINT16_MAX; half++) {
        float value = prs_float_of_half((uint16_t)half);
        if (is_nan((uint16_t)half)) {
            assert_true(isnan(value) && is_nan(prs_half_of_float(value)));
        } else {
            assert_true((double)value == value_of((uint16_t)half));
            assert_int_equal(prs_half_of_float(value), half);
        }
    }
}

static void check_halves(uint16_t a, uint16_t b)
{
    uint16_t sum = (uint16_t)prs_add_halves(a, b);
    double exact = value_of(a) + value_of(b); /* a double holds every sum of two halves */
    if (isnan(exact)) {
        assert_true(is_nan(sum));
    } else {
        assert_int_equal(sum, isinf(exact) ? (exact < 0 ? 0xfc00 : 0x7c00) : nearest(exact));
    }
}

static void test_sums_of_halves_are_rounded_once(void **state)
{
    (void)state;
    struct prs_rng rng = prs_rng_seeded(7);
    for (int i = 0; i < 400000; i++) {
        check_halves((uint16_t)prs_rng_next(&rng), (uint16_t)prs_rng_next(&rng));
    }
    /* Every number next to one, to the largest, to the smallest normal, to an infinity, to a
     * NaN. */
    static const uint16_t edges[] = {0,      0x8000, 1,      0x3c00, 0x7bff,
                                     0xfbff, 0x0400, 0x7c00, 0xfc00, 0x7e01};
    for (uint32_t half = 0; half <= UINT16_MAX; half++) {
        for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
            check_halves((uint16_t)half, edges[i]);
        }
    }
}

static void test_ties_go_to_even_and_overflow_is_infinite(void **state)
{
    (void)state;
    assert_int_equal(prs_add_halves(0x6800, 0x3c00), 0x6800); /* 2048 + 1: tie, down to even */
    assert_int_equal(prs_add_halves(0x6801, 0x3c00), 0x6802); /* 2050 + 1: tie, up to even */
    assert_int_equal(prs_add_halves(0x7bff, 0x4c00),
                     0x7c00); /* 65504 + 16: the first that overflows */
    assert_int_equal(prs_add_halves(0x7bff, 0x4bff), 0x7bff);             /* a little less stays */
    assert_int_equal(prs_add_floats(0x4b800000, 0x3f800000), 0x4b800000); /* 2^24 + 1 */
    assert_int_equal(prs_add_floats(0x7f7fffff, 0x7f7fffff), 0x7f800000);
    assert_int_equal(prs_add_floats(0x7f800000, 0xff800000), 0x7fc00000); /* inf - inf */
    assert_int_equal(prs_add_floats(0xffc00001, 0x7fc00002), 0x7fc00000);
    assert_int_equal(prs_add_doubles(1, 0xfff8000000000001), 0x7ff8000000000000);
    assert_int_equal(prs_add_doubles(0x4340000000000000, 0x3ff0000000000000), 0x4340000000000000);
    assert_int_equal(prs_add_doubles(0x3ff0000000000000, 0x3ff0000000000000), 0x4000000000000000);
}

static void test_a_word_is_added_to_and_its_neighbours_stay(void **state)
{
    (void)state;
    static const struct {
        int op;
        uint32_t bytes;
        uint64_t one, two;
    } rows[] = {{PRS_ATOMIC_ADD_HALF, 2, 0x3c00, 0x4000},
                {PRS_ATOMIC_ADD_FLOAT, 4, 0x3f800000, 0x40000000},
                {PRS_ATOMIC_ADD_DOUBLE, 8, 0x3ff0000000000000, 0x4000000000000000}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        enum perseus_atomic op = (enum perseus_atomic)rows[i].op;
        _Alignas(8) unsigned char room[24];
        memset(room, 0xa5, sizeof room);
        memcpy(room + 8, &rows[i].one, rows[i].bytes);
        /* What stands above the operand's own bytes does not count. */
        uint64_t operand = rows[i].one | (rows[i].bytes < 8 ? UINT64_MAX << 8 * rows[i].bytes : 0);
        uint64_t old = prs_word_apply_sized(room + 8, rows[i].bytes, op, operand, 0), now = 0;
        memcpy(&now, room + 8, rows[i].bytes);
        assert_int_equal(old, rows[i].one);
        assert_int_equal(now, rows[i].two);
        for (size_t at = 0; at < sizeof room; at++) {
            assert_true(room[at] == 0xa5 || (at >= 8 && at < 8 + rows[i].bytes));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_half_is_a_float_and_back),
        cmocka_unit_test(test_sums_of_halves_are_rounded_once),
        cmocka_unit_test(test_ties_go_to_even_and_overflow_is_infinite),
        cmocka_unit_test(test_a_word_is_added_to_and_its_neighbours_stay),
    };
    return cmocka_run_group_tests_name("sums of floats", tests, NULL, NULL);
}
