/* SPDX-License-Identifier: Apache-2.0 */
/* bf16.h: bfloat16 as its 16 bits, and rows between it and float. */
#ifndef PRS_MOE_MATH_BF16_H
#define PRS_MOE_MATH_BF16_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline float prs_bf16_to_f32(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* Round to nearest, ties to even. NaN stays NaN: its quiet bit is set, so that rounding can neither
 * drop the payload to an infinity nor carry into the sign. */
static inline uint16_t prs_bf16_from_f32(float value)
{
    uint32_t wide;
    memcpy(&wide, &value, sizeof wide);
    if ((wide & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)((wide >> 16) | 0x40u);
    }
    return (uint16_t)((wide + 0x7fffu + ((wide >> 16) & 1u)) >> 16);
}

static inline void prs_bf16_row_to_f32(float *out, const uint16_t *bits, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = prs_bf16_to_f32(bits[i]);
    }
}

static inline void prs_bf16_row_from_f32(uint16_t *out, const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = prs_bf16_from_f32(values[i]);
    }
}

#endif
