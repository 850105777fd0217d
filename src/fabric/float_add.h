/* SPDX-License-Identifier: Apache-2.0 */
/*
 * float_add.h: sums of IEEE 754 numbers held as the bits of a word: binary16, binary32, binary64.
 *
 * Rounded to nearest, ties to even, as a GPU's atomic add does; subnormals count; a NaN comes out
 * whenever one goes in, always the same quiet one, as which of two survives is a CPU's affair.
 */
#ifndef PRS_FABRIC_FLOAT_ADD_H
#define PRS_FABRIC_FLOAT_ADD_H

#include <stdint.h>
#include <string.h>

static inline float prs_float_of_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, rest = half & 0x7fffu, bits;
    float value;
    if (rest >= 0x7c00u) { /* infinity, NaN */
        bits = sign | 0x7f800000u | (rest & 0x3ffu) << 13;
    } else if (rest >= 0x400u) {
        bits = sign | ((rest << 13) + (112u << 23));
    } else { /* zero, or a subnormal, which is `rest` units of 2^-24 */
        value = (float)rest * 0x1p-24f;
        return sign != 0 ? -value : value;
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* `shift` low bits go, to nearest, ties to even; the carry may run into the exponent, as it
 * should. */
static inline uint32_t prs_round_shift(uint32_t bits, uint32_t shift)
{
    uint32_t half = 1u << (shift - 1), low = bits & ((1u << shift) - 1), kept = bits >> shift;
    return kept + (low > half || (low == half && (kept & 1) != 0));
}

static inline uint16_t prs_half_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu, half;
    if (rest > 0x7f800000u) {
        half = 0x7e00u;               /* NaN */
    } else if (rest >= 0x477ff000u) { /* from 65520 on: infinity */
        half = 0x7c00u;
    } else if (rest >= 0x38800000u) { /* from 2^-14 on: normal */
        half = prs_round_shift(rest - (112u << 23), 13);
    } else if (rest >= 0x33000000u) { /* from 2^-25 on: units of 2^-24 */
        uint32_t fraction = (rest & 0x7fffffu) | 0x800000u;
        half = prs_round_shift(fraction, 126 - (rest >> 23));
    } else {
        half = 0;
    }
    return (uint16_t)(sign | half);
}

/* A float holds more than twice a half's digits and two, so rounding twice is rounding once. */
static inline uint64_t prs_add_halves(uint64_t a, uint64_t b)
{
    return prs_half_of_float(prs_float_of_half((uint16_t)a) + prs_float_of_half((uint16_t)b));
}

static inline uint64_t prs_add_floats(uint64_t a, uint64_t b)
{
    uint32_t bits[2] = {(uint32_t)a, (uint32_t)b};
    float values[2];
    memcpy(values, bits, sizeof values);
    values[0] += values[1];
    memcpy(bits, values, sizeof bits[0]);
    return values[0] == values[0] ? bits[0] : 0x7fc00000u;
}

static inline uint64_t prs_add_doubles(uint64_t a, uint64_t b)
{
    double values[2];
    memcpy(&values[0], &a, sizeof a);
    memcpy(&values[1], &b, sizeof b);
    values[0] += values[1];
    memcpy(&a, &values[0], sizeof a);
    return values[0] == values[0] ? a : UINT64_C(0x7ff8000000000000);
}

#endif
