/* SPDX-License-Identifier: Apache-2.0 */
/* Row by row: the values behind the last whole vector are computed with other code, and a row's
 * must be the same wherever it lies.
 *
 * Compiled for vectors (CMakeLists.txt): next to a product of few rows, a call of expf for each
 * value would show. */
#include "moe/math/activation.h"

#include <math.h>

#include "moe/math/bf16.h"

static float silu(float x)
{
    return x / (1.0f + expf(-x));
}

static float gelu(float x)
{
    return 0.5f * x * (1.0f + erff(x * 0.70710678f));
}

void prs_activation_swiglu(uint32_t rows, uint32_t inner, const float *gate, const float *up,
                           size_t stride, enum perseus_moe_dtype type, void *out)
{
    for (uint32_t row = 0; row < rows; row++, gate += stride, up += stride) {
        size_t first = (size_t)row * inner;
        if (type == PERSEUS_MOE_BF16) {
            uint16_t *restrict to = (uint16_t *)out + first;
            for (uint32_t i = 0; i < inner; i++) {
                to[i] = prs_bf16_from_f32(silu(gate[i]) * up[i]);
            }
        } else {
            float *restrict to = (float *)out + first;
            for (uint32_t i = 0; i < inner; i++) {
                to[i] = silu(gate[i]) * up[i];
            }
        }
    }
}

void prs_activation_gelu(uint32_t rows, uint32_t inner, const float *up,
                         enum perseus_moe_dtype type, void *out)
{
    for (uint32_t row = 0; row < rows; row++, up += inner) {
        size_t first = (size_t)row * inner;
        if (type == PERSEUS_MOE_BF16) {
            uint16_t *restrict to = (uint16_t *)out + first;
            for (uint32_t i = 0; i < inner; i++) {
                to[i] = prs_bf16_from_f32(gelu(up[i]));
            }
        } else {
            float *restrict to = (float *)out + first;
            for (uint32_t i = 0; i < inner; i++) {
                to[i] = gelu(up[i]);
            }
        }
    }
}
